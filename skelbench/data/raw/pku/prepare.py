"""``skelbench data prepare pku1|pku2``: raw files to a clip store, one read per video.

What MAMP's script does is the default: a clip is the rows from ``start`` up to but without ``end``, counted from 0; of
a longer one the first 300 are kept; coordinates stay the camera's; nothing is denoised. An action whose ``end`` lies
behind the video's ends with the video, as there, and is flagged and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.raw.files import BadFile, RawFile, list_all
from skelbench.data.raw.origin import centre
from skelbench.data.raw.pku.names import ACTIONS, parse_split, split_of, video_of
from skelbench.data.raw.pku.text import Action, parse_frames, parse_labels
from skelbench.data.raw.report import Converted, Progress, Report
from skelbench.data.store.clip_store import Flag, Skipped
from skelbench.data.store.roots import check_name
from skelbench.data.store.splits import NameRule
from skelbench.data.store.writer import Clip
from skelbench.views.skeleton.topology import NTU25

LICENCE = "PKU-MMD terms of use: academic research, no redistribution"


@dataclass(frozen=True)
class Cut:
    """Settings of cutting clips from videos; the authors document none, so other code may differ."""

    frame_base: Literal[0, 1] = 0
    """0 = rows ``start`` up to, without, ``end``, counted from 0 (MAMP); 1 = ``start`` to ``end``, both, from 1."""
    max_frames: int = 300
    """Longest clip; 0 = as long as they are."""
    keep: Literal["first", "middle"] = "first"
    """Part of a longer clip that is kept."""
    centre: Literal["none", "first-frame"] = "none"
    """"first-frame" = relative to the middle of the first body's spine when it is first seen, as in NTU RGB+D."""

    @property
    def lineage(self) -> str:
        """Description in one line."""
        rows = "rows [start, end)" if self.frame_base == 0 else "rows start to end from 1"
        length = f"{self.keep} {self.max_frames} frames" if self.max_frames else "uncut"
        centre = "camera coordinates" if self.centre == "none" else "centred as NTU RGB+D is"
        return f"{'mamp-pku/1' if self == Cut() else 'pku/1'}, {rows}, {length}, {centre}"


