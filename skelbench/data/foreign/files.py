"""Which format files are in, by their content, and which files belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.data.foreign.annotations import is_annotations, pyskl
from skelbench.data.foreign.exporters import META, ExportedMeta, NumbersOfClip
from skelbench.data.foreign.hdf5 import sgn
from skelbench.data.foreign.labels import read_labels, whole
from skelbench.data.foreign.options import ImportOptions
from skelbench.data.foreign.padded import Part, padded
from skelbench.data.foreign.pickles import Refused, load_pickle
from skelbench.data.foreign.ragged import is_ragged, ragged
from skelbench.data.foreign.recording import Recording
from skelbench.data.foreign.slots import Slots, is_slots, look, slots
from skelbench.data.foreign.tables import Npz, open_npy, values
from skelbench.errors import SkelbenchError

MAX_LABEL_FILE = 32 << 20
"""Larger pickles beside a given array are not looked at."""
MAX_SIBLINGS = 500

FORMATS = "npz of CTR-GCN / MAMP, ragged npz, pyskl pickle, npy + label file of ST-GCN / 2s-AGCN / AimCLR, HDF5 of SGN"


@dataclass(eq=False)
class Labels:
    """A label file: labels [N], and the clips' names where it has them."""

    path: Path
    labels: np.ndarray
    names: list[str]


@dataclass(eq=False)
class Counts:
    """An array of whole numbers: labels, or lengths, which only its neighbours can tell."""

    path: Path
    values: np.ndarray
    column: bool
    """[N, 1], which only labels are."""


Found = Recording | Slots | Labels | Counts


def recognise(files: Sequence[Path], options: ImportOptions) -> Recording:
    """The recording in these files; one that needs others is completed with files beside it, if it is given alone."""
    for path in files:
        if not path.exists():
            raise SkelbenchError(f"there is no file {path}; check the path")
    found = {path: _open(path, options) for path in files}
    complete = [one for one in found.values() if isinstance(one, Recording)]
    if complete and len(files) == 1:
        return complete[0]
    if complete:
        for one in complete:
            one.close()
        raise SkelbenchError(f"{files[0]}: a {complete[0].kind} is complete by itself; import one file at a time")
    if len(files) == 1:
        found |= _siblings(files[0], options)
    return slots(_assemble(files, found), options)


# ------------------------------------------------------------------------------------------------ one file
def _open(path: Path, options: ImportOptions) -> Found:
    if path.is_dir():
        raise SkelbenchError(
            f"{path} is a folder; name a file in it (raw recordings are read by: skelbench data prepare)"
        )
    if not path.is_file():  # a named pipe would be waited for without end
        raise SkelbenchError(f"{path} is not a regular file but a pipe or a device; save what comes from it as a file")
    try:
        with open(path, "rb") as file:
            start = file.read(64)
    except OSError as error:
        raise SkelbenchError(f"cannot read {path}: {error.strerror or error}; check the file") from error
    if not start:
        raise SkelbenchError(f"{path} is empty; download or copy it again")
    if not any(start):
        raise SkelbenchError(f"{path} begins with zero bytes, as failed downloads do; download or copy it again")
    if start.startswith(b"PK"):
        return _npz(path, options)
    if start.startswith(b"\x93NUMPY"):
        return _npy(path, options)
    if start.startswith(b"\x89HDF\r\n\x1a\n"):
        return sgn(path, options)
    if start[:1] in b"\x80(]})lcIFNKJSUVXT":
        return _pickle(path, options)
    what = "text (raw recordings are read by: skelbench data prepare)" if _is_text(start) else "of unknown content"
    raise SkelbenchError(f"{path} is {what}; formats that are imported: {FORMATS}")


def _is_text(start: bytes) -> bool:
    return all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in start)


