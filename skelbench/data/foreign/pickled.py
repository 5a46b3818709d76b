"""What a pickle may hold besides plain values: long texts, and numpy arrays that stay in the file until they are read.

Nothing here calls what a pickle names. The names in :data:`ALLOWED` stand for functions of this module, which check
their arguments and build stand-ins; a numpy array is made from a stand-in's bytes only when somebody reads it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

_KINDS = re.compile(r"b1|[iu][1248]|f[248]|[US][0-9]{1,6}")
"""Element types: truth values, whole and floating-point numbers, text and bytes of fixed width."""


class Malformed(Exception):
    """The pickle says something that no pickle of plain data says; the message names it."""


class Span:
    """Bytes that are still in the file: ``[start, stop)`` of ``data``, taken as ``kind`` says.

    "bytes": as they are. "coded": UTF-8 of text that stands for bytes, one per character (how protocols 0 to 2 write
    bytes). "text": UTF-8. "old": a string of Python 2, text (latin-1) and bytes alike.
    """

    __slots__ = ("data", "start", "stop", "kind")

    def __init__(self, data: Any, start: int, stop: int, kind: Literal["bytes", "coded", "text", "old"]) -> None:
        self.data, self.start, self.stop, self.kind = data, start, stop, kind

    @property
    def plain(self) -> bool:
        """The bytes meant are the bytes stored."""
        return self.kind in ("bytes", "old")

    def __len__(self) -> int:
        """Bytes meant."""
        raw = np.frombuffer(self.data, np.uint8, self.stop - self.start, self.start)
        return len(raw) if self.plain else int(np.count_nonzero((raw & 0xC0) != 0x80))

    def read(self) -> bytes:
        """A copy of the bytes meant; :class:`Malformed` if they are not coded as they should be."""
        raw = bytes(self.data[self.start : self.stop])
        try:
            return raw if self.plain else raw.decode("utf-8").encode("latin-1")
        except UnicodeError:
            raise Malformed("an array whose bytes are damaged") from None


class PickledDtype:
    """``numpy.dtype`` while it is being unpickled; native byte order until its state says otherwise."""

    __slots__ = ("dtype",)

    def __init__(self, code: str) -> None:
        self.dtype = np.dtype(code)

    def set_state(self, state: Any) -> None:
        """Take over the byte order; anything but a plain element type is refused."""
        if type(state) is not tuple or len(state) != 8 or state[0] != 3 or state[2:5] != (None, None, None):
            raise Malformed("a numpy element type with fields, sub-arrays or metadata")
        order, width = state[1], self.dtype.itemsize // (4 if self.dtype.kind == "U" else 1)
        plain = self.dtype.kind in "bS" or (self.dtype.kind in "iu" and width == 1)
        if order not in (("|",) if plain else ("<", ">")) or state[5:] not in ((-1, -1, 0), self._sizes()):
            raise Malformed("a numpy element type that contradicts itself")
        self.dtype = self.dtype.newbyteorder(order)

    def _sizes(self) -> tuple[int, ...]:
        flags = 8 if self.dtype.kind == "U" else 0  # text must be initialised, numpy notes
        return (self.dtype.itemsize, self.dtype.alignment, flags)


class PickledArray:
    """A numpy array in a pickle: shape and element type are known and fit the bytes, the values are read on demand."""

    __slots__ = ("dtype", "shape", "raw", "order", "axes")

    def __init__(self) -> None:
        self.dtype: np.dtype | None = None
        self.shape: tuple[int, ...] = ()
        self.raw: bytes | Span = b""
        self.order: str = "C"
        self.axes: tuple[int, ...] | None = None

    def fill(self, shape: Any, kind: Any, raw: Any, order: str, axes: Any = None) -> PickledArray:
        """Set the contents once, after checking that they belong together."""
        if self.dtype is not None:
            raise Malformed("an array that is filled twice")
        if type(shape) is not tuple or len(shape) > 32 or any(type(n) is not int or n < 0 for n in shape):
            raise Malformed("an array of impossible shape")
        if type(kind) is not PickledDtype:
            raise Malformed("an array without element type")
        if type(raw) is str:
            raw = raw.encode("latin-1")
        if type(raw) not in (bytes, Span):
            raise Malformed("an array whose values are objects")
        if math.prod(shape) * kind.dtype.itemsize != len(raw):
            raise Malformed(f"an array of shape {list(shape)[:8]} in {len(raw)} bytes, which do not fit")
        if axes is not None and (type(axes) is not tuple or sorted(axes) != list(range(len(shape)))):
            raise Malformed("an array with impossible axes")
        self.dtype, self.shape, self.raw, self.order, self.axes = kind.dtype, shape, raw, order, axes
        if axes is not None:
            self.shape = tuple(shape[axis] for axis in axes)
        return self

    def set_state(self, state: Any) -> None:
        """What numpy's own arrays take: (1, shape, element type, column order, bytes)."""
        if type(state) is not tuple or len(state) != 5 or state[0] != 1:
            raise Malformed("an array in an unknown form")
        _, shape, kind, columns, raw = state
        if type(columns) not in (bool, int):
            raise Malformed("an array in an unknown form")
        self.fill(shape, kind, raw, "F" if columns else "C")

    def read(self) -> np.ndarray:
        """The array; a view of the file where the file holds its bytes as they are. Do not write to it."""
        if self.dtype is None:
            raise Malformed("an array that is never filled")
        dtype, shape = self.dtype, self.shape
        if self.axes is not None:
            shape = tuple(n for _, n in sorted(zip(self.axes, self.shape, strict=True)))
        stored = np.dtype(np.uint8) if dtype.kind == "b" else dtype  # a truth value is any byte but 0
        if not dtype.itemsize or not math.prod(shape):
            array = np.zeros(shape, dtype)
        elif type(self.raw) is Span and self.raw.plain:
            count = (self.raw.stop - self.raw.start) // stored.itemsize
            array = np.frombuffer(self.raw.data, stored, count, self.raw.start).reshape(shape, order=self.order)
        else:
            raw = self.raw.read() if type(self.raw) is Span else self.raw
            array = np.frombuffer(raw, stored).reshape(shape, order=self.order)
        if dtype.kind == "b":
            array = array != 0
        if dtype.kind == "U" and array.size and _code_points(array).max() > 0x10FFFF:
            raise Malformed("text that is no text")
        return array if self.axes is None else array.transpose(self.axes)


