"""Ragged npz: the format of skelbench for recordings of any origin; docs/own_recordings.md lists its arrays."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import choose_topology
from skelbench.data.importers.labels import MAX_CLASSES, random_split
from skelbench.data.importers.recording import ImportOptions, Recording
from skelbench.data.importers.tables import Npz
from skelbench.data.store.clip_store import WHO
from skelbench.data.store.splits import FieldRule, Rule
from skelbench.data.store.writer import Clip

RAGGED = "ragged npz"
BY_SUBJECT = "by-subject"


def ragged(npz: Npz, options: ImportOptions) -> Recording:
    """Return the recording in a ragged npz; several ``label_fields`` make one class of each combination of values."""
    path, fields = npz.path, options.label_fields
    if missing := [key for key in ("joints", "offsets", *fields) if key not in npz]:
        raise SkelbenchError(f"{path} has no array {', '.join(map(repr, missing))}, which a ragged npz needs; add it")
    joints = npz["joints"]
    if joints.ndim != 3 or joints.shape[2] != 3 or joints.dtype.kind != "f":
        raise SkelbenchError(f"{path}: joints must be float [F, J, 3], not {joints.dtype} {list(joints.shape)}")
    topology = choose_topology(joints.shape[1], options.topology, str(path))
    offsets = _offsets(npz["offsets"], len(joints), path)
    clips = len(offsets) - 1
    labels, classes = _labels(npz, fields, clips)
    who = {field: _integers(npz, field, clips) for field in WHO if field in npz}
    origins = npz["origin"] if "origin" in npz else np.zeros((clips, 3))
    if origins.shape != (clips, 3) or origins.dtype.kind not in "fiu" or not np.isfinite(origins).all():
        raise SkelbenchError(f"{path}: origin must be finite numbers [{clips}, 3], one row per clip; correct the array")
    splits, details = _splits(who.get("subject"), labels, path), {}
    if isinstance(rule := splits.get(BY_SUBJECT), FieldRule):
        which = ", ".join(map(str, rule.train[:20])) + ", ..." * (len(rule.train) > 20)
        details["subjects"] = f"all have odd numbers, or all even ones, so every other one trains: {which}"
    fps = float(np.median(npz["fps"])) if "fps" in npz else options.fps
    if not 0 < fps < np.inf:
        raise SkelbenchError(f"{path}: fps must be a positive number, not {fps}; correct the array")
    blocks = [joints[start:end] for start, end in zip(offsets[:-1], offsets[1:])]

    def read(i: int) -> Clip:
        about = {field: int(values[i]) for field, values in who.items()}
        return Clip(blocks[i][None], int(labels[i]), origins[i], who=about)

    return Recording(
        kind=RAGGED,
        clips={str(path): lambda: ((f"clip {i}", partial(read, i)) for i in range(clips))},
        up="y",
        fps=fps,
        total=clips,
        topology=topology,
        classes=classes,
        splits=splits,
        lineage=f"ragged npz, centered at {topology.joints[topology.center]} of the first frame",
        details=details,
    )


def _offsets(offsets: np.ndarray, frames: int, path: Path) -> np.ndarray:
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        raise SkelbenchError(f"{path}: offsets must be whole numbers [clips + 1], at least one clip; correct the array")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != frames:
        raise SkelbenchError(f"{path}: offsets run from {offsets[0]} to {offsets[-1]} but joints from 0 to {frames}")
    if (wrong := np.diff(offsets) <= 0).any():
        raise SkelbenchError(f"{path}: clip {int(np.argmax(wrong))} has no frames; remove it or correct offsets")
    return offsets


def _integers(npz: Npz, field: str, clips: int) -> np.ndarray:
    values = npz[field]
    if values.shape != (clips,) or values.dtype.kind not in "iub":
        numbered = f"`names, {field} = numpy.unique({field}, return_inverse=True)` numbers names from 0"
        raise SkelbenchError(
            f"{npz.path}: {field} must be whole numbers, one for each of the {clips} clips, not {values.dtype} "
            f"{list(values.shape)}; {numbered if values.dtype.kind in 'US' else 'correct the array'}"
        )
    return values.astype(np.int64)


def _labels(npz: Npz, fields: tuple[str, ...], clips: int) -> tuple[np.ndarray, tuple[str, ...]]:
    labels, classes = np.zeros(clips, dtype=np.int64), [""]
    for field in fields:
        values = _integers(npz, field, clips)
        names = _class_names(npz, field, values, usual=field == ("label" if "label" in npz else fields[0]))
        if (wrong := (values < 0) | (values >= len(names))).any():
            clip = int(np.argmax(wrong))
            raise SkelbenchError(f"{npz.path}: clip {clip} has {field} {values[clip]}, outside 0..{len(names) - 1}")
        labels = labels * len(names) + values
        classes = [f"{before} / {name}" if before else name for before in classes for name in names]
    return labels, tuple(classes)


def _class_names(npz: Npz, field: str, values: np.ndarray, usual: bool) -> list[str]:
    """Return names of a label field's values: from the file, else made up from the field's name.

    ``usual``: array ``classes`` names this field's values.
    """
    key = "classes" if usual and f"{field}_classes" not in npz else f"{field}_classes"
    if key not in npz:
        if field == "correct":
            return ["incorrect", "correct"]
        return [f"{field} {value}" for value in range(min(int(values.max()), MAX_CLASSES - 1) + 1)]
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in npz[key].ravel().tolist()]
    for label, name in enumerate(names):
        if not name.strip() or names.index(name) != label:
            raise SkelbenchError(f"{npz.path}: {key} calls class {label} {name[:60]!r}; give every class its own name")
    return names


def _splits(subject: np.ndarray | None, labels: np.ndarray, path: Path) -> dict[str, Rule]:
    """Return the splits, the default one first."""
    if subject is not None and len(np.unique(subject % 2)) == 2:
        odd, even = (FieldRule(field="subject", train=train) for train in ("odd", "even"))
        return {"odd-even": odd, "even-odd": even}
    subjects = [] if subject is None else np.unique(subject).tolist()
    if len(subjects) > 1:
        return {BY_SUBJECT: FieldRule(field="subject", train=tuple(subjects[::2]), test=tuple(subjects[1::2]))}
    return random_split(labels, str(path), "an array subject [clips] with the numbers of two subjects or more")
