"""Which format files are in, by their content."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.annotations import is_annotations, pyskl
from skelbench.data.importers.ctrgcn_npz import Part, padded
from skelbench.data.importers.exporters import META, ExportedMeta, NumbersOfClip
from skelbench.data.importers.hdf5 import sgn
from skelbench.data.importers.labels import read_labels, whole
from skelbench.data.importers.nwucla import files_of, is_clip, nw_ucla
from skelbench.data.importers.options import ImportOptions
from skelbench.data.importers.pair_files import Counts, Damaged, Entries, Found, Labels, assemble, listed, pair
from skelbench.data.importers.pickles import Refused, load_pickle
from skelbench.data.importers.ragged import is_ragged, ragged
from skelbench.data.importers.recording import Recording
from skelbench.data.importers.split_names import side_of
from skelbench.data.importers.stgcn_npy import Slots, is_slots, look, slots
from skelbench.data.importers.tables import Npz, open_npy, values
from skelbench.data.raw.files import RawFile

MAX_LABEL_FILE = 32 << 20
"""Larger pickles beside a given array are not looked at."""
MAX_SIBLINGS = 500

FORMATS = (
    "npz of CTR-GCN / MAMP, ragged npz, pyskl pickle, npy + label file of ST-GCN / 2s-AGCN / AimCLR, HDF5 of SGN, "
    "folder of NW-UCLA's JSON files"
)


def recognise(files: Sequence[Path], options: ImportOptions) -> Recording:
    """The recording in these files; one that needs others is completed with files beside it, if it is given alone."""
    for path in files:
        if not path.exists():
            raise SkelbenchError(f"there is no file {path}; check the path")
    found = {path: _open(path, options) for path in files}
    complete = [one for one in found.values() if isinstance(one, Recording)]
    if complete and len(files) == 1 and options.train is None:
        return complete[0]
    if complete:
        for one in complete:
            one.close()
        what = "import one file at a time" if len(files) > 1 else "leave out --train"
        raise SkelbenchError(f"{files[0]}: a {complete[0].kind} is complete by itself; {what}")
    if len(files) == 1:
        found |= _siblings(files[0], options)
    lists = {path: one.entries for path, one in found.items() if isinstance(one, Entries)}
    if files[0] in lists or len(files) > 1 and lists:
        return listed(files, lists, options)
    return slots(assemble(files, found, options.train), options)


# ------------------------------------------------------------------------------------------------ one file
def _open(path: Path, options: ImportOptions) -> Found:
    if path.is_dir():
        if files := files_of(path):
            return nw_ucla(path, files, options)
        raise SkelbenchError(
            f"{path} is a folder without clips of NW-UCLA; name a file in it (raw recordings are read by: skelbench "
            f"data prepare)"
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
    if start[:1] in b"\x80(]})lcIFNKJSUVXT" and not _is_table(start):
        return _pickle(path, options)
    if is_clip(path.name):
        raise SkelbenchError(f"{path} is a single clip of NW-UCLA; name the folder that holds all of them")
    what = "text (raw recordings are read by: skelbench data prepare)" if _is_text(start) else "of unknown content"
    what = "a table; save it as a ragged npz, with arrays joints, offsets and label" if _is_table(start) else what
    raise SkelbenchError(f"{path} is {what}; formats that are imported: {FORMATS}")


def _is_text(start: bytes) -> bool:
    return all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in start)


def _is_table(start: bytes) -> bool:
    """Lines of text in columns. A pickle that is text begins with a bracket, or with a line without a comma."""
    return _is_text(start) and start[:1] != b"(" and any(separator in start.splitlines()[0] for separator in b",;\t")


def _npz(path: Path, options: ImportOptions) -> Recording:
    files: list[RawFile] = []
    with suppress(SkelbenchError):  # a damaged zip, which is said below
        files = files_of(path)
    if files:
        return nw_ucla(path, files, options)
    with ExitStack() as stack:  # a file that is refused is not left open
        npz = Npz(path)
        stack.callback(npz.close)
        recording = _arrays(npz, options)
        stack.pop_all()
    return recording


def _arrays(npz: Npz, options: ImportOptions) -> Recording:
    path = npz.path
    if is_ragged(npz):
        return ragged(npz, options)
    sides = [key.removeprefix("x_") for key in npz.keys if key.startswith("x_") and f"y_{key[2:]}" in npz]
    if not sides:
        keys = ", ".join(map(repr, npz.keys[:20]))
        raise SkelbenchError(f"{path} has arrays {keys}, none of the layouts that are imported: {FORMATS}")
    missing = [key for key in ("x_train", "y_train", "x_test", "y_test") if key not in npz]
    if META in npz and missing:
        raise SkelbenchError(f"{path} has no {', '.join(missing)}; export the data set again, with both parts")
    called = {side: side_of(side)[0] for side in sides}
    half = [key for key in npz.keys if key[:2] in ("x_", "y_") and side_of(key)[0] and key[2:] not in called]
    if half:
        lost = f"{'y' if half[0][0] == 'x' else 'x'}_{half[0][2:]}"
        raise SkelbenchError(f"{path} has {half[0]} but no {lost}; the file is incomplete")
    if len(sides) > 1 and ("" in called.values() or len(set(called.values())) < len(sides)):
        raise SkelbenchError(
            f"{path}: its parts are called {', '.join(sides)}, which does not say which of them trains; save them as "
            f"x_train, y_train and x_test, y_test"
        )
    sides.sort(key=lambda side: _SIDES.index(called[side]))
    parts = [Part(called[side] or side, npz[f"x_{side}"], *read_labels(npz[f"y_{side}"])) for side in sides]
    if META not in npz:
        return padded(parts, "padded npz", options, npz.close)
    meta = ExportedMeta.parse(str(values(npz[META])), str(path))
    for part in parts:
        suffix = f"_{part.name}"
        own = {key for key in npz.keys if key.endswith(suffix)} - {f"{key}{suffix}" for key in ("x", "y", "confidence")}
        arrays = {key.removesuffix(suffix): values(npz[key]) for key in own}
        part.numbers = NumbersOfClip.parse(arrays, len(part.labels), str(path))
        if (key := f"confidence{suffix}") in npz:
            part.confidence = npz[key]
        names = arrays.get("name", np.zeros(0, "U1"))
        part.names = names.tolist() if names.shape == part.labels.shape and names.dtype.kind == "U" else []
    return padded(parts, "skelbench's own mamp-npz", options, npz.close, meta)


_SIDES = ("train", "valid", "test", "")


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


def _pickle(path: Path, options: ImportOptions) -> Recording | Labels | Entries:
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
    if is_annotations(value) and isinstance(value, list):
        return Entries(path, value)
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


# ------------------------------------------------------------------------------------------------ files beside it
def _siblings(path: Path, options: ImportOptions) -> dict[Path, Found]:
    """What lies beside a file and could belong to it.

    What cannot be used is passed over in silence, unless by its name it is the other part of the file; labels that
    cannot be read are kept in mind, for the array that lacks them.
    """
    found: dict[Path, Found] = {}
    for other in [file for folder in _folders(path.parent) for file in sorted(folder.iterdir())[:MAX_SIBLINGS]]:
        if pair(path, other) and other.exists():
            found[other] = _open(other, options)
            continue
        with suppress(OSError):
            if not other.name.isprintable() or not other.is_file() or other.samefile(path):
                continue
            with open(other, "rb") as file:
                start = file.read(8)
            try:
                if start.startswith(b"\x93NUMPY"):
                    found[other] = _npy(other, options)
                elif start[:1] in b"\x80(]}" and other.stat().st_size < MAX_LABEL_FILE:
                    labels = _labels(load_pickle(other), other)
                    if labels is not None:
                        found[other] = labels
            except SkelbenchError as error:
                if "label" in other.stem.lower():
                    found[other] = Damaged(other, error)
    return found


def _folders(here: Path) -> list[Path]:
    """A folder and, if it is that of one part ("train"), those beside it that are of the other ("val", "test")."""
    named = here.absolute()
    sided = side_of(named.name)[0] and os.access(named.parent, os.R_OK)
    beside = sorted(named.parent.iterdir()) if sided else []
    return [here, *(one for one in beside if pair(named, one) and os.access(one, os.R_OK | os.X_OK) and one.is_dir())]
