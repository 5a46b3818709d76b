"""Reading pickles that strangers made: plain values and numpy arrays, nothing else, and nothing that they name is run.

A pickle is a program. Python's own interpreter runs it, of which only the instructions that plain data needs are left:
``None``, truth values, numbers, text, bytes, lists, tuples, dictionaries, and calls of the few functions below, which
stand for what numpy's arrays are pickled with, check their arguments, and are all that a pickle can name.

Bounds: dictionary keys are text, bytes, truth values, ``None``, floating-point numbers, or whole numbers below 2^63
(nested ones can take for ever to hash, and deep ones end the process); bytes that the functions take are no more in
sum than twice those of the file. It is the interpreter written in Python: the one in C makes room for 2^33 values where
a file of ten bytes asks for it, and hashes keys before anybody can look at them.
"""

from __future__ import annotations

import io
import math
import mmap
import pickle
import re
import struct
from collections.abc import Callable
from pathlib import Path
from types import MethodType
from typing import IO, Any, ClassVar, NoReturn

import numpy as np

from skelbench.core.errors import SkelbenchError

_KINDS = re.compile(r"b1|[iu][1248]|f[248]|[US][1-9][0-9]{0,5}")
"""Element types: truth values, whole and floating-point numbers, text and bytes of fixed width."""
_WHOLE = re.compile(rb"0|-?[1-9][0-9]*")
_FLOAT = re.compile(rb"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|-?inf|nan")
_MAX_AXES = 32
_DAMAGE = (
    *(pickle.UnpicklingError, EOFError, IndexError, KeyError, ValueError, TypeError, OverflowError),
    *(struct.error, MemoryError),
)
"""All that the interpreter can raise on damaged bytes (UnicodeError is a ValueError)."""


