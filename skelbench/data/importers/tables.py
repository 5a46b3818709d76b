"""Arrays in files, read a few rows at a time: npy files, members of an npz, data sets of an HDF5 file."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from itertools import repeat
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.raw.files import MAX_RATIO
from skelbench.data.store.clip_store import first_line

FREE_BYTES = 64 << 20
"""Compressed members may unpack to MAX_RATIO times their size, or to this many bytes. One-hot labels reach 150."""
_PIECE = 4096


class Table(Protocol):
    """An array in a file. ``where`` names it in messages: ``FILE: array 'x_train'``."""

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype

    def blocks(self, sizes: Iterable[int]) -> Iterator[np.ndarray]:
        """Consecutive runs of rows of these sizes, from the first row on; raises if the file is damaged there."""
        ...


def pieces(table: Table) -> Iterator[np.ndarray]:
    """All rows, some thousand at a time."""
    count = table.shape[0]
    return table.blocks(min(_PIECE, count - start) for start in range(0, count, _PIECE))


def first_rows(table: Table, most: int) -> Iterator[np.ndarray]:
    """The first rows, one at a time."""
    return (block[0] for block in table.blocks(repeat(1, min(most, table.shape[0]))))


def values(table: StreamTable) -> np.ndarray:
    """A whole small array."""
    flat = copy(table)
    flat.shape, flat.by_columns = (math.prod(table.shape),), False
    found = np.concatenate([np.zeros(0, table.dtype), *pieces(flat)])
    return found.reshape(table.shape, order="F" if table.by_columns else "C")


class StreamTable:
    """An array in numpy's own format, read from its file from the first row on; nothing else of it is in memory."""

    def __init__(self, where: str, reopen: Callable[[], IO[bytes]], size: int, what: str) -> None:
        self.where, self.reopen, self.what = where, reopen, what
        with self._open() as stream:
            try:
                version = np.lib.format.read_magic(stream)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                self.shape, by_columns, self.dtype = read(stream)
                self.start = stream.tell()
            except Exception as error:  # damaged bytes make numpy and its tokenizer raise almost anything
                raise self._damaged(error) from error
        self.by_columns = by_columns and len(self.shape) > 1
        if self.dtype.hasobject:
            raise SkelbenchError(f"{where} holds Python objects, which are never loaded; save it as numbers or text")
        if any(n < 0 for n in self.shape) or self.start + math.prod(self.shape) * self.dtype.itemsize != size:
            raise SkelbenchError(
                f"{where} does not hold the {list(self.shape)} values it promises; it may be cut short, download or "
                f"copy it again"
            )

    def blocks(self, sizes: Iterable[int]) -> Iterator[np.ndarray]:
        """Consecutive runs of rows of these sizes. A zip's checksum is compared after the last row."""
        if self.by_columns:
            raise SkelbenchError(
                f"{self.where} is stored column by column, which cannot be read clip by clip; "
                f"save numpy.ascontiguousarray of it"
            )
        width = math.prod(self.shape[1:]) * self.dtype.itemsize
        left = self.shape[0] * width
        with self._open() as stream:
            try:
                stream.read(self.start)
                for size in sizes:
                    data = stream.read(size * width)
                    if len(data) != size * width:
                        raise EOFError("it is cut short")
                    left -= len(data)
                    if not left:
                        stream.read(1)
                    yield np.frombuffer(data, self.dtype).reshape(size, *self.shape[1:])
            except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
                raise self._damaged(error) from error

    def _open(self) -> IO[bytes]:
        try:
            return self.reopen()
        except Exception as error:  # damaged bytes make zipfile raise almost anything
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> SkelbenchError:
        return SkelbenchError(
            f"{self.where} is not readable as {self.what} ({first_line(error)}); it may be cut short, download or copy "
            f"it again"
        )


def open_npy(path: Path) -> StreamTable:
    """The array in an npy file."""
    return StreamTable(str(path), lambda: open(path, "rb"), path.stat().st_size, "an npy file")


# ------------------------------------------------------------------------------------------------ npz
class Npz:
    """An npz file as a mapping from names to arrays, read as they are asked for; refuses doubtful members and bombs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.zip = zipfile.ZipFile(path)
        except Exception as error:  # damaged bytes make zipfile raise almost anything
            raise SkelbenchError(
                f"{path} is not a readable npz file ({first_line(error)}); it may be cut short, download or copy it "
                f"again"
            ) from error
        self.members: dict[str, zipfile.ZipInfo] = {}
        if not any(name.endswith(".npy") for name in self.zip.namelist()):
            raise SkelbenchError(
                f"{path} is a zip without arrays; raw recordings are read by: skelbench data prepare ntu60 --raw {path}"
            )
        for info in self.zip.infolist():
            name = info.filename
            if any(part in name for part in ("/", "\\", "..")) or not name.isprintable():
                raise SkelbenchError(
                    f"{path} holds a member called {ascii(name)[1:-1][:60]!r}, a path that no npz file has; nothing "
                    f"was unpacked, do not trust this file"
                )
            if name in self.members:
                raise SkelbenchError(f"{path} holds two members called {name!r}; do not trust this file")
            self.members[name] = info

    def close(self) -> None:
        """Close the file."""
        self.zip.close()

    @property
    def keys(self) -> list[str]:
        """Names of the arrays, in the order of the file."""
        return [name.removesuffix(".npy") for name in self.members if name.endswith(".npy")]

    def __contains__(self, key: str) -> bool:
        return f"{key}.npy" in self.members

    def __getitem__(self, key: str) -> StreamTable:
        info, where = self.members[f"{key}.npy"], f"{self.path}: array {key!r}"
        size, packed = info.file_size, info.compress_size
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise SkelbenchError(f"{where} is encrypted or packed as numpy never does; save it with numpy.savez")
        if size > FREE_BYTES and size > MAX_RATIO * packed:
            raise SkelbenchError(
                f"{where} would unpack to {size / 1e9:.1f} GB, {size // max(packed, 1)} times its size in the "
                f"file; do not trust this file"
            )
        return StreamTable(where, lambda: self.zip.open(info), size, "part of an npz file")


# ------------------------------------------------------------------------------------------------ HDF5
class SliceTable:
    """A data set of an HDF5 file, or anything with shape, dtype and slices."""

    def __init__(self, array: Any, where: str) -> None:
        self.array, self.where = array, where
        self.shape, self.dtype = tuple(array.shape), array.dtype
        if self.dtype.hasobject or not self.shape:
            raise SkelbenchError(f"{where} holds Python objects or a single value; save it as an array of numbers")

    def blocks(self, sizes: Iterable[int]) -> Iterator[np.ndarray]:
        """Consecutive runs of rows of these sizes."""
        start = 0
        for size in sizes:
            try:
                block = np.asarray(self.array[start : start + size])
            except (OSError, RuntimeError, ValueError) as error:  # h5py says so when chunks are damaged
                raise SkelbenchError(
                    f"{self.where} cannot be read at row {start} ({first_line(error)}); copy the file again"
                ) from error
            start += size
            yield block
