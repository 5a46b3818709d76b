"""Settings of a config class as text: fields with type, default and documentation."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined


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
    """Return the fields of ``model`` in order, documented by ``Field(description=...)`` or the string below a field."""
    rows = []
    for name, field in model.model_fields.items():
        description = " ".join((field.description or "").replace("``", "").split())
        kind = ", ".join([_type(field.annotation), *_limits(field)])
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        rows.append(Setting(name, kind, _default(field), description, str(extra.get("unit", ""))))
    return rows


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


def _limits(field: FieldInfo) -> list[str]:
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    return [
        f"{sign} {getattr(item, key)}" for item in field.metadata for key, sign in signs.items() if hasattr(item, key)
    ]


def _default(field: FieldInfo) -> str:
    needs_data = field.default_factory_takes_validated_data
    default = field.get_default() if needs_data else field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return "required"
    if isinstance(default, BaseModel):
        return repr(default)
    if isinstance(default, float):
        return f"{default:.6g}"
    return "none" if default is None else str(default)
