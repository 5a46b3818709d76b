"""Arrays in files, read a row at a time: npy files, arrays of an npz, datasets of an HDF5 file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from skelbench.core.errors import SkelbenchError


@dataclass(frozen=True)
class Table:
    """An array in a file. ``where`` names it in messages; ``rows()`` iterates over the first axis from its start."""

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype
    rows: Callable[[], Iterator[np.ndarray]]


def table_of(array: Any, where: str) -> Table:
    """Return an array, a memory map or an HDF5 dataset as a table."""
    return Table(where, tuple(array.shape), array.dtype, lambda: iter(array))


def is_npy(path: Path) -> bool:
    """Whether a file is in numpy's format, by its first bytes."""
    with open(path, "rb") as file:
        return file.read(6) == b"\x93NUMPY"


def open_npy(path: Path) -> np.ndarray:
    """Map an npy file into memory, read-only."""
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


class Npz:
    """An npz file: small arrays are loaded by name, large ones are read row by row as a :class:`Table`."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, np.load(path, allow_pickle=False)
        self.keys = [name.removesuffix(".npy") for name in self.file.zip.namelist() if name.endswith(".npy")]
        if not self.keys:
            raise SkelbenchError(f"{path} is a zip without arrays; raw recordings are read by: skelbench data prepare")

    def __contains__(self, key: str) -> bool:
        return key in self.keys

    def __getitem__(self, key: str) -> np.ndarray:
        array: np.ndarray = self.file[key]
        return array

    def where(self, key: str) -> str:
        """Name of an array in messages."""
        return f"{self.path}: array {key!r}"

    def table(self, key: str) -> Table:
        """Return an array that is read row by row; the zip's checksum is compared after the last row."""
        where = self.where(key)
        with self.file.zip.open(f"{key}.npy") as stream:
            shape, by_columns, dtype = _header(stream)
        if by_columns and len(shape) > 1:
            raise SkelbenchError(f"{where} is stored column by column; save numpy.ascontiguousarray of it")
        width = math.prod(shape[1:]) * dtype.itemsize

        def rows() -> Iterator[np.ndarray]:
            with self.file.zip.open(f"{key}.npy") as stream:
                _header(stream)
                for _ in range(shape[0]):
                    data = stream.read(width)
                    if len(data) < width:
                        raise EOFError(f"array {key!r} is cut short")
                    yield np.frombuffer(data, dtype).reshape(shape[1:])
                stream.read(1)

        return Table(where, shape, dtype, rows)


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, column order and element type of an array in numpy's format; leaves ``stream`` at its data."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)
