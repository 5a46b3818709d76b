"""Reading pickles that strangers made: plain values and numpy arrays, nothing else, and nothing is ever run.

A pickle is a program. This is an interpreter for the part of that language that plain data needs: ``None``, truth
values, numbers, text, bytes, lists, tuples, dictionaries, and numpy arrays of plain elements. Whatever a pickle names
is looked up in :data:`skelbench.data.foreign.pickled.ALLOWED` and nowhere else; a pickle that names anything more is
refused with that name before its next instruction is read. Python's own unpickler is not used: it can be made to
reserve any amount of memory and to hash objects for ever.

Bounds: arrays must fit the bytes that the file holds for them and stay in the file until they are read; numbers have
at most 255 bytes; dictionary keys are text, bytes, truth values or whole numbers below 2^63; at most
:data:`MAX_STEPS` instructions and :data:`MAX_NESTING` open brackets. Memory is a small multiple of the file's size at
the very worst, and no part of reading recurses.
"""

from __future__ import annotations

import codecs
import math
import mmap
import pickle
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from skelbench.data.foreign.pickled import ALLOWED, Malformed, PickledArray, PickledDtype, Span
from skelbench.errors import SkelbenchError

MAX_STEPS = 30_000_000
"""NTU RGB+D 120 as published by pyskl takes about 5 million."""
MAX_NESTING = 100
_INLINE = 1024
"""Longer texts and bytes stay in the file."""
_DIGITS = 620
"""Longest number written in digits (protocol 0), about 255 bytes."""
_NAME = 300
_WHOLE = re.compile(rb"0|-?[1-9][0-9]*")
_FLOAT = re.compile(rb"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|-?inf|nan")


