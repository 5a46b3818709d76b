"""Reading other people's files into clip stores.

Ragged npz: ``joints`` [F, J, 3] float, metres, Y up; ``offsets`` int [N + 1], clip i being frames
``offsets[i]:offsets[i + 1]``; integer ``label`` [N] and any further label field. Used where present: ``origin``
[N, 3] (added to ``joints`` gives camera coordinates), integer ``subject``, ``camera``, ``setup``, ``trial`` [N],
``classes`` and ``FIELD_classes`` (names), ``fps``, ``meta`` (JSON text: ``licence``, ``units``, ``up``).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from skelbench.data.roots import check_name
from skelbench.data.splits import FieldRule, RandomRule, Rule
from skelbench.data.store import first_line
from skelbench.data.writer import StoreWriter
from skelbench.errors import SkelbenchError
from skelbench.skeleton.topology import Topology, topologies

_WHO = ("subject", "camera", "setup", "trial")


def import_npz(
    path: Path | str,
    name: str,
    root: Path,
    *,
    label_fields: Sequence[str] = ("label",),
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Import a ragged npz (see the module) as the store ``root``/``name``; returns its folder.

    Several ``label_fields`` make one class of each combination, the first field changing slowest ("deep squat /
    incorrect"). Every clip is centred at the topology's centre joint in its first frame; ``origin`` keeps what undoes
    it. Splits: "odd-even" subjects (default) and "even-odd", or a stratified "random" one if the subjects do not allow
    it. Bad files raise :class:`SkelbenchError` in one sentence and leave nothing behind.
    """
    path, root = Path(path), Path(root)
    check_name(name)
    data = _load(path, label_fields)
    topology = _topology(data["joints"], path)
    offsets = _offsets(data, path)
    clips = len(offsets) - 1
    meta = _meta(data, path)
    labels, classes = _labels(data, label_fields, clips, path)
    who = {field: _integers(data, field, clips, path) for field in _WHO if field in data}
    origins = data.get("origin", np.zeros((clips, 3)))
    if origins.shape != (clips, 3) or origins.dtype.kind not in "fiu" or not np.isfinite(origins).all():
        raise SkelbenchError(f"{path}: origin must be finite numbers [{clips}, 3], one row per clip; correct the array")
    splits, default = _splits(who.get("subject"))
    with StoreWriter(
        root / name,
        topology=topology,
        classes=classes,
        splits=splits,
        default_split=default,
        lineage=f"ragged npz, centred at {topology.joints[topology.center]} of the first frame",
        licence=str(meta.get("licence", "")),
        fps=_fps(data, path),
        overwrite=overwrite,
    ) as writer:
        for i in range(clips):
            with np.errstate(over="ignore"):  # too large for float32 becomes infinite, which is refused below
                x_TJC = data["joints"][offsets[i] : offsets[i + 1]].astype(np.float32)
            finite_T = np.isfinite(x_TJC).all(axis=(1, 2))
            if not finite_T.all():
                raise SkelbenchError(
                    f"{path}: clip {i}, frame {int(np.argmin(finite_T))} has a coordinate that is not a finite number; "
                    f"repair or remove this clip"
                )
            center = x_TJC[0, topology.center].copy()
            about = {field: int(values[i]) for field, values in who.items()}
            writer.add((x_TJC - center)[None], int(labels[i]), origin=origins[i] + center, **about)
            if progress is not None:
                progress(i + 1, clips)
    return root / name


def _load(path: Path, label_fields: Sequence[str]) -> dict[str, np.ndarray]:
    needed = ["joints", "offsets", *label_fields]
    used = {*needed, *_WHO, "origin", "fps", "meta", "classes", *(f"{field}_classes" for field in label_fields)}
    if not path.is_file():
        raise SkelbenchError(f"there is no file {path}; check the path")
    if path.stat().st_size == 0:
        raise SkelbenchError(f"{path} is empty; download or copy it again")
    data, name = {}, "its directory"
    try:
        with zipfile.ZipFile(path) as file:
            there = [member.removesuffix(".npy") for member in file.namelist()]
        with np.load(path, allow_pickle=False) as file:
            for name in there:
                if name in used:
                    data[name] = file[name]
    except Exception as error:  # damaged bytes make zipfile and numpy raise almost anything, tokenizer errors included
        if "allow_pickle" in str(error):
            raise SkelbenchError(
                f"{path}: array {name!r} holds Python objects, which are never loaded; save it as numbers or text"
            ) from None
        raise SkelbenchError(
            f"{path} is not a readable npz file ({name}: {first_line(error)}); it may be cut short, "
            f"download or copy it again"
        ) from error
    missing = [key for key in needed if key not in data]
    if missing:
        raise SkelbenchError(
            f"{path} has no array {', '.join(map(repr, missing))} (it has: {', '.join(map(repr, there)) or 'none'}); "
            f"a ragged npz needs {', '.join(needed)}"
        )
    return data