class Refused(SkelbenchError):
    """A pickle that is damaged, or wants more than plain data; ``name`` is what it asked for ("" if it is damaged)."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class _Malformed(Exception):
    """The pickle says something that no pickle of plain data says; the message names it."""


class _Asks(Exception):
    """For something that is not allowed."""


def load_pickle(path: Path) -> Any:
    """The value in the pickle file at ``path``; :class:`Refused` (one sentence) if it is damaged or not plain data."""
    size = path.stat().st_size
    if not size:
        raise Refused(f"{path} is empty; download or copy it again")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _load(data, size, str(path))


def loads(data: bytes, where: str = "pickle") -> Any:
    """The value pickled in ``data``; ``where`` begins the sentence if it is refused."""
    return _load(io.BytesIO(data), len(data), where)


def _load(file: IO[bytes] | mmap.mmap, size: int, where: str) -> Any:
    try:
        return _Reader(file, size).load()
    except _Asks as error:
        raise Refused(
            f"{where} asks for {error}, which plain data does not need; nothing was run: do not trust this file, or "
            f"have it saved again as numbers, text and numpy arrays",
            str(error),
        ) from None
    except _Malformed as error:
        raise Refused(
            f"{where} holds {error}, which is not read; save it again as numbers, text and plain numpy arrays"
        ) from None
    except _DAMAGE as error:
        known: dict[type, str]
        known = {IndexError: "it takes more values than there are", KeyError: "an instruction that there is not"}
        reason = known.get(type(error)) or (str(error).splitlines() or ["it ends too early"])[0][:80]
        raise Refused(
            f"{where} is not a readable pickle ({reason}); it may be cut short, download or copy it again"
        ) from None


class _ElementType:
    """``numpy.dtype`` while it is being unpickled; native byte order until its state says otherwise."""

    def __init__(self, code: str) -> None:
        self.dtype = np.dtype(code)

    def set_state(self, state: Any) -> None:
        """Take over the byte order; anything but a plain element type is refused."""
        if type(state) is not tuple or len(state) != 8 or state[0] != 3 or state[2:5] != (None, None, None):
            raise _Malformed("a numpy element type with fields, sub-arrays or metadata")
        order, kind, size = state[1], self.dtype.kind, self.dtype.itemsize
        plain = kind in "bS" or (kind in "iu" and size == 1)
        sizes = (size, self.dtype.alignment, 8 if kind == "U" else 0)  # text must be initialised, numpy notes
        if order not in (("|",) if plain else ("<", ">")) or state[5:] not in ((-1, -1, 0), sizes):
            raise _Malformed("a numpy element type that contradicts itself")
        self.dtype = self.dtype.newbyteorder(order)


_NDARRAY = object()
"""Stands for ``numpy.ndarray``, which pickles name but never need."""


def _digits(line: bytes, form: re.Pattern[bytes]) -> bytes:
    """``line``, if it is a number as picklers write it; ``int`` and ``float`` take more."""
    if not form.fullmatch(line):
        raise ValueError("a number that is none")
    return line


class _Reader(pickle._Unpickler):
    """Python's interpreter with the instructions and names of plain data only."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]
    read: Callable[[int], bytes]
    readline: Callable[[], bytes]
    _unframer: Any

    def __init__(self, file: IO[bytes] | mmap.mmap, size: int) -> None:
        super().__init__(file, encoding="latin1")  # of Python 2's strings
        self.file, self.size, self.left = file, size, 2 * size

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a name, if it is allowed."""
        known = ALLOWED.get((module, name))
        if known is None:
            raise _Asks(ascii(f"{module}.{name}")[1:-1][:80])
        return _NDARRAY if known == "ndarray" else getattr(self, known)

    def _charge(self, count: int) -> None:
        """Every byte may be encoded once and put into an array once; a file that asks again and again is no data."""
        self.left -= count
        if self.left < 0:
            raise _Malformed("more arrays than it has bytes")

    def _contents(self, shape: Any, kind: Any, raw: Any) -> tuple[np.dtype, bytes | bytearray]:
        """Element type and bytes of an array, if they belong together and to its shape."""
        axes = shape if type(shape) is tuple and len(shape) <= _MAX_AXES else (None,)
        if any(type(n) is not int or not 0 <= n < 1 << 63 for n in axes):
            raise _Malformed("an array of impossible shape")
        if type(kind) is not _ElementType:
            raise _Malformed("an array without element type")
        if type(raw) is str:  # Python 2's bytes
            self._charge(len(raw))
            raw = raw.encode("latin-1")
        if type(raw) not in (bytes, bytearray):
            raise _Malformed("an array whose values are objects")
        if math.prod(shape) * kind.dtype.itemsize != len(raw):
            raise _Malformed(f"an array of shape {list(shape)[:8]} in {len(raw)} bytes, which do not fit")
        self._charge(len(raw))
        return kind.dtype, raw

    # ---------------------------------------------------------------------------------------- what it may call
    def _reconstruct(self, *args: Any) -> np.ndarray:
        if len(args) != 3 or args[0] is not _NDARRAY or args[1] != (0,) or args[2] not in (b"b", "b"):
            raise _Malformed("an array of another class than numpy.ndarray")
        return np.ndarray(0, "b")

    def _fill(self, array: np.ndarray, state: Any) -> None:
        if type(state) is not tuple or len(state) != 5 or state[0] != 1 or type(state[3]) not in (bool, int):
            raise _Malformed("an array in an unknown form")
        _, shape, kind, columns, raw = state
        if array.shape != (0,):
            raise _Malformed("an array that is filled twice")
        dtype, raw = self._contents(shape, kind, raw)
        array.__setstate__((1, shape, dtype, bool(columns), bytes(raw)))  # type: ignore[arg-type]

    def _from_buffer(self, *args: Any) -> np.ndarray:
        if len(args) not in (4, 5) or args[3] not in ("C", "F", "K") or (args[3] == "K") != (len(args) == 5):
            raise _Malformed("an array in an unknown form")
        raw, kind, shape, order = args[:4]
        dtype, raw = self._contents(shape, kind, raw)
        array = np.frombuffer(raw, dtype).reshape(shape, order="F" if order == "F" else "C")
        if order != "K":
            return array
        if type(args[4]) is not tuple or any(type(axis) is not int for axis in args[4]):
            raise _Malformed("an array with impossible axes")
        return array.transpose(args[4])

    def _dtype(self, *args: Any) -> _ElementType:
        code = args[0] if args else None
        if type(code) is str and code[:1] == "O":
            raise _Malformed("an array of Python objects")
        if len(args) != 3 or type(code) is not str or {type(args[1]), type(args[2])} - {bool, int}:
            raise _Malformed("a numpy element type in an unknown form")
        if not _KINDS.fullmatch(code):
            raise _Malformed(f"numpy element type {ascii(code[:20])}")
        return _ElementType(code)

    def _scalar(self, *args: Any) -> Any:
        if len(args) != 2:
            raise _Malformed("a numpy number in an unknown form")
        dtype, raw = self._contents((), *args)
        return np.frombuffer(raw, dtype)[0].item()

    def _encode(self, *args: Any) -> bytes:
        if len(args) != 2 or type(args[0]) is not str or type(args[1]) is not str:
            raise _Malformed("something else than text to be encoded")
        if args[1] not in ("latin1", "latin-1"):
            raise _Malformed("text to be encoded in another way than latin-1")
        self._charge(len(args[0]))
        return args[0].encode("latin-1")

    def _empty_bytes(self, *args: Any) -> bytes:
        if args:
            raise _Malformed("bytes in an unknown form")
        return b""

    # ---------------------------------------------------------------------------------------- instructions
    def load_frame(self) -> None:
        size = struct.unpack("<Q", self.read(8))[0]
        if size > self.size - self.file.tell():
            raise EOFError
        self._unframer.load_frame(size)

    def load_int(self) -> None:
        line = self.readline()[:-1]
        self.append(line == b"01" if line in (b"00", b"01") else int(_digits(line, _WHOLE)))

    def load_long(self) -> None:
        self.append(int(_digits(self.readline()[:-1].removesuffix(b"L"), _WHOLE)))

    def load_float(self) -> None:
        line = self.readline()[:-1]
        value = float(_digits(line, _FLOAT))
        if math.isinf(value) and not line.endswith(b"inf"):
            raise ValueError("a number that is too large")
        self.append(value)

    def load_bytearray8(self) -> None:
        self.append(bytearray(self.read(struct.unpack("<Q", self.read(8))[0])))

    def load_reduce(self) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        if type(args) is not tuple or type(function) is not MethodType:
            raise _Malformed("a call that plain data does not need")
        self.append(function(*args))

    def load_build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is np.ndarray:
            self._fill(target, state)
        elif type(target) is _ElementType:
            target.set_state(state)
        else:
            raise _Malformed("a state for something that has none")

    def load_append(self) -> None:
        value = self.stack.pop()
        self._target(list).append(value)

    def load_appends(self) -> None:
        values = self.pop_mark()
        self._target(list).extend(values)

    def load_dict(self) -> None:
        values = self.pop_mark()
        self.append({})
        self._store(values)

    def load_setitem(self) -> None:
        value = self.stack.pop()
        self._store([self.stack.pop(), value])

    def load_setitems(self) -> None:
        self._store(self.pop_mark())

    def _store(self, values: list[Any]) -> None:
        target = self._target(dict)
        for key, value in zip(values[::2], values[1::2], strict=True):
            if type(key) not in _KEYS and (type(key) is not int or abs(key) >= 1 << 63):
                raise _Malformed("a dictionary whose keys are not text or numbers")
            target[key] = value

    def _target(self, kind: type) -> Any:
        target = self.stack[-1]
        if type(target) is not kind:
            raise _Malformed(f"values added to something that is not a {kind.__name__}")
        return target


_KEYS = (str, bytes, bool, float, type(None))

ALLOWED = {("numpy", "dtype"): "_dtype", ("numpy", "ndarray"): "ndarray", ("_codecs", "encode"): "_encode"}
"""Everything a pickle may name, and the function above that stands for it."""
for _core in ("numpy.core", "numpy._core"):
    ALLOWED |= {(f"{_core}.multiarray", "_reconstruct"): "_reconstruct", (f"{_core}.multiarray", "scalar"): "_scalar"}
    ALLOWED[f"{_core}.numeric", "_frombuffer"] = "_from_buffer"
for _module in ("builtins", "__builtin__"):
    ALLOWED[_module, "bytes"] = "_empty_bytes"


def _refuse(error: type[Exception], what: str) -> Callable[[_Reader], NoReturn]:
    def refuse(_: _Reader) -> NoReturn:
        raise error(what)

    return refuse


for _name, _step in list(vars(_Reader).items()):
    if _name.startswith("load_"):
        _Reader.dispatch[getattr(pickle, _name.removeprefix("load_").upper())[0]] = _step
for _error, _what, _codes in (
    (_Asks, "a persistent object", (pickle.PERSID, pickle.BINPERSID)),
    (_Asks, "an object of its own class", (pickle.INST, pickle.OBJ, pickle.NEWOBJ, pickle.NEWOBJ_EX)),
    (_Asks, "a registered extension", (pickle.EXT1, pickle.EXT2, pickle.EXT4)),
    (_Asks, "a buffer outside the file", (pickle.NEXT_BUFFER, pickle.READONLY_BUFFER)),
    (_Malformed, "a set", (pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET)),
):
    _Reader.dispatch |= {_code[0]: _refuse(_error, _what) for _code in _codes}