class Refused(SkelbenchError):
    """A pickle that is damaged, or wants more than plain data; ``name`` is what it asked for ("" if it is damaged)."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


def load_pickle(path: Path) -> Any:
    """The value in the pickle file at ``path``; arrays are :class:`PickledArray`, mapped from the file.

    Raises :class:`Refused` (one sentence) and runs nothing.
    """
    if path.stat().st_size == 0:
        raise Refused(f"{path} is empty; download or copy it again")
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return loads(data, str(path))


def loads(data: bytes | mmap.mmap, where: str = "pickle") -> Any:
    """The value pickled in ``data``; ``where`` begins the sentence if it is refused."""
    machine = _Machine(data)
    try:
        return machine.run()
    except _Asks as error:
        raise Refused(
            f"{where} asks for {error} (byte {machine.at}), which plain data does not need; nothing was run: do not "
            f"trust this file, or have it saved again as numbers, text and numpy arrays",
            str(error),
        ) from None
    except Malformed as error:
        raise Refused(
            f"{where} holds {error} (byte {machine.at}), which is not read; save it again as numbers, text and plain "
            f"numpy arrays"
        ) from None
    except (IndexError, KeyError, ValueError, TypeError, OverflowError, struct.error) as error:
        # UnicodeError is a ValueError. These are all that the instructions below can raise on damaged bytes.
        raise Refused(
            f"{where} is not a readable pickle (byte {machine.at}: {_reason(error)}); it may be cut short, download or "
            f"copy it again"
        ) from None


class _Asks(Exception):
    """For something that is not allowed."""


class _Stop(Exception):
    pass


def _whole(digits: bytes) -> int:
    if not _WHOLE.fullmatch(digits):
        raise ValueError("a number that is none")
    return int(digits)


def _reason(error: Exception) -> str:
    known = {IndexError: "it takes more values than there are", KeyError: "it recalls a value that was never kept"}
    return known.get(type(error)) or str(error).splitlines()[0][:80]


class _Machine:
    """The stack machine: ``stack`` of values, ``marks`` where open brackets begin, ``memo`` of values kept."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.data, self.end, self.at = data, len(data), 0
        self.frame_end = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        steps: list[Callable[[], None]] = [self._unknown] * 256
        for code, method in _INSTRUCTIONS.items():
            steps[code] = getattr(self, method)
        data = self.data
        try:
            for _ in range(MAX_STEPS):
                at = self.at
                self._advance(at + 1)
                steps[data[at]]()
        except _Stop:
            value = self._pop()
            if type(value) is PickledArray and value.dtype is None:
                raise Malformed("an array that is never filled") from None
            return value
        raise Malformed(f"more than {MAX_STEPS:,} instructions")

    # ---------------------------------------------------------------------------------------- bytes and stack
    def _advance(self, to: int) -> None:
        if not self.at <= to <= self.end:
            raise ValueError("it ends too early")
        if self.at < self.frame_end < to:
            raise ValueError("a frame ends within a value")
        self.at = to

    def _take(self, count: int) -> bytes:
        at = self.at
        self._advance(at + count)
        return self.data[at : at + count]

    def _number(self, form: str) -> int:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _line(self, longest: int) -> bytes:
        stop = self.data.find(b"\n", self.at, min(self.end, self.at + longest))
        if stop < 0:
            raise ValueError("a line does not end")
        return self._take(stop + 1 - self.at)[:-1]

    def _fence(self) -> int:
        return self.marks[-1] if self.marks else 0

    def _pop(self) -> Any:
        if len(self.stack) <= self._fence():
            raise IndexError
        return self.stack.pop()

    def _top(self) -> Any:
        if len(self.stack) <= self._fence():
            raise IndexError
        return self.stack[-1]

    def _pop_to_mark(self) -> list[Any]:
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    # ---------------------------------------------------------------------------------------- instructions
    def _unknown(self) -> None:
        code = self.data[self.at - 1]
        asked = _REFUSED.get(bytes((code,)))
        if asked:
            raise _Asks(asked)
        raise ValueError(f"there is no instruction {code}")

    def _proto(self) -> None:
        if self._number("B") > pickle.HIGHEST_PROTOCOL:
            raise ValueError("its protocol is newer than this Python's")

    def _frame(self) -> None:
        size = self._number("<Q")
        if self.at < self.frame_end or size > self.end - self.at:
            raise ValueError("a frame that does not fit")
        self.frame_end = self.at + size

    def _stop(self) -> None:
        raise _Stop

    def _mark(self) -> None:
        if len(self.marks) >= MAX_NESTING:
            raise Malformed(f"more than {MAX_NESTING} values inside each other")
        self.marks.append(len(self.stack))

    def _pop_one(self) -> None:
        if self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self._pop()

    def _pop_mark(self) -> None:
        self._pop_to_mark()

    def _dup(self) -> None:
        self.stack.append(self._top())

    def _none(self) -> None:
        self.stack.append(None)

    def _true(self) -> None:
        self.stack.append(True)

    def _false(self) -> None:
        self.stack.append(False)

    def _int(self) -> None:
        line = self._line(_DIGITS)
        self.stack.append({b"00": False, b"01": True}[line] if line in (b"00", b"01") else _whole(line))

    def _long(self) -> None:
        self.stack.append(_whole(self._line(_DIGITS).removesuffix(b"L")))

    def _binint(self) -> None:
        self.stack.append(self._number("<i"))

    def _binint1(self) -> None:
        self.stack.append(self._number("B"))

    def _binint2(self) -> None:
        self.stack.append(self._number("<H"))

    def _long1(self) -> None:
        self.stack.append(int.from_bytes(self._take(self._number("B")), "little", signed=True))

    def _long4(self) -> None:
        size = self._number("<i")
        if size > 255:
            raise Malformed(f"a number of {size} bytes")
        self.stack.append(int.from_bytes(self._take(size), "little", signed=True))

    def _float(self) -> None:
        line = self._line(_DIGITS)
        if not _FLOAT.fullmatch(line):
            raise ValueError("a number that is none")
        value = float(line)
        if math.isinf(value) and not line.endswith(b"inf"):
            raise ValueError("a number that is too large")
        self.stack.append(value)

    def _binfloat(self) -> None:
        self.stack.append(self._number(">d"))

    def _text(self, size: int) -> None:
        if size <= _INLINE:
            self.stack.append(self._take(size).decode("utf-8"))
        else:
            self._span(size, "text")

    def _bytes(self, size: int) -> None:
        if size <= _INLINE:
            self.stack.append(self._take(size))
        else:
            self._span(size, "bytes")

    def _span(self, size: int, kind: Literal["bytes", "text", "old"]) -> None:
        at = self.at
        self._advance(at + size)
        self.stack.append(Span(self.data, at, at + size, kind))

    def _old_text(self, size: int) -> None:
        """Python 2's strings: text and bytes alike."""
        if size < 0:
            raise ValueError("a text of negative length")
        if size <= _INLINE:
            self.stack.append(self._take(size).decode("latin-1"))
        else:
            self._span(size, "old")

    def _string(self) -> None:
        line = self._line(self.end).strip()
        if len(line) < 2 or line[:1] not in (b"'", b'"') or line[-1:] != line[:1]:
            raise ValueError("a text without quotes")
        self.stack.append(codecs.escape_decode(line[1:-1])[0].decode("latin-1"))

    def _unicode(self) -> None:
        self.stack.append(self._line(self.end).decode("raw-unicode-escape"))

    def _short_string(self) -> None:
        self._old_text(self._number("B"))

    def _binstring(self) -> None:
        self._old_text(self._number("<i"))

    def _short_unicode(self) -> None:
        self._text(self._number("B"))

    def _binunicode(self) -> None:
        self._text(self._number("<I"))

    def _binunicode8(self) -> None:
        self._text(self._number("<Q"))

    def _short_bytes(self) -> None:
        self._bytes(self._number("B"))

    def _binbytes(self) -> None:
        self._bytes(self._number("<I"))

    def _binbytes8(self) -> None:
        self._bytes(self._number("<Q"))

    def _bytearray8(self) -> None:
        self._span(self._number("<Q"), "bytes")  # never inline: unlike bytes, these cannot be keys

    def _empty_list(self) -> None:
        self.stack.append([])

    def _list(self) -> None:
        self.stack.append(self._pop_to_mark())

    def _append(self) -> None:
        value = self._pop()
        self._target(list).append(value)

    def _appends(self) -> None:
        values = self._pop_to_mark()
        self._target(list).extend(values)

    def _empty_tuple(self) -> None:
        self.stack.append(())

    def _tuple(self) -> None:
        self.stack.append(tuple(self._pop_to_mark()))

    def _tuple1(self) -> None:
        self.stack.append((self._pop(),))

    def _tuple2(self) -> None:
        second = self._pop()
        self.stack.append((self._pop(), second))

    def _tuple3(self) -> None:
        third = self._pop()
        second = self._pop()
        self.stack.append((self._pop(), second, third))

    def _empty_dict(self) -> None:
        self.stack.append({})

    def _dict(self) -> None:
        values = self._pop_to_mark()
        self.stack.append({})
        self._store(values)

    def _setitem(self) -> None:
        value = self._pop()
        self._store([self._pop(), value])

    def _setitems(self) -> None:
        self._store(self._pop_to_mark())

    def _store(self, values: list[Any]) -> None:
        target = self._target(dict)
        for key, value in zip(values[::2], values[1::2], strict=True):
            # Hashing nested values can take for ever, and huge numbers can be chosen to have one hash.
            if type(key) not in (str, bytes, bool) and (type(key) is not int or abs(key) >= 1 << 63):
                raise Malformed("a dictionary whose keys are not text or numbers")
            target[key] = value

    def _set(self) -> None:
        raise Malformed("a set")

    def _target(self, kind: type) -> Any:
        target = self._top()
        if type(target) is not kind:
            raise Malformed(f"values added to something that is not a {kind.__name__}")
        return target

    def _global(self) -> None:
        module = self._line(_NAME).decode("utf-8")
        self._name(module, self._line(_NAME).decode("utf-8"))

    def _stack_global(self) -> None:
        name = self._pop()
        module = self._pop()
        if type(name) is not str or type(module) is not str:
            raise Malformed("a name that is not text")
        self._name(module, name)

    def _name(self, module: str, name: str) -> None:
        if (module, name) not in ALLOWED:
            raise _Asks(ascii(f"{module}.{name}")[1:-1][:80])
        self.stack.append(ALLOWED[module, name])

    def _inst(self) -> None:
        module, name = self._line(_NAME).decode("utf-8"), self._line(_NAME).decode("utf-8")
        self._name(module, name)
        raise Malformed(f"an instance of {module}.{name}")

    def _reduce(self) -> None:
        args, made = self._pop(), self._pop()
        if type(args) is not tuple or made not in _MAKERS:
            raise Malformed("a call that plain data does not need")
        self.stack.append(made(*args))

    def _build(self) -> None:
        state, target = self._pop(), self._top()
        if type(target) not in (PickledArray, PickledDtype):
            raise Malformed("a state for something that has none")
        target.set_state(state)

    def _put(self) -> None:
        self._keep(_whole(self._line(_DIGITS)))

    def _binput(self) -> None:
        self._keep(self._number("B"))

    def _long_binput(self) -> None:
        self._keep(self._number("<I"))

    def _memoize(self) -> None:
        self._keep(len(self.memo))

    def _keep(self, key: int) -> None:
        if not 0 <= key < 1 << 32:
            raise ValueError("a value kept under an impossible number")
        self.memo[key] = self._top()

    def _get(self) -> None:
        self.stack.append(self.memo[_whole(self._line(_DIGITS))])

    def _binget(self) -> None:
        self.stack.append(self.memo[self._number("B")])

    def _long_binget(self) -> None:
        self.stack.append(self.memo[self._number("<I")])