def _npz(path: Path, options: ImportOptions) -> Recording:
    npz = Npz(path)
    if is_ragged(npz):
        return ragged(npz, options)
    sides = [key.removeprefix("x_") for key in npz.keys if key.startswith("x_") and f"y_{key[2:]}" in npz]
    if not sides:
        keys = ", ".join(map(repr, npz.keys[:20]))
        raise SkelbenchError(f"{path} has arrays {keys}, none of the layouts that are imported: {FORMATS}")
    missing = [key for key in ("x_train", "y_train", "x_test", "y_test") if key not in npz]
    if META in npz and missing:
        raise SkelbenchError(f"{path} has no {', '.join(missing)}; export the data set again, with both parts")
    sides.sort(key=lambda side: _SIDES.index(side) if side in _SIDES else len(_SIDES))
    called = {"val": "valid"}
    parts = [Part(called.get(side, side), npz[f"x_{side}"], *read_labels(npz[f"y_{side}"])) for side in sides]
    if META not in npz:
        return padded(parts, "padded npz", options, npz.close)
    meta = ExportedMeta.parse(str(values(npz[META])), str(path))
    for part in parts:
        suffix = f"_{part.name}"
        own = {key for key in npz.keys if key.endswith(suffix)} - {f"x{suffix}", f"y{suffix}"}
        arrays = {key.removesuffix(suffix): values(npz[key]) for key in own}
        part.numbers = NumbersOfClip.parse(arrays, len(part.labels), str(path))
        names = arrays.get("name", np.zeros(0, "U1"))
        part.names = names.tolist() if names.shape == part.labels.shape and names.dtype.kind == "U" else []
    return padded(parts, "skelbench's own mamp-npz", options, npz.close, meta)


_SIDES = ("train", "valid", "val", "test")


def _npy(path: Path, options: ImportOptions) -> Slots | Counts:
    table = open_npy(path)
    if is_slots(table):
        return look(table, options)
    shape = table.shape
    if table.dtype.kind in "iu" and (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)) and shape[0]:
        return Counts(path, values(table).reshape(-1).astype(np.int64), len(shape) == 2)
    raise SkelbenchError(
        f"{path} holds {table.dtype} {list(shape)}, neither clips [N, 3, frames, joints, bodies] nor labels or lengths "
        f"[N]; formats that are imported: {FORMATS}"
    )


def _pickle(path: Path, options: ImportOptions) -> Recording | Labels:
    try:
        value = load_pickle(path)
    except Refused as error:
        with open(path, "rb") as file:
            if not error.name and _is_text(file.read(4096)):
                raise SkelbenchError(
                    f"{path} is text (raw recordings are read by: skelbench data prepare); formats that are imported: "
                    f"{FORMATS}"
                ) from None
        raise
    if is_annotations(value):
        return pyskl(value, path, options)
    labels = _labels(value, path)
    if labels is not None:
        return labels
    what = f"a dictionary with {', '.join(map(repr, list(value)[:5]))}" if isinstance(value, dict) else "no clips"
    raise SkelbenchError(f"{path} is a pickle that holds {what[:200]}; formats that are imported: {FORMATS}")


