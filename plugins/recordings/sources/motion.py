"""Motion capture in BVH files: Bandai Namco Research's motion dataset and 100STYLE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from skelbench_plugins.recordings.bvh import bvh_recording
from skelbench_plugins.recordings.clips import Item, files_in

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.recording import ImportOptions, Recording

_BANDAI = re.compile(r"dataset-([12])_(.+)_(.+)_(\d+)")
_STYLE = re.compile(r"(.+)_([A-Z]{2}\d?)")
CLIP_SECONDS = 4.0


def bandai(files: Sequence[Path], options: ImportOptions) -> Recording:
    """Return both sets: classes are the contents (walk, run, ...), the trial is 1 or 2, by the set; no subjects.

    All clips have one skeleton, so body sizes do not vary. The files do not name the actors.
    """
    matches = [(path, _BANDAI.fullmatch(path.stem)) for path in files_in(files, ".bvh")]
    entries = [
        Item(path, path.stem, match[2], {"trial": int(match[1])}) for path, match in matches if match is not None
    ]
    return _recording("Bandai Namco motion dataset, BVH", entries, options, files)


def style100(files: Sequence[Path], options: ImportOptions) -> Recording:
    """Return 100STYLE, cut into clips of 4 seconds: classes are the styles; one actor."""
    matches = [(path, _STYLE.fullmatch(path.stem)) for path in files_in(files, ".bvh")]
    entries = [Item(path, path.stem, match[1]) for path, match in matches if match is not None]
    options = replace(options, clip_seconds=options.clip_seconds or CLIP_SECONDS)
    return _recording("100STYLE, BVH", entries, options, files)


def _recording(kind: str, entries: Sequence[Item], options: ImportOptions, files: Sequence[Path]) -> Recording:
    """Return the recording of BVH files in centimeters."""
    if not entries:
        raise SkelbenchError(f"{files[0]} has no BVH files with the names of {kind}; name its folder or zip file")
    return bvh_recording(kind, entries, options, str(files[0]), scale=0.01)
