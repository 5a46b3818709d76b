"""Text and data as parts of a page: nothing in a name ends an element, starts a script or turns a line around."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
from importlib.resources import files
from typing import Any

from skelbench.core.text import plain


def data(value: Any) -> str:
    """``value`` as JSON for a script element: pure ASCII and without ``<``, so that neither ``</script`` nor ``<!--``
    is in it; text is made printable, numbers that JSON has not are ``null``.

    >>> data({"a": "</script>", "b": float("nan")})
    '{"a":"\\\\u003c/script>","b":null}'
    """
    text = json.dumps(_clean(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return "\n".join(plain(line) for line in value.split("\n"))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_clean(str(key)): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value


def packed(text: str) -> str:
    """``text`` compressed, in letters: a page is a third as long, and what it holds cannot end its element."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def source_hash(script: str) -> str:
    """How a content security policy names an inline ``script``, which then is one of the few that run."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"


def part(name: str) -> str:
    """The text of a file beside this one."""
    return files("skelbench.reporting.page").joinpath(name).read_text(encoding="utf-8")


def rounded(value: Any, digits: int = 6) -> float | None:
    """A figure as a page draws it: ``digits`` significant ones, None for what no axis shows."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")