def _labels(value: Any, path: Path) -> Labels | None:
    """(names, labels), as ST-GCN and its successors save it."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    names, numbers = value
    if not isinstance(names, list | tuple) or not isinstance(numbers, list | tuple | np.ndarray):
        return None
    if not all(isinstance(name, str) and name.isprintable() and name for name in names):
        return None
    labels, _ = whole(numbers, str(path))
    if len(labels) != len(names):
        raise SkelbenchError(f"{path} has {len(names)} names but {len(labels)} labels; the file is incomplete")
    return Labels(path, labels, [name.removesuffix(".skeleton") for name in names])


# ------------------------------------------------------------------------------------------------ files together
def _siblings(path: Path, options: ImportOptions) -> dict[Path, Found]:
    """What lies beside a file and could belong to it; what cannot be used is passed over in silence."""
    found: dict[Path, Found] = {}
    for other in sorted(path.parent.iterdir())[:MAX_SIBLINGS]:
        try:
            if not other.is_file() or other.samefile(path):
                continue
            with open(other, "rb") as file:
                start = file.read(8)
            if start.startswith(b"\x93NUMPY"):
                found[other] = _npy(other, options)
            elif start[:1] in b"\x80(]}" and other.stat().st_size < MAX_LABEL_FILE:
                labels = _labels(load_pickle(other), other)
                if labels is not None:
                    found[other] = labels
        except (SkelbenchError, OSError):
            continue
    return found


def _assemble(given: Sequence[Path], found: dict[Path, Found]) -> list[Slots]:
    """Arrays with their labels and lengths: the given one and, where there is just one, its counterpart."""
    arrays = {path: one for path, one in found.items() if isinstance(one, Slots)}
    label_files = [one for one in found.values() if isinstance(one, Labels)]
    counts = [one for one in found.values() if isinstance(one, Counts)]
    main = _main(given, arrays, found)
    first = _complete(main, arrays.pop(main), label_files, counts, given)
    others: dict[Path, Slots] = {}
    for path, one in arrays.items():
        if one.signature == first.signature and (path in given or one.x.shape[0] != first.x.shape[0]):
            try:
                others[path] = _complete(path, one, label_files, counts, given)
            except SkelbenchError:
                if path in given:
                    raise
    if len(others) > 1:
        raise SkelbenchError(
            f"{main}: several files could be its other part ({', '.join(path.name for path in others)}); name all "
            f"files: skelbench data import TRAIN_DATA TRAIN_LABELS TEST_DATA TEST_LABELS"
        )
    # The larger part trains, unless the order of the given files says otherwise.
    larger = [part for path, part in others.items() if path not in given and part.x.shape[0] > first.x.shape[0]]
    return [*larger, first] if larger else [first, *others.values()]


def _main(given: Sequence[Path], arrays: dict[Path, Slots], found: dict[Path, Found]) -> Path:
    for path in given:
        if path in arrays:
            return path
    one = found[given[0]]
    assert isinstance(one, Labels | Counts)  # an array is one of ``arrays``, and a recording is complete by itself
    count = len(one.labels if isinstance(one, Labels) else one.values)
    fitting = [path for path, array in arrays.items() if array.x.shape[0] == count]
    if len(fitting) != 1:
        which = f"several do ({', '.join(path.name for path in fitting)})" if fitting else "none does"
        raise SkelbenchError(
            f"{given[0]} holds {count} labels or lengths, and of the arrays beside it {which} have as many clips; name "
            f"the array of clips"
        )
    return fitting[0]


def _complete(
    path: Path, array: Slots, label_files: list[Labels], counts: list[Counts], given: Sequence[Path]
) -> Slots:
    """The array with its labels and lengths."""
    clips = array.x.shape[0]
    pickles = [one for one in label_files if len(one.labels) == clips]
    plain = [one for one in counts if len(one.values) == clips]
    columns = [one for one in plain if one.column]
    if len(given) > 1:
        pickles, columns = _nearest(path, pickles, given), _nearest(path, columns, given)
        plain = _nearest(path, [one for one in plain if not one.column], given) + columns
    if not pickles and not columns and len(plain) == 1:
        columns = plain
    fitting: list[Labels | Counts] = [*pickles, *columns]
    if len(fitting) > 1:
        names = ", ".join(one.path.name for one in fitting)
        raise SkelbenchError(f"{path}: several label files fit its {clips} clips ({names}); name the array and its own")
    if not fitting:
        raise SkelbenchError(
            f"{path} holds {clips} clips without labels, and no file beside it has as many; name its label file too "
            f"(train_label.pkl or the like)"
        )
    lengths = [one for one in plain if one not in columns]
    if len(lengths) > 1:
        names = ", ".join(one.path.name for one in lengths)
        raise SkelbenchError(f"{path}: several files could hold the lengths of its clips ({names}); name one of them")
    labels = pickles[0].labels if pickles else whole(columns[0].values, str(columns[0].path))[0]
    for one in lengths:
        if one.values.min() < 1:
            raise SkelbenchError(f"{one.path}: lengths must be 1 or more; is it the file of lengths?")
        if one.values.max() >= 2**31:
            row = int(one.values.argmax())
            raise SkelbenchError(f"{one.path}: clip {row} has a length beyond 2^31; is it the file of lengths?")
    names_N, frames_N = pickles[0].names if pickles else [], lengths[0].values if lengths else None
    return replace(array, labels=labels, names=names_N, num_frame=frames_N)


def _nearest(path: Path, fitting: list[Any], given: Sequence[Path]) -> list[Any]:
    """Of several given files that fit, the first one behind the array; arrays are followed by what belongs to them."""
    behind = [one for one in fitting if given.index(one.path) > given.index(path)] or fitting
    return behind[:1]
