"""Settings of a config class as text: fields with type, default and documentation."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
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
    rows = []
    for name, field in model.model_fields.items():
        fields = (getattr(base, "model_fields", {}).get(name, field) for base in model.__mro__)
        description = next((one.description for one in fields if one.description), "")
        description = " ".join(description.replace("``", "").split())
        limits = [f"{SIGNS[key]} {getattr(x, key)}" for x in field.metadata for key in SIGNS if hasattr(x, key)]
        kind = ", ".join([_type(field.annotation), *limits])
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


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return "required"
    return repr(default) if isinstance(default, BaseModel) else setting_text(default)
