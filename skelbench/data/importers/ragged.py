"""Ragged npz: skelbench's own format for recordings that come from anywhere.

``joints`` [F, J, 3] float, metres, Y up; ``offsets`` int [N + 1], clip i being frames ``offsets[i]:offsets[i + 1]``;
integer ``label`` [N] and any further label field. Used where present: ``origin`` [N, 3] (added to ``joints`` gives
camera coordinates), integer ``subject``, ``camera``, ``setup``, ``trial`` [N], ``classes`` and ``FIELD_classes``
(names), ``fps`` (one for all clips or one each), ``meta`` (JSON text: ``licence``; ``units`` and ``up`` where they are
not metres and Y).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import parsed
from skelbench.data.importers.bodies import METRES, TURNS, Units, Up, choose_topology, fault, find_pose, solid_clip
from skelbench.data.importers.labels import MAX_CLASSES, random_split
from skelbench.data.importers.options import ImportOptions
from skelbench.data.importers.recording import Recording
from skelbench.data.importers.tables import Npz, StreamTable, values
from skelbench.data.store.splits import FieldRule, Rule
from skelbench.data.store.writer import Clip

RAGGED = "ragged npz"
BY_SUBJECT = "by-subject"
_WHO = ("subject", "camera", "setup", "trial")
_UNITS = {unit: unit for unit in METRES}
for _stem, _unit in (("met", "m"), ("centimet", "cm"), ("millimet", "mm")):
    _UNITS |= {f"{_stem}{end}": _unit for end in ("re", "res", "er", "ers")}


def is_ragged(npz: Npz) -> bool:
    """Whether an npz has this layout, whole or not."""
    return "joints" in npz or "offsets" in npz


def ragged(npz: Npz, options: ImportOptions) -> Recording:
    """The recording in a ragged npz. Every clip is centred at the topology's centre joint in its first frame.

    Several ``label_fields`` make one class of each combination, the first field changing slowest ("deep squat /
    incorrect"). Splits: "odd-even" subjects (default) and "even-odd"; where numbers are all odd or all even
    "by-subject", every other one; of a single subject a stratified "random" one. Frames that show nobody are left out.
    This is skelbench's own format, so nothing else in it is repaired or left out: whatever is wrong, NaN included,
    refuses the file.
    """
    path, fields = npz.path, options.label_fields
    joints, data = _load(npz, fields)
    if len(joints.shape) != 3 or joints.shape[2] != 3 or joints.dtype.kind != "f":
        raise SkelbenchError(
            f"{path}: joints must be floating-point [frames, joints, 3], not {joints.dtype} {list(joints.shape)}; "
            f"put the frames of all clips one after the other"
        )
    topology = choose_topology(joints.shape[1], options.topology, str(path))
    offsets = _offsets(data["offsets"], joints.shape[0], path)
    clips = len(offsets) - 1
    meta = _meta(data, path)
    labels, classes = _labels(data, fields, clips, path)
    who = {field: _integers(data, field, clips, path) for field in _WHO if field in data}
    origins = data.get("origin", np.zeros((clips, 3)))
    if origins.shape != (clips, 3) or origins.dtype.kind not in "fiu" or not np.isfinite(origins).all():
        raise SkelbenchError(f"{path}: origin must be finite numbers [{clips}, 3], one row per clip; correct the array")
    splits = _splits(who.get("subject"), labels, path)
    details = {}
    if isinstance(rule := splits.get(BY_SUBJECT), FieldRule):
        which = ", ".join(map(str, rule.train[:20])) + ", ..." * (len(rule.train) > 20)
        details["subjects"] = f"all have odd numbers, or all even ones, so every other one trains: {which}"
    fps = _fps(data, clips, path) if "fps" in data else np.full(clips, options.fps)
    lengths = np.diff(offsets).tolist()
    usual, units = _stated(meta, options, path)
    sample = (block[None] for block in joints.blocks(lengths[:64]))
    cures = {}  # an option that contradicts the file's own description would be refused
    if "units" in meta:
        cures["cure"] = "correct the units in its meta to {}"
    if "up" in meta:
        cures["turn"] = "correct the up in its meta to {}, or confirm it with --up {}"
    pose = find_pose(sample, topology, options.up, units, str(path), usual=usual, **cures)
    origins = pose.apply(origins)

    def read() -> Iterator[Clip]:
        for i, block in enumerate(joints.blocks(lengths)):
            x_TJC = pose.apply(block)
            finite_T = np.isfinite(x_TJC).all(axis=(1, 2))
            if not finite_T.all():
                raise SkelbenchError(
                    f"{path}: clip {i}, frame {int(np.argmin(finite_T))} has a coordinate that is not a finite number; "
                    f"repair or remove this clip"
                )
            clip = solid_clip(x_TJC[None], 1, topology.center)
            reason = clip if isinstance(clip, str) else fault(clip[0])
            if isinstance(clip, str) or reason:
                raise SkelbenchError(f"{path}: clip {i}: {reason}; repair or remove this clip")
            x_MTJC, center, flags, _ = clip
            about = {field: int(values[i]) for field, values in who.items()}
            yield Clip(
                x_MTJC,
                int(labels[i]),
                origins[i] + center,
                who=about,
                flags=flags,
                source_frames=len(block),
                fps=float(fps[i]),
            )

    return Recording(
        kind=RAGGED,
        clips=read,
        total=clips,
        topology=topology,
        classes=classes,
        splits=splits,
        lineage=f"ragged npz, centred at {topology.joints[topology.center]} of the first frame",
        licence=str(meta.get("licence", "")),
        details=details,
        close=npz.close,
    )


def _load(npz: Npz, label_fields: Sequence[str]) -> tuple[StreamTable, dict[str, np.ndarray]]:
    """The joints, and all other arrays that are used."""
    if len(set(label_fields)) < len(label_fields) or "joints" in label_fields:
        raise SkelbenchError(
            f"{npz.path}: --label-fields {','.join(label_fields)} names a field twice, or joints, which are no labels; "
            f"name arrays of labels, each once"
        )
    needed = ["joints", "offsets", *label_fields]
    used = {*needed, *_WHO, "origin", "fps", "meta", *(f"{field}_classes" for field in label_fields)}
    if "label" in label_fields or "label" not in npz:
        used.add("classes")  # of another field they are not, where there is one that they are of
    missing = [key for key in needed if key not in npz]
    if missing:
        raise SkelbenchError(
            f"{npz.path} has no array {', '.join(map(repr, missing))} (it has: {', '.join(map(repr, npz.keys))}); "
            f"a ragged npz needs {', '.join(needed)}"
        )
    return npz["joints"], {key: values(npz[key]) for key in npz.keys if key in used - {"joints"}}


def _offsets(offsets: np.ndarray, frames: int, path: Path) -> np.ndarray:
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        raise SkelbenchError(f"{path}: offsets must be whole numbers [clips + 1], at least one clip; correct the array")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != frames:
        raise SkelbenchError(
            f"{path}: offsets run from {offsets[0]} to {offsets[-1]} but joints has frames 0 to {frames}; "
            f"one of the two arrays is incomplete, export the file again"
        )
    if (wrong := np.diff(offsets) <= 0).any():
        clip = int(np.argmax(wrong))
        reason = "no frames" if offsets[clip + 1] == offsets[clip] else "offsets that go backwards"
        raise SkelbenchError(f"{path}: clip {clip} has {reason}; remove the clip or correct offsets")
    return offsets


def _integers(data: dict[str, np.ndarray], field: str, clips: int, path: Path) -> np.ndarray:
    values = data[field]
    if values.shape != (clips,) or values.dtype.kind not in "iub":
        numbered = f"`names, {field} = numpy.unique({field}, return_inverse=True)` numbers names from 0"
        raise SkelbenchError(
            f"{path}: {field} must be whole numbers, one for each of the {clips} clips, "
            f"not {values.dtype} {list(values.shape)}; {numbered if values.dtype.kind in 'US' else 'correct the array'}"
        )
    if (beyond := (values < -(2**31)) | (values >= 2**31)).any():
        raise SkelbenchError(f"{path}: clip {int(np.argmax(beyond))} has {field} beyond 2^31; number them anew")
    return values.astype(np.int64)


def _labels(
    data: dict[str, np.ndarray], fields: Sequence[str], clips: int, path: Path
) -> tuple[np.ndarray, tuple[str, ...]]:
    labels, classes = np.zeros(clips, dtype=np.int64), [""]
    for field in fields:
        values = _integers(data, field, clips, path)
        names = _class_names(data, field, values, path, usual=field == ("label" if "label" in fields else fields[0]))
        if len(classes) * len(names) > MAX_CLASSES:
            raise SkelbenchError(
                f"{path}: {', '.join(fields)} make more than {MAX_CLASSES} classes; choose other --label-fields"
            )
        if (wrong := (values < 0) | (values >= len(names))).any():
            clip = int(np.argmax(wrong))
            raise SkelbenchError(
                f"{path}: clip {clip} has {field} {values[clip]}, outside 0..{len(names) - 1}; "
                f"correct this label or the list of classes"
            )
        labels = labels * len(names) + values
        classes = [f"{before} / {name}" if before else name for before in classes for name in names]
    return labels, tuple(classes)


def _class_names(data: dict[str, np.ndarray], field: str, values: np.ndarray, path: Path, usual: bool) -> list[str]:
    """Names of a label field's values: from the file, else made up from the field's name. ``usual``: ``classes`` are
    this field's."""
    key = "classes" if usual and f"{field}_classes" not in data else f"{field}_classes"
    if key in data:
        return _told_apart(data[key], key, path)
    if field == "correct":
        return ["incorrect", "correct"]
    if values.max() >= MAX_CLASSES:
        raise SkelbenchError(
            f"{path}: clip {int(values.argmax())} has {field} {values.max()}, more than the {MAX_CLASSES - 1} that is "
            f"possible; number the classes from 0"
        )
    return [f"{field} {value}" for value in range(int(values.max()) + 1)]


def _told_apart(array: np.ndarray, key: str, path: Path) -> list[str]:
    """Names of classes as text, each its own."""
    try:
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in array.ravel().tolist()]
    except UnicodeDecodeError:
        raise SkelbenchError(f"{path}: {key} holds bytes that are no UTF-8; save the names as text") from None
    first: dict[str, int] = {}
    for label, name in enumerate(names):
        if not name.strip():
            raise SkelbenchError(f"{path}: class {label} has no name in {key}; give it one, or leave {key} out")
        if first.setdefault(name, label) != label:
            raise SkelbenchError(
                f"{path}: {key} calls class {first[name]} and class {label} {name[:60]!r}; give each a name of its own"
            )
    return names


