"""Arguments of calls that Python takes and that mean nothing: each is one sentence, as of a command's options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError


def text(given: Any, what: str) -> str:
    """One name."""
    if not isinstance(given, str):
        raise SkelbenchError(f"{what}={given!r} is no name; give a text")
    return given


def names(given: Any, what: str) -> list[str]:
    """Several names."""
    if isinstance(given, str):
        raise SkelbenchError(f"{what}={given!r} is one name where a list is expected; write [{given!r}]")
    return [text(name, f"a name of {what}") for name in several(given, what)]


def several(given: Any, what: str) -> list[Any]:
    """Whatever can be gone through."""
    if not isinstance(given, Iterable):
        raise SkelbenchError(f"{what}={given!r} is one value where a list is expected; write [{given!r}]")
    return list(given)


def settings(given: Any) -> dict[str, Any]:
    """Values by dotted name; none is nothing."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise SkelbenchError(
            f'settings={given!r} does not name what is set; write settings={{"train.lr": 0.001}}, names and values'
        )
    return dict(given)


def count(given: Any, what: str) -> int:
    """A whole number from 1."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise SkelbenchError(f"{what}={given!r} is no number of them; give a whole number, 1 or more")
    return int(given)