def prepare_pku(
    which: Literal["pku1", "pku2"],
    raw: Sequence[Path],
    name: str,
    root: Path,
    *,
    cut: Cut = Cut(),  # noqa: B008
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Make the store ``root``/``name`` of the videos in ``raw`` (folders, zips): clips ``VIDEO_NUMBER``, by video.

    ``raw`` holds two texts ``VIDEO.txt`` per video, in different folders, and the official split files. What cannot be
    used is reported and the rest goes on; :class:`SkelbenchError` if that is all, or for want of sound split files.
    """
    report = Report(Path(root) / check_name(name))
    videos, splits = _choose(which, raw, report)
    for split, rule in splits.items():
        forgotten = set(videos) - {*rule.train, *(rule.test or ())}
        report.unexpected += [(video, f"in neither list of the split {split}") for video in sorted(forgotten)]
    writer = report.store(
        list(videos.values()),
        partial(convert, which, cut=cut),
        "videos",
        workers=workers,
        chunksize=1,
        progress=progress,
        classes=ACTIONS,
        splits=splits,
        default_split=next(iter(splits)),
        lineage=cut.lineage,
        licence=LICENCE,
        details=asdict(cut) | {"videos": len(videos)},
        overwrite=overwrite,
    )
    if empty := sum(skipped.expected for skipped in writer.skipped):
        report.notes.append(f"actions without a body in any of their frames, left out: {empty}")
    if unfinished := sum(flags & Flag.UNFINISHED != 0 for flags in writer.index["flags"]):
        report.notes.append(f"actions that end after their video, cut where it ends: {unfinished}")
    return report


def convert(which: str, files: Sequence[RawFile], cut: Cut) -> Converted:
    """Return the clips of a video from its two texts, or the reason why there are none."""
    name = files[0].name.removesuffix(".txt")
    try:
        if len(files) != 2:
            raise BadFile(f"a video needs two files of its name, its frames and its labels; there are {len(files)}")
        texts = sorted((file.read() for file in files), key=_looks_like_labels)
        if _looks_like_labels(texts[0]) or not _looks_like_labels(texts[1]):
            raise BadFile(f"neither of its two files holds {'frames' if _looks_like_labels(texts[0]) else 'labels'}")
        x_TD, actions = parse_frames(texts[0]), parse_labels(texts[1])
    except BadFile as error:
        return [Skipped(name=files[0].name, reason=str(error))], {}
    video = video_of(which, name)
    assert video is not None  # files of other names are none of the videos
    who = {"subject": video.subject, "camera": video.camera, "setup": video.sequence}
    clips = [_clip(x_TD, f"{name}_{i}", who | {"trial": i}, action, cut) for i, action in enumerate(actions)]
    return clips, {"frames": sum(clip.x_MTJC.shape[1] for clip in clips if isinstance(clip, Clip))}


def _looks_like_labels(text: bytes) -> bool:
    """Labels have commas, and a video without an action has nothing."""
    return b"," in text[:1000] or not text.strip()


def _clip(x_TD: np.ndarray, name: str, who: dict[str, int], action: Action, cut: Cut) -> Clip | Skipped:
    start, end = action.start - cut.frame_base, action.end
    if not 1 <= action.action <= len(ACTIONS):
        return Skipped(name=name, reason=f"action {action.action} is not one of 1 to {len(ACTIONS)}")
    if not 0 <= start < min(end, len(x_TD)):
        reason = f"frames {action.start} to {action.end} do not lie in a video of {len(x_TD)} frames"
        return Skipped(name=name, reason=reason)
    x_TD = x_TD[start:end]
    if not x_TD.any():
        return Skipped(name=name, reason="there is no body in any of its frames", expected=True)
    flags, frames, first = Flag.UNFINISHED if end > start + len(x_TD) else Flag(0), len(x_TD), 0
    if 0 < cut.max_frames < frames:
        first = (frames - cut.max_frames) // 2 if cut.keep == "middle" else 0
        x_TD, flags = x_TD[first : first + cut.max_frames], flags | Flag.TRUNCATED
        if not x_TD.any():
            return Skipped(name=name, reason="there is no body in the frames that are kept of it", expected=True)
    if not np.isfinite(x_TD).all():
        frame = start + first + int(np.argmin(np.isfinite(x_TD).all(axis=1)))
        return Skipped(name=name, reason=f"frame {frame} has a coordinate that is not finite")
    x_MTJC = x_TD.reshape(-1, 2, 25, 3).transpose(1, 0, 2, 3)
    origin = np.zeros(3, dtype=np.float32)
    if cut.centre == "first-frame":
        x_MTJC, origin = centre(x_MTJC, NTU25.center)
    return Clip(np.ascontiguousarray(x_MTJC), action.action - 1, origin, name, who, flags, frames)


def _choose(which: str, raw: Sequence[Path], report: Report) -> tuple[dict[str, list[RawFile]], dict[str, NameRule]]:
    """The files of every video by its name, in order of name, and the splits."""
    videos: dict[str, list[RawFile]] = {}
    rules: dict[str, NameRule] = {}
    others = []
    for file in list_all(raw):
        stem, split = file.name.removesuffix(".txt"), split_of(file.name)
        if split:
            try:
                rule = parse_split(which, file.read())
            except BadFile as error:
                raise SkelbenchError(f"{file.name}: {error}; download the split files again") from None
            if rule is None:
                others.append(file)
            elif rules.setdefault(split, rule) != rule:
                raise SkelbenchError(f"{file.name}: there are two files for the split {split} that differ; remove one")
        elif file.name.endswith(".txt") and video_of(which, stem):
            videos.setdefault(stem, []).append(file)
        else:
            others.append(file)
    places, example = ", ".join(map(str, raw)), "A01N01-L.txt" if which == "pku2" else "0002-L.txt"
    if not videos:
        raise SkelbenchError(f"{places}: no file with a name like {example}; name another place")
    if not rules:
        raise SkelbenchError(f"{places}: no split file like cross_subject_v2.txt; name its place with a second --raw")
    report.ignore(others, "other files")
    return dict(sorted(videos.items())), dict(sorted(rules.items()))
