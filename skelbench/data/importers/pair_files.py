"""Files that belong together: an array of clips with its labels and lengths, and the two parts of a dataset.

Companions of a file are in its folder and share the beginning of its name: ``train_data_joint.npy`` goes with
``train_label.pkl`` (or ``.npy``), ``train_num_frame.npy``, and ``val_data_joint.npy`` or ``test_data_joint.npy``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.annotations import pyskl
from skelbench.data.importers.labels import read_label_file
from skelbench.data.importers.parts import side_of
from skelbench.data.importers.recording import ImportOptions, Recording
from skelbench.data.importers.stgcn_npy import TITLES, Slots, look, slots
from skelbench.data.importers.tables import is_npy, open_npy

_ARRAY = re.compile(r"(?P<prefix>.*?)_?(?:data|position)(?:_.*)?")


def arrays(files: Sequence[Path], options: ImportOptions) -> Recording:
    """Return the recording in one or two arrays of clips, each followed by its labels and, if given, its lengths."""
    groups: list[list[Path]] = []
    for path in files:
        if is_npy(path) and open_npy(path).ndim == 5:
            groups.append([path])
        elif groups:
            groups[-1].append(path)
        else:
            raise SkelbenchError(f"{path} holds no clips; name an array of clips [N, 3, T, J, M] before its labels")
    if len(files) == 1 and (companion := other_part(files[0])):
        groups.append([companion])
    if len(groups) > 2:
        raise SkelbenchError(f"{files[0]}: {len(groups)} arrays of clips are more than a training and a test part")
    parts = {group[0]: _complete(group[0], group[1:], options) for group in groups}
    ordered = [parts[path] for path in _training_first(list(parts))]
    first, last = ordered[0], ordered[-1]
    if (first.kind, first.topology) != (last.kind, last.topology):
        names = " and ".join(f"{part.place} ({TITLES[part.kind]}, {part.topology.name})" for part in ordered)
        raise SkelbenchError(f"{names} are no two parts of one dataset; give two of a kind")
    return slots(ordered, options)


def lists(entries: dict[Path, list[Any]], options: ImportOptions) -> Recording:
    """Return the recording in one or two pickles of annotations without splits, as mmaction2 keeps each part."""
    order = _training_first(list(entries))
    if len(order) == 1:
        return pyskl(entries[order[0]], order[0], options)
    split = {
        part: [entry.get("frame_dir") for entry in entries[path] if isinstance(entry, dict)]
        for part, path in zip(("train", "test"), order, strict=True)
    }
    both = {"split": split, "annotations": [entry for path in order for entry in entries[path]]}
    recording = pyskl(both, order[0], options)
    recording.sources = dict.fromkeys(recording.splits, (order[0].name, order[1].name))
    return recording


def other_part(path: Path) -> Path | None:
    """Return the file next to ``path`` with val or test for train in its name, or the reverse; None = no file."""
    side, rest = side_of(path.name)
    candidates = [
        file
        for file in sorted(path.parent.iterdir())
        for other_side, name in [side_of(file.name)]
        if name == rest and side and other_side and (side == "train") != (other_side == "train")
    ]
    if len(candidates) > 1:
        names = ", ".join(file.name for file in candidates)
        raise SkelbenchError(f"{path}: several files could be its other part ({names}); name both: TRAIN and TEST")
    return candidates[0] if candidates else None


def _training_first(paths: list[Path]) -> list[Path]:
    """Order one or two parts, the training part first: by their names, else as they were given."""
    sides = [side_of(path.stem)[0] for path in paths]
    return paths[::-1] if len(paths) == 2 and (sides[1] == "train" or sides[0] in ("valid", "test")) else paths


def _complete(path: Path, companions: Sequence[Path], options: ImportOptions) -> Slots:
    """Return the array at ``path`` with its labels and lengths, given as ``companions`` or found by their names."""
    table, kind, topology = look(path, options)
    match = _ARRAY.fullmatch(path.stem)
    stem = match["prefix"] if match else path.stem
    usual = [path.with_name(f"{stem}_{end}".lstrip("_")) for end in ("label.pkl", "label.npy", "num_frame.npy")]
    lengths = [file for file in companions if is_npy(file) and "frame" in file.stem]
    labels = [file for file in companions if file not in lengths] or [file for file in usual[:2] if file.exists()][:1]
    lengths = lengths or [file for file in usual[2:] if file.exists()]
    if len(labels) != 1 or len(lengths) > 1:
        reason = "several label files are given" if labels else "there is no label file"
        raise SkelbenchError(f"{path}: {reason}; name it: skelbench data import {path.name} {usual[0].name}")
    values, names = read_label_file(labels[0])
    num_frame = _read_lengths(lengths[0]) if lengths else None
    if num_frame is not None and len(num_frame) != table.shape[0]:
        raise SkelbenchError(f"{path} has {table.shape[0]} clips but {len(num_frame)} lengths")
    about = (table, values, path.name, side_of(path.stem)[0], names)
    return Slots(*about, kind=kind, topology=topology, num_frame=num_frame)


def _read_lengths(path: Path) -> np.ndarray:
    values = np.asarray(open_npy(path)).reshape(-1)
    if values.dtype.kind not in "iu" or not ((values > 0) & (values < 2**31)).all():
        raise SkelbenchError(f"{path}: lengths must be whole numbers from 1; is it the file of lengths?")
    return values.astype(np.int64)
