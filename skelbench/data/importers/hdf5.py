"""SGN's HDF5 files: ``x``, ``y``; ``valid_x``, ``valid_y``; ``test_x``, ``test_y``, padded as in the npz files."""

from __future__ import annotations

from pathlib import Path

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.ctrgcn_npz import Part, padded
from skelbench.data.importers.labels import read_labels
from skelbench.data.importers.options import ImportOptions
from skelbench.data.importers.recording import Recording
from skelbench.data.importers.tables import SliceTable
from skelbench.data.store.clip_store import first_line

_PARTS = {"train": "", "valid": "valid_", "test": "test_"}


def sgn(path: Path, options: ImportOptions) -> Recording:
    """The recording in an HDF5 file."""
    try:
        return _sgn(path, options)
    except (KeyError, RuntimeError, OSError) as error:  # what h5py makes of damaged bytes, as it comes upon them
        raise SkelbenchError(f"{path} is a damaged HDF5 file ({first_line(error)}); copy it again") from error


def _sgn(path: Path, options: ImportOptions) -> Recording:
    try:
        import h5py
    except ImportError:
        raise SkelbenchError(
            f"{path} is an HDF5 file, which needs h5py to read; install it with: pip install 'skelbench[h5]'"
        ) from None
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise SkelbenchError(
            f"{path} is not a readable HDF5 file ({first_line(error)}); it may be cut short, copy it again"
        ) from error
    parts = []
    for name, prefix in _PARTS.items():
        # Neither links nor data sets lead to other files: what is asked for must lie in this one.
        keys = [key for key in (f"{prefix}x", f"{prefix}y") if isinstance(file.get(key, getlink=True), h5py.HardLink)]
        found = [
            one
            for one in map(file.get, keys)
            if isinstance(one, h5py.Dataset) and not one.external and not one.is_virtual
        ]
        if prefix and len(found) != 2 and {f"{prefix}x", f"{prefix}y"} & set(file):
            file.close()
            raise SkelbenchError(f"{path} has no data sets {prefix}x and {prefix}y of its own; the file is incomplete")
        if len(found) == 2:
            x, y = (SliceTable(one, f"{path}, data set {one.name.lstrip('/')!r}") for one in found)
            labels, classes = read_labels(y)
            parts.append(Part(name, x, labels, classes))
    if not parts or parts[0].name != "train":
        there = ", ".join(sorted(map(repr, file))[:20]) or "nothing"
        file.close()
        raise SkelbenchError(f"{path} has no data sets x and y (it has {there}); only SGN's HDF5 files are read")
    return padded(parts, "SGN HDF5", options, file.close)
