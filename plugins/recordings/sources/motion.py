"""Motion capture in BVH files: Bandai Namco Research's motion dataset and 100STYLE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from skelbench_plugins.recordings.bvh import read_bvh
from skelbench_plugins.recordings.clips import Item, Motion, files_in, recording
from skelbench_plugins.recordings.joint_names import common_names

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.recording import ImportOptions, Recording
from skelbench.views.skeleton.topology import NTU25

_BANDAI = re.compile(r"dataset-([12])_(.+)_(.+)_(\d+)")
_STYLE = re.compile(r"(.+)_([A-Z]{2}\d?)")
CLIP_SECONDS = 4.0


def bandai(files: Sequence[Path], options: ImportOptions) -> Recording:
    """Return both sets: classes are the contents (walk, run, ...), the trial is 1 or 2, by the set; no subjects.

    All clips have one skeleton, so body sizes do not vary, and actors are not told.
    """
    matches = [(path, _BANDAI.fullmatch(path.stem)) for path in files_in(files, ".bvh")]
    entries = [
        Item(path, path.stem, match[2], {"trial": int(match[1])}) for path, match in matches if match is not None
    ]
    return _recording("Bandai Namco motion dataset, BVH", entries, options, files, 30.0)


def style100(files: Sequence[Path], options: ImportOptions) -> Recording:
    """Return 100STYLE, cut into clips of 4 seconds: classes are the styles; one actor."""
    matches = [(path, _STYLE.fullmatch(path.stem)) for path in files_in(files, ".bvh")]
    entries = [Item(path, path.stem, match[1]) for path, match in matches if match is not None]
    options = replace(options, clip_seconds=options.clip_seconds or CLIP_SECONDS)
    return _recording("100STYLE, BVH", entries, options, files, 60.0)


def _recording(
    kind: str, entries: Sequence[Item], options: ImportOptions, files: Sequence[Path], fps: float
) -> Recording:
    """Return the recording of BVH files in centimeters with one skeleton, converted to ``ntu25``."""
    if not entries:
        raise SkelbenchError(f"{files[0]} has no BVH files with the names of {kind}; name its folder or zip file")
    first = read_bvh(entries[0].path)

    def read(path: Path) -> Motion:
        motion = read_bvh(path)
        if motion.names != first.names:
            raise ValueError(f"its joints differ from the joints of {entries[0].path.name}")
        return Motion(motion.x_TJC[None] / 100)

    names = common_names(first.names)
    return recording(kind, entries, read, NTU25, options, joints=names, fps=fps, where=str(files[0]))
