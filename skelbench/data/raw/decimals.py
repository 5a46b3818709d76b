"""Decimal numbers within a text, many at once: eight digits per 64-bit word, no Python per number.

N numbers. The result is what ``float`` makes of each, bit for bit: an integer below 2^53 divided by a power of ten
below 10^22 rounds once. Numbers of another shape than ``-1.2345678`` (more digits before or after the point, an
exponent, NaN) go through ``float`` one by one.
"""

from __future__ import annotations

import re

import numpy as np

_BLOCK = 1 << 14
"""Numbers at a time: temporaries stay in the cache."""
_ZEROS = np.uint64(0x3030303030303030)
_DIGITS = 14
"""After the point, read without ``float``: with the one before it the integer stays below 2^53."""
_POWERS = 10 ** np.arange(_DIGITS + 1)
# Bytes of a word that hold the first n digits, for n = 0..8; the text's order is the word's from the low end.
_FIRST = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)


class NotANumber(ValueError):
    """``index`` (among those asked for) and ``text`` of what is no number."""

    def __init__(self, index: int, text: bytes) -> None:
        super().__init__(f"{shown(text)} is not a number")
        self.index, self.text = index, text


def shown(text: bytes) -> str:
    """A piece of a file, fit to stand in a message."""
    return repr(text[:20].decode("latin-1")) + ("..." if len(text) > 20 else "")


def number(text: bytes) -> float:
    """One number, as strictly as :func:`decode` reads it: ASCII, no underscores, no blanks."""
    if not _NUMBER.fullmatch(text):
        raise NotANumber(0, text)
    return float(text)


def decode(data: bytes, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The numbers ``data[start:end]`` as float64 [N]; int64 ``start`` < ``end``, at least 16 bytes before the end.

    ``data`` must be ASCII. Raises :class:`NotANumber` for the first that is none.
    """
    values = np.empty(len(start))
    for first in range(0, len(start), _BLOCK):
        part = slice(first, first + _BLOCK)
        values[part] = _decode(data, start[part], end[part], first)
    return values


def _decode(data: bytes, start: np.ndarray, end: np.ndarray, first: int) -> np.ndarray:
    text = np.frombuffer(data, dtype=np.uint8)
    # Every position of the text as the start of a word.
    words = np.ndarray(len(data) - 7, dtype="<u8", buffer=data, strides=(1,))
    negative = text[start] == ord("-")
    point = start + negative + 1
    lead = text[point - 1] - np.uint8(ord("0"))
    count = end - point - 1  # digits after the point; -1 = a single digit without point
    mantissa, plain = _eight_digits(words[point + 1], count)
    plain &= (lead < 10) & (((count > 0) & (count <= _DIGITS) & (text[point] == ord("."))) | (count == -1))
    mantissa += lead * np.int64(10**8)
    values = mantissa / 1e8
    if len(long := np.flatnonzero(plain & (count > 8))):
        more = count[long] - 8
        rest, digits = _eight_digits(words[point[long] + 9], more)
        plain[long] = digits
        values[long] = (mantissa[long] * _POWERS[more] + rest // _POWERS[8 - more]) / _POWERS[more + 8]
    values = np.where(negative, -values, values)
    for i in np.flatnonzero(~plain).tolist():
        try:
            values[i] = number(data[start[i] : end[i]])
        except NotANumber as error:
            raise NotANumber(first + i, error.text) from None
    return values


def _eight_digits(words: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first ``count`` characters (8 at most) as int64, zeros put behind to make 8; and whether all are digits."""
    words = (words ^ _ZEROS) & _FIRST.take(count, mode="clip")
    digits = ((words + np.uint64(0x7676767676767676)) & np.uint64(0x8080808080808080)) == 0
    # Neighbours become numbers of two digits, those of four, those of eight (the usual multiplications).
    words = words * np.uint64(10) + (words >> np.uint64(8))
    pairs = np.uint64(0x000000FF000000FF)
    high = (words & pairs) * np.uint64(0x000F424000000064)
    low = ((words >> np.uint64(16)) & pairs) * np.uint64(0x0000271000000001)
    return ((high + low) >> np.uint64(32)).astype(np.int64), digits


def to_float32(values: np.ndarray) -> np.ndarray:
    """Rounded to float32; what is too large becomes infinite, as in a text's own ``Infinity``."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)
