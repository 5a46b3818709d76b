"""``skelbench data prepare pku1|pku2``: raw files to a clip store, one read per video.

Clips are the same as in MAMP's script: rows ``start`` to ``end`` - 1, counted from 0, at most the first 300, in camera
coordinates, without denoising. An action whose ``end`` is after the last frame is cut there; the report counts these.

A video has two texts. Frames: one row each of 150 numbers, 2 bodies x 25 joints x (x, y, z) in meters; an absent body
is zero. Labels: rows ``action,start,end,confidence`` with actions from 1.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.raw.files import BadFile, RawFile, list_all
from skelbench.data.raw.pku.names import ACTIONS, parse_split, split_of, video_of
from skelbench.data.raw.report import Converted, Progress, Report
from skelbench.data.store.clip_store import Skipped
from skelbench.data.store.roots import check_name
from skelbench.data.store.splits import NameRule
from skelbench.data.store.writer import Clip

LICENSE = "PKU-MMD terms of use: academic research, no redistribution"


LINEAGE = "mamp-pku/1, rows [start, end), first 300 frames, camera coordinates"
MAX_FRAMES = 300


def prepare_pku(
    which: Literal["pku1", "pku2"],
    raw: Sequence[Path],
    name: str,
    root: Path,
    *,
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Make the store ``root``/``name`` of the videos in ``raw`` (folders, zips): clips ``VIDEO_NUMBER``, by video.

    ``raw`` holds two texts ``VIDEO.txt`` per video, in different folders, and the official split files. Unusable files
    are skipped and reported. Raises :class:`SkelbenchError` if no file is usable or the split files are damaged.
    """
    report = Report(Path(root) / check_name(name))
    videos, splits = _choose(which, raw, report)
    for split, rule in splits.items():
        forgotten = set(videos) - {*rule.train, *(rule.test or ())}
        report.unexpected += [(video, f"in neither list of the split {split}") for video in sorted(forgotten)]
    writer = report.store(
        list(videos.values()),
        partial(convert, which),
        "videos",
        workers=workers,
        chunksize=1,
        progress=progress,
        classes=ACTIONS,
        splits=splits,
        default_split=next(iter(splits)),
        lineage=LINEAGE,
        license=LICENSE,
        details={"videos": len(videos)},
        overwrite=overwrite,
    )
    if empty := sum(skipped.expected for skipped in writer.skipped):
        report.notes.append(f"actions without a body in any of their frames, skipped: {empty}")
    if unfinished := writer.details["unfinished"]:
        report.notes.append(f"actions that end after their video, cut where it ends: {unfinished}")
    return report


def convert(which: str, files: Sequence[RawFile]) -> Converted:
    """Return the clips of a video from its two texts, or the reason why there are none."""
    name = files[0].name.removesuffix(".txt")
    try:
        if len(files) != 2:
            raise BadFile(f"a video needs two files of its name, its frames and its labels; there are {len(files)}")
        texts = sorted((file.read() for file in files), key=_looks_like_labels)
        if _looks_like_labels(texts[0]) or not _looks_like_labels(texts[1]):
            raise BadFile(f"neither of its two files holds {'frames' if _looks_like_labels(texts[0]) else 'labels'}")
        x_TD, labels = parse_frames(texts[0]), parse_labels(texts[1])
    except BadFile as error:
        return [Skipped(name=files[0].name, reason=str(error))], {}
    video = video_of(which, name)
    assert video is not None  # only files with the name of a video are listed
    who = {"subject": video.subject, "camera": video.camera, "setup": video.sequence}
    clips = [_clip(x_TD, f"{name}_{i}", who | {"trial": i}, *label) for i, label in enumerate(labels)]
    unfinished = sum(end > len(x_TD) and isinstance(clip, Clip) for clip, (_, _, end) in zip(clips, labels))
    frames = sum(clip.x_MTJC.shape[1] for clip in clips if isinstance(clip, Clip))
    return clips, {"frames": frames, "unfinished": unfinished}


