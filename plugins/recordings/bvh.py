"""BVH: a tree of joints with offsets, and channels of rotations in degrees for each frame.

Rotations apply in the order of a joint's channels. Positions of a joint, if it has such channels, replace its offset.
Units differ between files; centimeters are most common (``--units cm``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from skelbench_plugins.recordings.clips import Item, Motion, files_in, items, recording
from skelbench_plugins.recordings.joint_names import common_names
from skelbench_plugins.recordings.kinematics import positions, rotation

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.recording import ImportOptions, Recording
from skelbench.views.skeleton.topology import NTU25


@dataclass(frozen=True)
class Bvh:
    """Joints of a file, without end sites."""

    names: tuple[str, ...]
    parents: tuple[int, ...]
    x_TJC: np.ndarray
    """Positions, in the unit of the file."""
    seconds: float
    """Time between frames."""


def read_bvh(path: Path) -> Bvh:
    """Return names, parents and positions; ValueError names what is wrong with the file."""
    head, separator, motion = path.read_text(encoding="utf-8", errors="replace").partition("MOTION")
    if not separator or "HIERARCHY" not in head:
        raise ValueError("it has no HIERARCHY and MOTION")
    names: list[str] = []
    parents: list[int] = []
    offsets: list[list[float]] = []
    channels: list[list[str]] = []
    stack: list[int] = []  # joints whose brackets are open; -1 for an end site
    words = iter(head.split())
    for word in words:
        if word in ("ROOT", "JOINT"):
            names.append(next(words))
            parents.append(stack[-1] if stack else -1)
            offsets.append([0.0] * 3)
            channels.append([])
            stack.append(len(names) - 1)
        elif word == "End":
            stack.append(-1)
        elif word == "OFFSET":
            offset = [float(next(words)) for _ in range(3)]
            if stack[-1] >= 0:
                offsets[stack[-1]] = offset
        elif word == "CHANNELS":
            channels[stack[-1]] = [next(words) for _ in range(int(next(words)))]
        elif word == "}":
            stack.pop()
    lines = motion.split("\n")
    facts = {key.strip(): value for key, _, value in (line.partition(":") for line in lines) if value}
    values = np.array(" ".join(line for line in lines if ":" not in line).split(), dtype=np.float64)
    width = sum(len(channel) for channel in channels)
    if not names or not width or len(values) % width or not len(values):
        raise ValueError(f"it has {len(values)} values for {width} channels of {len(names)} joints")
    table = values.reshape(-1, width)
    offset_TJC = np.tile(np.array(offsets), (len(table), 1, 1))
    local_TJCC = np.tile(np.eye(3), (*offset_TJC.shape[:2], 1, 1))
    column = 0
    for j, names_of in enumerate(channels):
        for channel in names_of:
            axis, kind = channel[0].upper(), channel[1:].lower()
            if kind == "position":
                offset_TJC[:, j, "XYZ".index(axis)] = table[:, column]
            else:
                local_TJCC[:, j] = local_TJCC[:, j] @ rotation(table[:, column], axis)
            column += 1
    x_TJC, _ = positions(parents, offset_TJC, local_TJCC)
    return Bvh(tuple(names), tuple(parents), x_TJC, float(facts.get("Frame Time", 1 / 30)))


def bvh(files: Sequence[Path], options: ImportOptions) -> Recording | None:
    """Return the recording in BVH files, converted to ``ntu25`` by default."""
    clips = files_in(files, ".bvh")
    return bvh_recording("BVH", items(files, clips), options, str(files[0])) if clips else None


def bvh_recording(
    kind: str, entries: Sequence[Item], options: ImportOptions, where: str, scale: float = 1.0
) -> Recording:
    """Return the recording in BVH files with the same joints; ``scale``: meters per unit, if the format fixes it."""
    path = entries[0].path
    try:
        first = read_bvh(path)
    except ValueError as error:
        raise SkelbenchError(f"{path} is not a BVH file: {error}; download or copy it again") from error

    def read(path: Path) -> Motion:
        motion = read_bvh(path)
        if motion.names != first.names:
            raise ValueError(f"its joints differ from the joints of {entries[0].path.name}")
        return Motion(scale * motion.x_TJC[None])

    names, fps = common_names(first.names), round(1 / first.seconds, 3)
    return recording(kind, entries, read, NTU25, options, joints=names, fps=fps, where=where)
