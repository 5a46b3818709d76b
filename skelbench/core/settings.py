"""Settings of a config class as text: fields with type, default and documentation."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from dataclasses import dataclass
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from skelbench.core.text import setting_text

SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


@dataclass(frozen=True)
class Setting:
    """One field, as text."""

    name: str
    type: str
    default: str
    doc: str
    unit: str = ""
    """From ``Field(..., json_schema_extra={"unit": "m"})``."""


def settings(model: type[BaseModel]) -> list[Setting]:
    """Return the fields of ``model`` in order, documented by ``Field(description=...)`` or the string below a field,
    also of a base class."""
    rows: list[Setting] = []
    written: dict[str, str] = {}
    bases = [base for base in reversed(model.__mro__) if issubclass(base, BaseModel) and base is not BaseModel]
    for base in bases:
        written |= _docstrings(base) | {name: x.description for name, x in base.model_fields.items() if x.description}
    for name, field in model.model_fields.items():
        description = " ".join(written.get(name, "").replace("``", "").split())
        limits = [f"{SIGNS[key]} {getattr(x, key)}" for x in field.metadata for key in SIGNS if hasattr(x, key)]
        kind = ", ".join([_type(field.annotation), *limits])
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        rows.append(Setting(name, kind, _default(field), description, str(extra.get("unit", ""))))
    return rows


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The string below each field, from the source. pydantic would read all classes at every start."""
    try:
        body = ast.parse(dedent(inspect.getsource(model))).body[0].body  # type: ignore[attr-defined]
    except (OSError, TypeError):  # a class made in an interpreter
        return {}
    texts = {}
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                texts[name] = str(text)
    return texts


def _type(annotation: Any) -> str:
    """Return ``int``, ``"a" | "b"``, ``tuple[int, ...]`` or the name of a class."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin is typing.Literal:
        return " | ".join(map(repr, arguments))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(_type, arguments))
    if annotation is type(None):
        return "none"
    name = "..." if annotation is Ellipsis else getattr(origin or annotation, "__name__", str(annotation))
    return f"{name}[{', '.join(map(_type, arguments))}]" if arguments else name


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return "required"
    return repr(default) if isinstance(default, BaseModel) else setting_text(default)
