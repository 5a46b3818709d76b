"""Made NTU RGB+D recordings: `.skeleton` text of the size and the oddities of the real ones, for tests and benchmarks.

A scene says who is seen in which frames; :func:`write_recording` puts it into text. Shares of the oddities are those
assumed for the real data: two persons 18 %, short flickers 10 %, furniture taken for a person 6 %, a person whose
tracking id changes 3 %, one who is out of sight for a while 2 %, a third person 4 %, frames without anybody 3 %.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FIRST_ID = 72057594037931000
"""Tracking ids of realistic size: 2^56 and more, so that neighbors are one number in float64."""

# A standing person facing the camera, meters from the spine base: x to the right in the picture, y up, z away.
_POSE_JC = np.array(
    [
        (0, 0, 0), (0, 0.32, 0), (0, 0.62, 0), (0, 0.76, -0.04), (-0.17, 0.5, 0), (-0.24, 0.24, 0.02),
        (-0.26, 0, -0.06), (-0.26, -0.07, -0.08), (0.17, 0.5, 0), (0.24, 0.24, 0.02), (0.26, 0, -0.06),
        (0.26, -0.07, -0.08), (-0.08, -0.01, 0), (-0.1, -0.4, -0.03), (-0.1, -0.78, 0), (-0.11, -0.84, -0.12),
        (0.08, -0.01, 0), (0.1, -0.4, -0.03), (0.1, -0.78, 0), (0.11, -0.84, -0.12), (0, 0.54, 0),
        (-0.26, -0.14, -0.1), (-0.22, -0.08, -0.12), (0.26, -0.14, -0.1), (0.22, -0.08, -0.12),
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Track:
    """A body with its tracking id, seen in some frames: ``x_TJC`` float64 [len(frames), 25, 3], camera coordinates."""

    id: int | str
    frames: np.ndarray
    x_TJC: np.ndarray


def person(rng: np.random.Generator, frames: int, place: float = 0.0, liveliness: float = 1.0) -> np.ndarray:
    """Somebody standing ``place`` meters to the right who sways and turns: float64 [T, 25, 3]."""
    t = np.arange(frames)[:, None] / 30
    hertz, phase = rng.uniform(0.1, 0.8, (2, 4)), rng.uniform(0, 2 * np.pi, (2, 4))
    sway_T4 = liveliness * sum(np.sin(2 * np.pi * hertz[i] * t + phase[i]) for i in range(2))
    angle_T = 0.2 * sway_T4[:, 3]
    x_JC = _POSE_JC * rng.uniform(0.9, 1.1)
    x_TJC = np.empty((frames, 25, 3))
    x_TJC[..., 0] = np.cos(angle_T)[:, None] * x_JC[:, 0] + np.sin(angle_T)[:, None] * x_JC[:, 2]
    x_TJC[..., 1] = x_JC[:, 1]
    x_TJC[..., 2] = np.cos(angle_T)[:, None] * x_JC[:, 2] - np.sin(angle_T)[:, None] * x_JC[:, 0]
    x_TJC += sway_T4[:, None, :3] * (0.08, 0.03, 0.08) + rng.normal(0, 0.003, x_TJC.shape)
    return x_TJC + (place + rng.normal(0, 0.2), rng.normal(0, 0.15), rng.uniform(2.2, 4.2))


def furniture(rng: np.random.Generator, frames: int) -> np.ndarray:
    """A table taken for a person: far wider than high, in most frames."""
    x_TJC = np.zeros((frames, 25, 3))
    x_TJC[..., 0] = rng.uniform(-0.7, 0.7, 25)
    x_TJC[..., 1] = rng.uniform(-0.15, 0.15, 25)
    return x_TJC + rng.normal(0, 0.004, x_TJC.shape) + (rng.normal(0.5, 0.3), -0.5, rng.uniform(2.5, 4.5))


def scene(rng: np.random.Generator, frames: int) -> list[Track]:
    """Who is in front of the camera, with oddities as often as in the real data (see the module)."""
    ids = iter((FIRST_ID + np.cumsum(rng.integers(1, 3, 9))).tolist())
    seen = np.arange(frames)
    if rng.uniform() < 0.03:  # nobody is found at first, or for a moment
        gap = rng.integers(1, 6)
        start = 0 if rng.uniform() < 0.5 else int(rng.integers(1, frames - gap))
        seen = np.delete(seen, np.arange(start, start + gap))
    kind = rng.uniform()
    if kind < 0.03:  # the id changes, with or without the old one lingering for a frame
        cut, both = int(rng.integers(14, len(seen) - 14)), int(rng.integers(0, 2))
        x_TJC = person(rng, len(seen))
        tracks = [Track(next(ids), seen[: cut + both], x_TJC[: cut + both]), Track(next(ids), seen[cut:], x_TJC[cut:])]
    elif kind < 0.05:  # out of sight for a while; somebody else stays, so that no frame is empty
        hole = int(rng.integers(8, len(seen) // 2))
        start = int(rng.integers(1, len(seen) - hole))
        keep = np.r_[0:start, start + hole : len(seen)]
        tracks = [Track(next(ids), seen[keep], person(rng, len(keep)))]
        tracks.append(Track(next(ids), seen, person(rng, len(seen), 0.9, 0.5)))
    else:
        tracks = [Track(next(ids), seen, person(rng, len(seen)))]
        if kind < 0.23:
            tracks.append(Track(next(ids), seen, person(rng, len(seen), 0.9, rng.uniform(0.3, 1.5))))
    if rng.uniform() < 0.04:
        tracks.append(Track(next(ids), seen[5:-3], person(rng, len(seen) - 8, -0.9, 0.3)))
    if rng.uniform() < 0.10:
        length, start = int(rng.integers(1, 12)), int(rng.integers(0, len(seen) - 12))
        tracks.append(Track(next(ids), seen[start : start + length], person(rng, length, 0.4)))
    if rng.uniform() < 0.06:
        start = int(rng.integers(0, len(seen) // 2))
        tracks.append(Track(next(ids), seen[start:], furniture(rng, len(seen) - start)))
    return tracks


def wild_scene(rng: np.random.Generator, frames: int) -> list[Track]:
    """Up to five tracks seen at random, with holes, touching ends, gaps that nobody fills, and furniture."""
    tracks: list[Track] = []
    for identity in (FIRST_ID + rng.permutation(9)[: rng.integers(1, 6)]).tolist():
        start = int(rng.integers(0, max(1, frames - 12))) if rng.uniform() < 0.7 else 0
        end = min(frames, start + int(rng.integers(1, frames))) if rng.uniform() < 0.8 else frames
        seen = np.arange(start, end)
        if rng.uniform() < 0.3:
            seen = seen[rng.uniform(size=len(seen)) < rng.uniform(0.3, 1)]
        if tracks and rng.uniform() < 0.3:  # begins where another ended, or one frame before
            first = int(max(tracks[-1].frames, default=0)) + int(rng.integers(0, 2))
            seen = np.arange(first, min(frames, first + len(seen)))
        x_TJC = person(rng, len(seen), rng.normal(0, 0.5), rng.uniform(0, 2))
        wide = rng.uniform(size=len(seen)) < rng.choice([0, 0.2, 0.69, 0.71, 1])
        x_TJC[wide] = furniture(rng, int(wide.sum()))
        tracks.append(Track(identity, seen, x_TJC))
    return tracks


def write_recording(tracks: Sequence[Track], frames: int, end: str = "\r\n", digits: int = 7) -> bytes:
    """The text of a `.skeleton` file: ``frames`` frames, lines ending in ``end``, ``digits`` significant digits."""
    joint = " ".join([f"%.{digits}g"] * 3 + [f"%.{digits}g"] * 8 + ["2"]) + end
    block = "%s 0 1 1 1 1 0 0.02764709 -0.05745083 2" + end + "25" + end + joint * 25
    lines: list[list[str]] = [[] for _ in range(frames)]
    for track in tracks:
        x_TJC = np.asarray(track.x_TJC)
        values = np.zeros((*x_TJC.shape[:2], 11))
        values[..., :3] = x_TJC
        with np.errstate(all="ignore"):
            depth = np.nan_to_num(x_TJC[..., 2], nan=1.0, posinf=1.0, neginf=1.0)
            flat = np.nan_to_num(x_TJC[..., :2], nan=0.0, posinf=0.0, neginf=0.0)
            depth = np.where(np.abs(depth) < 0.1, 1.0, depth)[..., None]
            values[..., 3:5] = 256 + 366 * flat / depth * (1, -1)
            values[..., 5:7] = 960 + 1060 * flat / depth * (1, -1)
        values[..., 7:11] = np.sin(7.3 * np.arange(4) + 3 * flat.sum(-1, keepdims=True))
        values[:, [3, 15, 19, 21, 22, 23, 24], 7:11] = 0  # end joints have no orientation
        for frame, row in zip(track.frames, values.reshape(len(x_TJC), 275).tolist(), strict=True):
            lines[frame].append(block % (track.id, *row))
    parts = [f"{frames}{end}"]
    for bodies in lines:
        parts += [f"{len(bodies)}{end}", *bodies]
    return "".join(parts).encode()


def sample_names(count: int, setups: int, actions: int, performers: int) -> list[str]:
    """``count`` names, all different, that spread over setups, cameras, performers, repetitions and actions."""
    names: dict[str, None] = {}
    i = 0
    while len(names) < count:
        setup, action = 1 + i % setups, 1 + (i // 3) % actions
        if (setup > 17) != (action > 60):  # the second half of NTU RGB+D 120 has actions of its own
            action = (action + 59) % 120 + 1
        numbers = (setup, 1 + i % 3, 1 + (i * 7 + i // performers) % performers, 1 + (i // 5) % 2, action)
        names.setdefault("S{:03}C{:03}P{:03}R{:03}A{:03}".format(*numbers))
        i += 1
    return sorted(names)


def make_recordings(
    folder: Path, count: int, seed: int = 0, setups: int = 17, actions: int = 60, performers: int = 40
) -> int:
    """``count`` files of about 275 KB (40 to 150 frames, one of 300) in ``folder``; returns their bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for i, name in enumerate(sample_names(count, setups, actions, performers)):
        rng = np.random.default_rng([seed, i])
        frames = 300 if i == count // 2 else int(rng.integers(40, 131))
        text = write_recording(scene(rng, frames), frames)
        (folder / f"{name}.skeleton").write_bytes(text)
        written += len(text)
    return written


def link_recordings(folder: Path, copies: Path, times: int) -> None:
    """Make hard links to all files of ``folder`` under ``times`` times as many names, of other people."""
    files = sorted(folder.glob("*.skeleton"))
    copies.mkdir(parents=True, exist_ok=True)
    for name, i in zip(sample_names(times * len(files), 17, 60, 40), range(times * len(files))):
        os.link(files[i % len(files)], copies / f"{name}.skeleton")
