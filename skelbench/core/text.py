"""Text of values, and text from files without control characters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters except tab and line end, separators, marks of text direction, surrogates and invisible tags."""


def printable(text: str) -> str:
    """``text`` with a replacement character for every one that controls a terminal or cannot be shown."""
    if text.isprintable():  # without any such character
        return text
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "class"), counted(1200, "clip"), counted(0, "class")
    ('1 class', '1,200 clips', '0 classes')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "es" if noun.endswith("s") else "s")


def trainings(seeds: int) -> str:
    """Number of trainings that a claim rests on: ``one training``, ``3 trainings``."""
    return {1: "one training", 2: "two trainings"}.get(seeds, f"{seeds} trainings")


def plain(text: object) -> str:
    """``text`` on one line, without control characters."""
    text = str(text)
    return text if text.isprintable() else " ".join(printable(text).splitlines())


def setting_text(value: Any) -> str:
    """A setting as the user types it; a component by its kind and settings."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{name}={setting_text(setting)}" for name, setting in value.items() if name != "kind")
        return " ".join(filter(None, (str(value.get("kind", "")), f"({inner})" if inner else "")))
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(setting_text, value)) + "]"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