_MAKERS = [made for made in ALLOWED.values() if not isinstance(made, type)]
"""What may be called; a list, as membership must not hash what a pickle made."""

_REFUSED = {
    pickle.PERSID: "a persistent object",
    pickle.BINPERSID: "a persistent object",
    pickle.OBJ: "an object of its own class",
    pickle.NEWOBJ: "an object of its own class",
    pickle.NEWOBJ_EX: "an object of its own class",
    pickle.EXT1: "a registered extension",
    pickle.EXT2: "a registered extension",
    pickle.EXT4: "a registered extension",
    pickle.NEXT_BUFFER: "a buffer outside the file",
    pickle.READONLY_BUFFER: "a buffer outside the file",
}

_INSTRUCTIONS = {
    code[0]: method
    for code, method in {
        pickle.PROTO: "_proto",
        pickle.FRAME: "_frame",
        pickle.STOP: "_stop",
        pickle.MARK: "_mark",
        pickle.POP: "_pop_one",
        pickle.POP_MARK: "_pop_mark",
        pickle.DUP: "_dup",
        pickle.NONE: "_none",
        pickle.NEWTRUE: "_true",
        pickle.NEWFALSE: "_false",
        pickle.INT: "_int",
        pickle.LONG: "_long",
        pickle.BININT: "_binint",
        pickle.BININT1: "_binint1",
        pickle.BININT2: "_binint2",
        pickle.LONG1: "_long1",
        pickle.LONG4: "_long4",
        pickle.FLOAT: "_float",
        pickle.BINFLOAT: "_binfloat",
        pickle.STRING: "_string",
        pickle.UNICODE: "_unicode",
        pickle.SHORT_BINSTRING: "_short_string",
        pickle.BINSTRING: "_binstring",
        pickle.SHORT_BINUNICODE: "_short_unicode",
        pickle.BINUNICODE: "_binunicode",
        pickle.BINUNICODE8: "_binunicode8",
        pickle.SHORT_BINBYTES: "_short_bytes",
        pickle.BINBYTES: "_binbytes",
        pickle.BINBYTES8: "_binbytes8",
        pickle.BYTEARRAY8: "_bytearray8",
        pickle.EMPTY_LIST: "_empty_list",
        pickle.LIST: "_list",
        pickle.APPEND: "_append",
        pickle.APPENDS: "_appends",
        pickle.EMPTY_TUPLE: "_empty_tuple",
        pickle.TUPLE: "_tuple",
        pickle.TUPLE1: "_tuple1",
        pickle.TUPLE2: "_tuple2",
        pickle.TUPLE3: "_tuple3",
        pickle.EMPTY_DICT: "_empty_dict",
        pickle.DICT: "_dict",
        pickle.SETITEM: "_setitem",
        pickle.SETITEMS: "_setitems",
        pickle.EMPTY_SET: "_set",
        pickle.ADDITEMS: "_set",
        pickle.FROZENSET: "_set",
        pickle.GLOBAL: "_global",
        pickle.STACK_GLOBAL: "_stack_global",
        pickle.INST: "_inst",
        pickle.REDUCE: "_reduce",
        pickle.BUILD: "_build",
        pickle.PUT: "_put",
        pickle.BINPUT: "_binput",
        pickle.LONG_BINPUT: "_long_binput",
        pickle.MEMOIZE: "_memoize",
        pickle.GET: "_get",
        pickle.BINGET: "_binget",
        pickle.LONG_BINGET: "_long_binget",
    }.items()
}
