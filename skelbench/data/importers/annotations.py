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
from skelbench.data.importers.recording import SAMPLE, Entries, ImportOptions, Recording
from skelbench.data.raw.ntu.names import who
from skelbench.data.raw.ntu.prepare import LICENSE
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
        form = "[bodies, frames, joints, 2 or 3] (of one body: keypoint[None])"
        raise SkelbenchError(f"{path}: key points must be {form}, not {list(shape)}")
    whole_shape = [entry for entry in good if getattr(entry.get("keypoint"), "shape", ())[2:] == shape[2:]]
    some = [whole_shape[i] for i in np.unique(np.linspace(0, len(whole_shape) - 1, SAMPLE).astype(int))]
    topology = choose_topology(shape[2], options.topology, str(path), map(_seen, some))
    if shape[3] == 2:
        _check_images(good, path)
    labels, _ = whole([entry.get("label") for entry in good], str(path))
    names: list[str] = [entry.get("frame_dir") or "" for entry in good]
    if not all(isinstance(name, str) and name for name in names):
        raise SkelbenchError(f"{path}: an annotation has no frame_dir; give every clip its name")
    index = ntu.index_of(names)
    splits, sources = _splits(split, names, labels, index, path)
    flat = FlatPose(options) if shape[3] == 2 else None
    lineage = f"pyskl ({arrays[0].dtype}), centered at {topology.joints[topology.center]} of the first frame"
    label_of = dict(zip(names, labels.tolist()))

    def read(entry: Any) -> Clip:
        x_MTJC = _points(entry, (topology.num_joints, shape[3]))
        name = entry["frame_dir"]
        clip = Clip(x_MTJC, label_of[name], name=name, who=who(name))
        if flat is None:
            return clip
        return flat_clip(clip._replace(confidence_MTJ=_scores(entry)), topology.center, flat, entry.get("img_shape"))

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
        up="-y" if flat else "auto",
        license=LICENSE if index is not None else "",
    )


def _splits(
    split: Any, names: list[str], labels: np.ndarray, index: Mapping[str, np.ndarray] | None, path: Path
) -> tuple[dict[str, Rule], dict[str, tuple[str, str]]]:
    """Return rules, and the lists that they come from."""
    arrays = (list, tuple, np.ndarray)
    if not isinstance(split, dict) or not all(isinstance(k, str) and isinstance(v, arrays) for k, v in split.items()):
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
        tests = {test: kind for test, (kind, also) in sides.items() if also == rest and kind in ("valid", "test")}
        if side != "train" or not tests:
            continue
        name = re.sub(r"^[_-]|[_-]$", "", rest) or "given"
        for test, kind in sorted(tests.items(), key=lambda test: test[1] == "valid"):
            yield key, test, f"{name}-val" if len(set(tests.values())) > 1 and kind == "valid" else name


def _points(entry: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return key points [M, T, *shape] as stored; the one place that compares arrays with ``total_frames``."""
    if not isinstance(entry, dict):
        raise Unusable(f"the file has {entry!r:.40} for it", expected=entry is None)
    array = entry.get("keypoint")
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise Unusable("it has no array of key points")
    if array.ndim != 4 or array.shape[2:] != shape or 0 in array.shape:
        raise Unusable(f"its key points have shape {list(array.shape)}")
    bodies, frames = array.shape[:2]
    total = entry.get("total_frames", frames)
    if total == frames or not isinstance(total, int | np.integer) or not array.any():
        return array
    advice = "cut off padding, correct total_frames, or bring the axes into the order [bodies, frames, ...]"
    raise Unusable(f"total_frames is {total}, but keypoint has {frames} frames of {bodies} bodies: {advice}")


def _scores(entry: Any) -> np.ndarray:
    """Return the scores [M, T, J] of a 2-D entry."""
    score, shape = entry.get("keypoint_score"), entry["keypoint"].shape[:3]
    if score is None:
        code = "entry['keypoint_score'] = numpy.ones(entry['keypoint'].shape[:3])"
        raise Unusable(f"it has no keypoint_score, [bodies, frames, joints]; if every joint was seen, add ones: {code}")
    if not isinstance(score, np.ndarray) or score.dtype.kind not in "fiu" or score.shape not in (shape, (*shape, 1)):
        raise Unusable(f"its keypoint_score must have shape {list(shape)}, not {list(np.shape(score))}")
    return score.reshape(shape)


def _seen(entry: Any) -> np.ndarray:
    """Return key points as stored; in 2-D, joints of score 0 are at 0."""
    x, score = entry["keypoint"], entry.get("keypoint_score")
    if np.shape(score) in (x.shape[:3], (*x.shape[:3], 1)):
        x = np.where(np.reshape(score, (*x.shape[:3], 1)) > 0, x, 0)
    return np.nan_to_num(x) if x.shape[-1] == 2 else x


def _check_images(entries: list[Any], path: Path) -> None:
    """Raise if many clips have joints outside their image that are inside an image of exchanged sides."""
    some, outside = [entries[i] for i in np.unique(np.linspace(0, len(entries) - 1, 1000).astype(int))], 0
    for entry in some:
        image, x = entry.get("img_shape"), entry.get("keypoint")
        if isinstance(image, list | tuple) and len(image) > 1 and np.ndim(x) == 4 and (points := _seen(entry)).any():
            low, right = np.quantile(points[points.any(axis=-1)], 0.95, axis=0)[::-1]
            outside += (low > image[0] or right > image[1]) and low <= image[1] and right <= image[0]
    if outside > 0.1 * len(some):
        where = f"{path}: in {outside} of {len(some)} clips joints are outside the image"
        raise SkelbenchError(f"{where}, but inside if img_shape is (width, height); write it as (height, width)")