def _topology(joints: np.ndarray, path: Path) -> Topology:
    if joints.ndim != 3 or joints.shape[2] != 3 or joints.dtype.kind != "f":
        raise SkelbenchError(
            f"{path}: joints must be floating-point [frames, joints, 3], not {joints.dtype} {list(joints.shape)}; "
            f"put the frames of all clips one after the other"
        )
    fitting = [topology for topology in topologies.values() if topology.num_joints == joints.shape[1]]
    if not fitting:
        known = ", ".join(f"{topology.name} with {topology.num_joints}" for topology in topologies.values())
        raise SkelbenchError(
            f"{path}: {joints.shape[1]} joints fit no known topology (known: {known}); convert the joints"
        )
    return fitting[0]


def _offsets(data: dict[str, np.ndarray], path: Path) -> np.ndarray:
    offsets, frames = data["offsets"], len(data["joints"])
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        raise SkelbenchError(f"{path}: offsets must be whole numbers [clips + 1], at least one clip; correct the array")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != frames:
        raise SkelbenchError(
            f"{path}: offsets run from {offsets[0]} to {offsets[-1]} but joints has frames 0 to {frames}; "
            f"one of the two arrays is incomplete, export the file again"
        )
    if (np.diff(offsets) <= 0).any():
        clip = int(np.argmax(np.diff(offsets) <= 0))
        reason = "no frames" if offsets[clip + 1] == offsets[clip] else "offsets that go backwards"
        raise SkelbenchError(f"{path}: clip {clip} has {reason}; remove the clip or correct offsets")
    return offsets


def _integers(data: dict[str, np.ndarray], field: str, clips: int, path: Path) -> np.ndarray:
    values = data[field]
    if values.shape != (clips,) or values.dtype.kind not in "iub":
        raise SkelbenchError(
            f"{path}: {field} must be whole numbers, one for each of the {clips} clips, "
            f"not {values.dtype} {list(values.shape)}; correct the array"
        )
    values = values.astype(np.int64)
    beyond = (values < -(2**31)) | (values >= 2**31)
    if beyond.any():
        raise SkelbenchError(f"{path}: clip {int(np.argmax(beyond))} has {field} beyond 2^31; number them anew")
    return values


def _labels(
    data: dict[str, np.ndarray], fields: Sequence[str], clips: int, path: Path
) -> tuple[np.ndarray, tuple[str, ...]]:
    labels, classes = np.zeros(clips, dtype=np.int64), [""]
    for field in fields:
        values = _integers(data, field, clips, path)
        names = _class_names(data, field, values, first=field == fields[0])
        wrong = (values < 0) | (values >= len(names))
        if wrong.any():
            clip = int(np.argmax(wrong))
            raise SkelbenchError(
                f"{path}: clip {clip} has {field} {values[clip]}, outside 0..{len(names) - 1}; "
                f"correct the {field} or the list of classes"
            )
        labels = labels * len(names) + values
        classes = [f"{before} / {name}" if before else name for before in classes for name in names]
    return labels, tuple(classes)


def _class_names(data: dict[str, np.ndarray], field: str, values: np.ndarray, first: bool) -> list[str]:
    """Names of a label field's values: from the file, else made up from the field's name."""
    key = f"{field}_classes" if f"{field}_classes" in data else "classes"
    if key in data and (first or key != "classes"):
        return [str(name) for name in data[key].ravel()]
    if field == "correct":
        return ["incorrect", "correct"]
    return [f"{field} {value}" for value in range(int(values.max()) + 1)]


def _meta(data: dict[str, np.ndarray], path: Path) -> dict:
    """The file's own description; refuses coordinates in which augmentations would be wrong."""
    try:
        meta = json.loads(str(data["meta"])) if "meta" in data else {}
    except ValueError:
        raise SkelbenchError(f"{path}: meta is not JSON text; correct or remove it") from None
    meta = meta if isinstance(meta, dict) else {}
    if (units := str(meta.get("units", "m"))) not in ("m", "metre", "metres", "meter", "meters"):
        raise SkelbenchError(f"{path}: units are {units!r}, skelbench works in metres; convert the coordinates")
    if (up := str(meta.get("up", "y"))).lower() != "y":
        raise SkelbenchError(f"{path}: {up!r} points up, skelbench needs Y up; turn the coordinates")
    return meta


def _fps(data: dict[str, np.ndarray], path: Path) -> float:
    fps = np.unique(data.get("fps", np.array([30.0])))
    if len(fps) != 1 or fps.dtype.kind not in "iuf" or not 0 < fps[0] < np.inf:
        raise SkelbenchError(f"{path}: fps must be one positive frame rate for all clips; resample them to one rate")
    return float(fps[0])


def _splits(subject: np.ndarray | None) -> tuple[dict[str, Rule], str]:
    if subject is not None and len(np.unique(subject % 2)) == 2:
        splits: dict[str, Rule] = {
            "odd-even": FieldRule(field="subject", train="odd"),
            "even-odd": FieldRule(field="subject", train="even"),
        }
        return splits, "odd-even"
    return {"random": RandomRule(test=0.3)}, "random"