def _meta(data: dict[str, np.ndarray], path: Path) -> dict:
    """The file's own description."""
    try:
        meta = parsed(json.loads, str(data["meta"].item())) if "meta" in data else {}
    except ValueError:
        raise SkelbenchError(f"{path}: meta is not JSON text; correct or remove it") from None
    return meta if isinstance(meta, dict) else {}


def _stated(meta: dict, options: ImportOptions, path: Path) -> tuple[Up, Units | None]:
    """Up-axis by the file's own description, unit by that or the options; refuses what contradicts itself."""
    chosen: dict[str, str | None] = {"up": options.up if options.up != "auto" else None, "units": options.units}
    known: dict[str, dict[str, str]] = {"up": {up: up for up in TURNS}, "units": _UNITS}
    for key, option in chosen.items():
        if key not in meta:
            continue
        word = str(meta[key])[:40]
        if (stated := known[key].get(word.lower())) is None:
            raise SkelbenchError(
                f"{path}: its meta says {key} {word!r}, none of {', '.join(known[key])}; convert the coordinates"
            )
        if option not in (None, stated):
            raise SkelbenchError(
                f"{path}: its meta says {key} {word!r}, --{key} says {option}; correct the meta or leave out the option"
            )
        chosen[key] = stated
    return cast(Up, chosen["up"] or "y"), cast(Units | None, chosen["units"])


