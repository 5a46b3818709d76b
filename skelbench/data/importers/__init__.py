"""Import of files that others prepared, as clip stores.

:func:`recognize` finds the format from the content, :mod:`pair_files` finds files that belong together; one module
per format turns files into a :class:`~skelbench.data.importers.recording.Recording`; :mod:`recording` stores it.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.annotations import is_annotations, pyskl
from skelbench.data.importers.ctrgcn_npz import read_npz, read_sgn
from skelbench.data.importers.pair_files import arrays, lists, other_part
from skelbench.data.importers.parts import side_of
from skelbench.data.importers.pickles import load_pickle
from skelbench.data.importers.ragged import RAGGED, ragged
from skelbench.data.importers.recording import ImportOptions, Recording, write
from skelbench.data.importers.tables import Npz
from skelbench.data.store.clip_store import Skipped, first_line
from skelbench.data.store.roots import check_name
from skelbench.plugin.descriptors import FormatSpec
from skelbench.plugin.host import get_host

__all__ = ["ImportOptions", "Imported", "import_files", "name_for"]

FORMATS = (
    "npz of CTR-GCN / MAMP, ragged npz, pyskl pickle, npy + label file of ST-GCN / 2s-AGCN / AimCLR, HDF5 of SGN, "
    "and the formats of `skelbench plugins list formats`"
)


@dataclass(frozen=True)
class Imported:
    """Result of an import: the store's folder, the recognized recording, and what was skipped."""

    path: Path
    recording: Recording
    skipped: tuple[Skipped, ...]

    @property
    def unexpected(self) -> list[Skipped]:
        """Skipped entries that the format gives no reason to skip."""
        return [entry for entry in self.skipped if not entry.expected]


def import_files(
    files: Sequence[Path | str],
    name: str,
    root: Path,
    options: ImportOptions | None = None,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Store the clips in ``files`` as ``root``/``name``; skip unusable clips, reject unusable files.

    A single npy file is completed with its companions (:mod:`pair_files`). Several files: an array of clips comes
    before its labels, and the training part before the test part.
    """
    path, options, paths = Path(root) / check_name(name), options or ImportOptions(), [Path(file) for file in files]
    with readable(paths[0]):
        recording = recognize(paths, options)
        if options.label_fields != ImportOptions.label_fields and recording.kind != RAGGED:
            raise SkelbenchError(f"{files[0]}: --label-fields is for ragged npz; leave it out")
    return store_recording(recording, path, options, overwrite=overwrite, progress=progress)


def store_recording(
    recording: Recording,
    path: Path,
    options: ImportOptions,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Store ``recording`` at ``path``; skip unusable clips."""
    with readable(next(iter(recording.clips))):
        skipped = write(recording, path, options, overwrite=overwrite, progress=progress)
    return Imported(path, recording, skipped)


@contextmanager
def readable(file: Path | str) -> Iterator[None]:
    """Turn what damaged files raise into one error, while ``file`` is read."""
    try:
        # Coordinates that are NaN or too large for float32 are found and named; numpy need not warn as well.
        with np.errstate(invalid="ignore", over="ignore"):
            yield
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise SkelbenchError(f"{file} cannot be read ({first_line(error)}); download or copy it again") from error


def name_for(file: Path) -> str:
    """Return a dataset's name made from a file's."""
    return check_name(re.sub(r"[^a-z0-9_.-]+", "-", file.stem.lower()).strip("-.") or "imported")


def recognize(files: Sequence[Path], options: ImportOptions) -> Recording:
    """Return the recording in these files; a single npy or list of annotations is completed by its companions."""
    first, starts = files[0], [_start(path) for path in files]
    for format in _formats(files):
        if (recording := format(files, options)) is not None:
            return recording
    if any(start.startswith(b"\x93NUMPY") for start in starts):
        return arrays(files, options)
    if all(start[:1] in (b"\x80", b"(", b"]", b"}") for start in starts):
        return _pickles({path: load_pickle(path) for path in files}, options)
    if len(files) > 1:
        raise SkelbenchError(f"{first} is not an array of clips, so it goes with no other file; import one at a time")
    zipped = starts[0].startswith(b"PK")
    if zipped:
        return _npz(Npz(first), options)
    if starts[0].startswith(b"\x89HDF\r\n\x1a\n"):
        return read_sgn(first, options)
    raise SkelbenchError(f"{first} is {_advice(first)}; formats that are imported: {FORMATS}")


def _formats(files: Sequence[Path]) -> Iterator[Callable[[Sequence[Path], ImportOptions], Recording | None]]:
    """Iterate over the readers of plugins for files with the suffixes of ``files``, or of files below a folder."""
    suffixes, host = {suffix for path in files for suffix in _suffixes(path)}, get_host()
    for about in host.all("formats"):
        if isinstance(about, FormatSpec) and not suffixes.isdisjoint(about.suffixes):
            yield host.load(about)


def _suffixes(path: Path) -> list[str]:
    """Return the suffix of ``path``, or the suffixes of files below a folder (of the first 1,000)."""
    files = islice(path.rglob("*.*"), 1000) if path.is_dir() else [path]
    return sorted({file.suffix.lower() for file in files if not file.is_dir()})


def _advice(path: Path) -> str:
    """Return the description of a file or folder of an unsupported format, with advice."""
    suffixes = _suffixes(path)
    kind = f"a folder without clips ({', '.join(suffixes)})" if path.is_dir() else "not a file of clips"
    hint = "save 3-D joints of one body as a ragged npz, 2-D joints or several bodies as a pyskl pickle"
    hint += " (docs/import_data.md)"
    if suffixes == [".skeleton"]:
        hint = "NTU RGB+D as downloaded is read by skelbench data prepare ntu60 --raw FOLDER"
    return f"{kind}; {hint}"


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


def _pickles(values: dict[Path, Any], options: ImportOptions) -> Recording:
    """Return the recording in one pickle of pyskl, or in the lists of annotations of its two parts."""
    first, value = next(iter(values.items()))
    if all(isinstance(value, list) and is_annotations(value) for value in values.values()) and len(values) < 3:
        companion = other_part(first) if len(values) == 1 else None
        return lists(values | ({companion: load_pickle(companion)} if companion else {}), options)
    if len(values) == 1 and is_annotations(value):
        return pyskl(value, first, options)
    contents = f"a dictionary with {', '.join(map(repr, list(value)[:5]))}" if isinstance(value, dict) else "no clips"
    raise SkelbenchError(f"{first} is a pickle that holds {contents[:200]}; formats that are imported: {FORMATS}")


def _npz(npz: Npz, options: ImportOptions) -> Recording:
    if "joints" in npz or "offsets" in npz:
        return ragged(npz, options)
    if any(key[:2] in ("x_", "y_") and side_of(key)[0] for key in npz.keys):
        return read_npz(npz, options)
    keys = ", ".join(map(repr, npz.keys[:20]))
    raise SkelbenchError(f"{npz.path} has arrays {keys}, none of the layouts that are imported: {FORMATS}")
