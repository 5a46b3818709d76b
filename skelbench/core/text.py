"""Words from files as words: nothing in them steers a terminal."""

from __future__ import annotations

import re

_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters but tab and line end, line and paragraph separators, what turns the direction of text around,
halves of characters, invisible tags."""


def printable(text: str) -> str:
    """``text`` with a replacement character for every one that would steer a terminal, or that none can show."""
    if text.isprintable():  # which no such character is
        return text
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", text)


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "class"), counted(1200, "clip"), counted(0, "class")
    ('1 class', '1,200 clips', '0 classes')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "es" if noun.endswith("s") else "s")


def plain(text: object) -> str:
    """Anything as printable words on one line."""
    text = str(text)
    return text if text.isprintable() else " ".join(printable(text).splitlines())