def _fps(data: dict[str, np.ndarray], clips: int, path: Path) -> np.ndarray:
    """Frames per second of every clip."""
    fps = data["fps"]
    if fps.dtype.kind not in "iuf" or not (fps.size == 1 or fps.shape == (clips,)):
        raise SkelbenchError(
            f"{path}: fps must be a number for all clips or one for each of the {clips}, not {fps.dtype} "
            f"{list(fps.shape)}; correct the array"
        )
    fps = np.broadcast_to(fps.ravel(), clips).astype(np.float64)
    if (wrong := ~((fps > 0) & (fps < np.inf))).any():
        clip = int(np.argmax(wrong))
        raise SkelbenchError(f"{path}: clip {clip} has {fps[clip]} frames per second; correct fps, or leave it out")
    return fps


def _splits(subject: np.ndarray | None, labels: np.ndarray, path: Path) -> dict[str, Rule]:
    """The default split first."""
    if subject is not None and len(np.unique(subject % 2)) == 2:
        odd, even = (FieldRule(field="subject", train=train) for train in ("odd", "even"))
        return {"odd-even": odd, "even-odd": even}
    subjects = [] if subject is None else np.unique(subject).tolist()
    if len(subjects) > 1:
        return {BY_SUBJECT: FieldRule(field="subject", train=tuple(subjects[::2]), test=tuple(subjects[1::2]))}
    return random_split(labels, str(path), "an array subject [clips] with the numbers of two subjects or more")
