"""Formats of files, recognized by their content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.annotations import is_annotations, pyskl
from skelbench.data.importers.ctrgcn_npz import read_npz, read_sgn
from skelbench.data.importers.nwucla import files_of, nw_ucla
from skelbench.data.importers.pair_files import arrays, lists, other_part
from skelbench.data.importers.parts import side_of
from skelbench.data.importers.pickles import load_pickle
from skelbench.data.importers.ragged import is_ragged, ragged
from skelbench.data.importers.recording import ImportOptions, Recording
from skelbench.data.importers.tables import Npz

FORMATS = (
    "npz of CTR-GCN / MAMP, ragged npz, pyskl pickle, npy + label file of ST-GCN / 2s-AGCN / AimCLR, HDF5 of SGN, "
    "folder of NW-UCLA's JSON files"
)


def recognize(files: Sequence[Path], options: ImportOptions) -> Recording:
    """Return the recording in these files; a single npy or list of annotations is completed by its companions."""
    first = files[0]
    starts = [_start(path) for path in files]
    if any(start.startswith(b"\x93NUMPY") for start in starts):
        return arrays(files, options)
    if all(_is_pickle(start) for start in starts):
        values = {path: load_pickle(path) for path in files}
        if all(isinstance(value, list) and is_annotations(value) for value in values.values()) and len(files) < 3:
            if len(files) == 1 and (other := other_part(first)):
                values[other] = load_pickle(other)
            return lists(values, options)
    if len(files) > 1:
        raise SkelbenchError(f"{first} is not an array of clips, so it goes with no other file; import one at a time")
    if first.is_dir():
        if members := files_of(first):
            return nw_ucla(first, members, options)
        raise SkelbenchError(f"{first} is a folder without clips of NW-UCLA; name a file in it")
    if starts[0].startswith(b"PK"):
        return nw_ucla(first, members, options) if (members := files_of(first)) else _npz(Npz(first), options)
    if starts[0].startswith(b"\x89HDF\r\n\x1a\n"):
        return read_sgn(first, options)
    if not _is_pickle(starts[0]):
        hint = "a table can be saved as a ragged npz; raw recordings are read by: skelbench data prepare"
        raise SkelbenchError(f"{first} is not a file of clips; formats that are imported: {FORMATS} ({hint})")
    value = values[first]
    if is_annotations(value):
        return pyskl(value, first, options)
    what = f"a dictionary with {', '.join(map(repr, list(value)[:5]))}" if isinstance(value, dict) else "no clips"
    if isinstance(value, list | tuple) and len(value) == 2:
        raise SkelbenchError(f"{first} holds no clips, perhaps labels; name the array of clips")
    raise SkelbenchError(f"{first} is a pickle that holds {what[:200]}; formats that are imported: {FORMATS}")


def _start(path: Path) -> bytes:
    """Return the first bytes of a file; b"" for a folder."""
    if not path.exists():
        raise SkelbenchError(f"there is no file {path}; check the path")
    if path.is_dir():
        return b""
    with open(path, "rb") as file:
        start = file.read(64)
    if not any(start):
        raise SkelbenchError(f"{path} is empty or begins with zero bytes; download or copy it again")
    return start


def _is_pickle(start: bytes) -> bool:
    return start[:1] in (b"\x80", b"(", b"]", b"}")


def _npz(npz: Npz, options: ImportOptions) -> Recording:
    if is_ragged(npz):
        return ragged(npz, options)
    if any(key[:2] in ("x_", "y_") and side_of(key)[0] for key in npz.keys):
        return read_npz(npz, options)
    keys = ", ".join(map(repr, npz.keys[:20]))
    raise SkelbenchError(f"{npz.path} has arrays {keys}, none of the layouts that are imported: {FORMATS}")
