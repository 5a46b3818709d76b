"""pyskl's pickles: a dictionary of ``split`` (name -> list of clips) and ``annotations``, or a list of annotations.

An annotation is a dictionary: ``frame_dir`` (the clip's name), ``label``, ``keypoint`` [M, T, J, 3] in camera
coordinates, or [M, T, J, 2] in pixels with ``keypoint_score`` [M, T, J] and ``img_shape`` (height, width). None stands
for a recording that shows nobody. Bodies are untracked: body m of one frame need not be body m of the next.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import ntu
from skelbench.data.importers.bodies import Unusable, choose_topology
from skelbench.data.importers.labels import random_split, whole
from skelbench.data.importers.parts import side_of
from skelbench.data.importers.pose2d import FlatPose, flat_clip
from skelbench.data.importers.recording import Entries, ImportOptions, Recording
from skelbench.data.raw.ntu.names import who
from skelbench.data.raw.ntu.prepare import LICENCE
from skelbench.data.store.splits import ALIASES, NameRule, Rule, by_field
from skelbench.data.store.writer import Clip


def is_annotations(value: Any) -> bool:
    """Whether an unpickled value has this layout, right or wrong in its details."""
    if isinstance(value, dict):
        return "annotations" in value
    return isinstance(value, list) and any(isinstance(entry, dict) and "frame_dir" in entry for entry in value[:100])


def pyskl(value: Any, path: Path, options: ImportOptions) -> Recording:
    """Return the recording in an unpickled file."""
    split, entries = (value.get("split", {}), value["annotations"]) if isinstance(value, dict) else ({}, value)
    if not isinstance(entries, list | tuple) or not entries:
        raise SkelbenchError(f"{path}: annotations must be a list with at least one entry; check the file")
    good = [entry for entry in entries if isinstance(entry, dict)]
    arrays = [entry["keypoint"] for entry in good if isinstance(entry.get("keypoint"), np.ndarray)]
    if not arrays or any("frame_inds" in entry for entry in good[:100]):
        advice = "save them so, or expand Kinetics-400's packed ones with pyskl's DecompressPose"
        raise SkelbenchError(f"{path}: its annotations have no numpy arrays of key points; {advice}")
    # The most frequent shape: a single annotation that differs is skipped.
    usual, _ = Counter((array.ndim, array.shape[2:]) for array in arrays).most_common(1)[0]
    shape = next(array.shape for array in arrays if (array.ndim, array.shape[2:]) == usual)
    if len(shape) != 4 or shape[3] not in (2, 3):
        raise SkelbenchError(f"{path}: key points must be [bodies, frames, joints, 2 or 3], not {list(shape)}")
    topology = choose_topology(shape[2], options.topology, str(path))
    labels, _ = whole([entry.get("label") for entry in good], str(path))
    names: list[str] = [entry.get("frame_dir") or "" for entry in good]
    if not all(isinstance(name, str) and name for name in names):
        raise SkelbenchError(f"{path}: an annotation has no frame_dir; give every clip its name")
    index = ntu.index_of(names)
    splits, sources = _splits(split, names, labels, index, path)
    flat = FlatPose(options) if shape[3] == 2 else None
    lineage = f"pyskl ({arrays[0].dtype}), centred at {topology.joints[topology.center]} of the first frame"
    label_of = dict(zip(names, labels.tolist()))

    def read(entry: Any) -> Clip:
        x_MTJC = _points(entry, (topology.num_joints, shape[3]))
        name = entry["frame_dir"]
        clip = Clip(x_MTJC, label_of[name], name=name, who=who(name))
        if flat is None:
            return clip
        score = entry.get("keypoint_score")
        if not isinstance(score, np.ndarray) or score.shape != x_MTJC.shape[:3] or score.dtype.kind not in "fiu":
            raise Unusable("it has no keypoint_score for each of its key points")
        return flat_clip(clip._replace(confidence_MTJ=score), topology.center, flat, entry.get("img_shape"))

    def clips() -> Entries:
        for row, entry in enumerate(entries):
            yield entry["frame_dir"] if isinstance(entry, dict) else f"annotation {row}", partial(read, entry)

    return Recording(
        kind=f"pyskl pickle, {shape[3]}-D",
        clips={str(path): clips},
        total=len(entries),
        topology=topology,
        classes=ntu.class_names(labels, index),
        splits=splits,
        sources=sources,
        lineage=f"pyskl 2-D, {flat.lineage}" if flat else lineage,
        flat=flat is not None,
        licence=LICENCE if index is not None else "",
    )


def _splits(
    split: Any, names: list[str], labels: np.ndarray, index: Mapping[str, np.ndarray] | None, path: Path
) -> tuple[dict[str, Rule], dict[str, tuple[str, str]]]:
    """Return rules, and the lists that they come from."""
    if not isinstance(split, dict) or not all(isinstance(value, list | tuple | np.ndarray) for value in split.values()):
        raise SkelbenchError(f"{path}: split must name lists of clips; correct it")
    rules: dict[str, Rule] = {}
    sources: dict[str, tuple[str, str]] = {}
    annotated = set(names)
    for key, test_key, name in _pairs(split):
        train, test = (tuple(clip for clip in split[part] if clip in annotated) for part in (key, test_key))
        if not train or not test:
            continue
        if set(train) & set(test):
            raise SkelbenchError(f"{path}: {key} and {test_key} share clips; correct its split")
        name = f"{name}-{test_key}" if name in rules else name
        rule: Rule = NameRule(field="name", train=train, test=test)
        full = ALIASES.get(name, name)
        if index is not None and (usual := ntu.splits_of(index).get(full)):  # the lists may follow from sample names
            sides = [{names[row] for row in np.flatnonzero(side)} for side in by_field(usual, index)]
            if sides == [set(train), set(test)]:
                name, rule = full, usual
        rules[name], sources[name] = rule, (f"list {key}", f"list {test_key}")
    if not rules and index is not None:
        rules = {**ntu.splits_of(index)}
    lists = [key for key, value in split.items() if not annotated.isdisjoint(value)]
    if not rules and lists:
        raise SkelbenchError(f"{path}: no two of its lists {lists!r:.200} train and test; call them train and test")
    return rules or random_split(labels, str(path), "lists of their names under split"), sources


def _pairs(split: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Iterate over (training list, test list, name of the split) for lists that belong together by their names.

    A test list comes before a validation list: the first split is the default one.
    """
    sides = {key: side_of(key) for key in split}
    for key, (side, rest) in sides.items():
        tests = {other: kind for other, (kind, also) in sides.items() if also == rest and kind in ("valid", "test")}
        if side != "train" or not tests:
            continue
        name = re.sub(r"^[_-]|[_-]$", "", rest) or "given"
        for test, kind in sorted(tests.items(), key=lambda test: test[1] == "valid"):
            yield key, test, f"{name}-val" if len(set(tests.values())) > 1 and kind == "valid" else name


def _points(entry: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return key points [M, T, *shape] as stored."""
    if not isinstance(entry, dict):
        raise Unusable(f"the file has {entry!r:.40} for it", expected=entry is None)
    array = entry.get("keypoint")
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise Unusable("it has no array of key points")
    if array.ndim != 4 or array.shape[2:] != shape or 0 in array.shape:
        raise Unusable(f"its key points have shape {list(array.shape)}")
    return array
