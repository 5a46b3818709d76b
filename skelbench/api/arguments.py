"""Keywords of the Python API from request models."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

from skelbench.pipeline.request import Arguments

Call = TypeVar("Call", bound=Callable[..., Any])


def keywords(model: type[Arguments]) -> Callable[[Call], Call]:
    """Show the fields of ``model`` as the keywords of a call, in its signature and its documentation."""

    def document(call: Call) -> Call:
        signature, kinds, lines = inspect.signature(call), get_type_hints(model), []
        visible = [parameter for parameter in signature.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
        named = {parameter.name for parameter in visible}
        for name, (field, _) in model.options().items():
            if name not in named:
                keyword, kind = field.alias or name, inspect.Parameter.KEYWORD_ONLY
                visible.append(inspect.Parameter(keyword, kind, default=field.default, annotation=kinds[name]))
                lines.append(f"        {keyword}: {' '.join((field.description or '').split())}")
        before, raises, after = inspect.getdoc(call).partition("\nRaises:")  # type: ignore[union-attr]
        call.__doc__ = "\n".join([before, "Args:", *(line[4:] for line in lines)]) + "\n" + raises + after
        call.__signature__ = signature.replace(parameters=visible)  # type: ignore[attr-defined]
        return call

    return document
