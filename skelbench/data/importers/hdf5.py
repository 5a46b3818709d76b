"""SGN's HDF5 files: ``x``, ``y``; ``valid_x``, ``valid_y``; ``test_x``, ``test_y``, padded as in the npz files."""

from __future__ import annotations

from pathlib import Path

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.ctrgcn_npz import Part, padded
from skelbench.data.importers.labels import read_labels
from skelbench.data.importers.options import ImportOptions
from skelbench.data.importers.recording import Recording
from skelbench.data.importers.tables import table_of

_PARTS = {"train": "", "valid": "valid_", "test": "test_"}


def sgn(path: Path, options: ImportOptions) -> Recording:
    """Return the recording in an HDF5 file."""
    try:
        import h5py
    except ImportError:
        raise SkelbenchError(
            f"{path} is an HDF5 file, which needs h5py to read; install it with: pip install 'skelbench[h5]'"
        ) from None
    file, parts = h5py.File(path, "r"), []
    for name, prefix in _PARTS.items():
        x, y = file.get(f"{prefix}x"), file.get(f"{prefix}y")
        if isinstance(x, h5py.Dataset) and isinstance(y, h5py.Dataset):
            where = f"{path}, dataset {prefix}"
            parts.append(Part(name, table_of(x, f"{where}x"), *read_labels(y[:], f"{where}y")))
        elif x is not None or y is not None or name == "train":
            there = ", ".join(sorted(file)[:20]) or "nothing"
            raise SkelbenchError(
                f"{path} has no datasets {prefix}x and {prefix}y (it has {there}); is it one of SGN's?"
            )
    return padded(parts, "SGN HDF5", options)