class _ArrayType:
    """Stands for ``numpy.ndarray``, which pickles name but never need."""


def _code_points(array: np.ndarray) -> np.ndarray:
    width = array.dtype.itemsize // 4
    flat = np.ascontiguousarray(array).reshape(-1)
    return np.ndarray((len(flat), width), np.dtype("u4").newbyteorder(array.dtype.byteorder), flat.data)


def _is_bytes(value: Any) -> bool:
    return type(value) is bytes or (type(value) is Span and value.kind in ("bytes", "coded"))


def _reconstruct(*args: Any) -> PickledArray:
    if len(args) != 3 or args[0] is not _ArrayType or args[1] != (0,) or args[2] not in (b"b", "b"):
        raise Malformed("an array of another class than numpy.ndarray")
    return PickledArray()


def _from_buffer(*args: Any) -> PickledArray:
    if len(args) not in (4, 5) or args[3] not in ("C", "F", "K"):
        raise Malformed("an array in an unknown form")
    raw, kind, shape, order = args[:4]
    axes = args[4] if len(args) == 5 else None
    if not _is_bytes(raw) or (order == "K") != (axes is not None):
        raise Malformed("an array in an unknown form")
    return PickledArray().fill(shape, kind, raw, "C" if order == "K" else order, axes)


def _dtype(*args: Any) -> PickledDtype:
    code = args[0] if args else None
    if type(code) is str and code[:1] == "O":
        raise Malformed("an array of Python objects")
    if len(args) != 3 or type(code) is not str or {type(args[1]), type(args[2])} - {bool, int}:
        raise Malformed("a numpy element type in an unknown form")
    if not _KINDS.fullmatch(code):
        raise Malformed(f"numpy element type {ascii(code[:20])}")
    return PickledDtype(code)


def _scalar(*args: Any) -> Any:
    if len(args) != 2 or type(args[0]) is not PickledDtype:
        raise Malformed("a numpy number in an unknown form")
    return PickledArray().fill((), *args, "C").read().item()


def _encode(*args: Any) -> bytes | Span:
    if len(args) != 2 or args[1] not in ("latin1", "latin-1"):
        raise Malformed("text to be encoded in another way than latin-1")
    text = args[0]
    if type(text) is Span and text.kind == "text":
        return Span(text.data, text.start, text.stop, "coded")
    if type(text) is not str:
        raise Malformed("something else than text to be encoded")
    return text.encode("latin-1")


def _bytes(*args: Any) -> bytes | Span:
    if not args:
        return b""
    if len(args) == 1 and _is_bytes(args[0]):
        return args[0]
    raise Malformed("bytes in an unknown form")


def _bytearray(*args: Any) -> Span:
    raw = _bytes(*args)
    return Span(raw, 0, len(raw), "bytes") if type(raw) is bytes else raw  # unlike bytes, it cannot be a key


ALLOWED: dict[tuple[str, str], Callable[..., Any] | type[_ArrayType]] = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
    ("numpy", "dtype"): _dtype,
    ("numpy", "ndarray"): _ArrayType,
    ("_codecs", "encode"): _encode,
    **{(module, "bytes"): _bytes for module in ("builtins", "__builtin__")},
    **{(module, "bytearray"): _bytearray for module in ("builtins", "__builtin__")},
}
"""Everything a pickle may name, and what stands for it."""
