"""Checks of arguments of the Python API, and keywords from request models."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, get_type_hints

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import Arguments

Call = TypeVar("Call", bound=Callable[..., Any])


def keywords(model: type[Arguments]) -> Callable[[Call], Call]:
    """Show the fields of ``model`` as the keywords of a call, in its signature and its documentation."""

    def document(call: Call) -> Call:
        signature, kinds, lines = inspect.signature(call), get_type_hints(model), []
        shown = [each for each in signature.parameters.values() if each.kind != each.VAR_KEYWORD]
        named = {each.name for each in shown}
        for name, (field, _) in model.options().items():
            if name not in named:
                keyword, kind = field.alias or name, inspect.Parameter.KEYWORD_ONLY
                shown.append(inspect.Parameter(keyword, kind, default=field.default, annotation=kinds[name]))
                lines.append(f"        {keyword}: {' '.join((field.description or '').split())}")
        before, raises, after = inspect.getdoc(call).partition("\nRaises:")  # type: ignore[union-attr]
        call.__doc__ = "\n".join([before, "Args:", *(line[4:] for line in lines)]) + "\n" + raises + after
        call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        return call

    return document


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