def _looks_like_labels(text: bytes) -> bool:
    """Whether a text holds labels: it has commas, or is empty because the video has no action."""
    return b"," in text[:1000] or not text.strip()


def parse_frames(data: bytes) -> np.ndarray:
    """Return the rows of a video as float32 [T, 150]; :class:`BadFile` names a bad row."""
    try:
        x_TD = np.loadtxt(io.BytesIO(data), comments=None, ndmin=2)
    except ValueError as error:
        raise BadFile(str(error)[:80]) from None
    if x_TD.shape[1] != 150:
        raise BadFile(f"its rows have {x_TD.shape[1]} numbers, not 150")
    with np.errstate(over="ignore"):  # too large a number becomes infinite
        return x_TD.astype(np.float32)


def parse_labels(data: bytes) -> list[list[int]]:
    """Return (action, start, end) of every row of a label file; :class:`BadFile` if a row is no label."""
    if not data.strip():
        return []
    try:
        rows = np.loadtxt(io.BytesIO(data), comments=None, delimiter=",", usecols=(0, 1, 2), ndmin=2)
    except ValueError as error:
        raise BadFile(f"it holds no labels (action,start,end,confidence): {str(error)[:80]}") from None
    if not np.isfinite(rows).all() or (rows != np.floor(rows)).any():
        raise BadFile("its labels (action,start,end,confidence) are not whole numbers")
    return [[int(value) for value in row] for row in rows.tolist()]


def _clip(x_TD: np.ndarray, name: str, who: dict[str, int], action: int, start: int, end: int) -> Clip | Skipped:
    if not 1 <= action <= len(ACTIONS):
        return Skipped(name=name, reason=f"action {action} is not one of 1 to {len(ACTIONS)}")
    if not 0 <= start < min(end, len(x_TD)):
        return Skipped(name=name, reason=f"frames {start} to {end} do not lie in a video of {len(x_TD)} frames")
    x_TD = x_TD[start:end][:MAX_FRAMES]
    if not x_TD.any():
        return Skipped(name=name, reason="there is no body in any of its frames", expected=True)
    if not np.isfinite(x_TD).all():
        frame = start + int(np.argmin(np.isfinite(x_TD).all(axis=1)))
        return Skipped(name=name, reason=f"frame {frame} has a coordinate that is not finite")
    x_MTJC = np.ascontiguousarray(x_TD.reshape(-1, 2, 25, 3).transpose(1, 0, 2, 3))
    return Clip(x_MTJC, action - 1, name=name, who=who)


def _choose(which: str, raw: Sequence[Path], report: Report) -> tuple[dict[str, list[RawFile]], dict[str, NameRule]]:
    """Return the files of every video by its name, in order of name, and the splits."""
    videos: dict[str, list[RawFile]] = {}
    rules: dict[str, NameRule] = {}
    unrelated = []
    for file in list_all(raw):
        stem, split = file.name.removesuffix(".txt"), split_of(file.name)
        if split:
            try:
                rule = parse_split(which, file.read())
            except BadFile as error:
                raise SkelbenchError(f"{file.name}: {error}; download the split files again") from None
            if rule is None:
                unrelated.append(file)
            elif rules.setdefault(split, rule) != rule:
                raise SkelbenchError(f"{file.name}: there are two files for the split {split} that differ; remove one")
        elif file.name.endswith(".txt") and video_of(which, stem):
            videos.setdefault(stem, []).append(file)
        else:
            unrelated.append(file)
    places, example = ", ".join(map(str, raw)), "A01N01-L.txt" if which == "pku2" else "0002-L.txt"
    if not videos:
        raise SkelbenchError(f"{places}: no file with a name like {example}; name another place")
    if not rules:
        raise SkelbenchError(f"{places}: no split file like cross_subject_v2.txt; name its place with a second --raw")
    report.ignore(unrelated, "other files")
    return dict(sorted(videos.items())), dict(sorted(rules.items()))
