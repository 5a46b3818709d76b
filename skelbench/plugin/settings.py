"""What there is to set: the fields of a config class with type, default and documentation."""

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
    """Of a field made by ``Field(..., json_schema_extra={"unit": "m"})``, or told by the end of its name."""


UNITS = {"_deg": ((int, float), "degrees"), "_frames": ((int,), "frames")}
"""End of a name -> types of the values that have this unit, and the unit."""


def settings(model: type[BaseModel]) -> list[Setting]:
    """The fields of ``model`` in order, documented by ``Field(description=...)`` or the string below a field."""
    rows = []
    for name, field in model.model_fields.items():
        needs_data = field.default_factory_takes_validated_data
        default = field.get_default() if needs_data else field.get_default(call_default_factory=True)
        shown = "required" if default is PydanticUndefined else _value(default)
        limits = [limit for item in field.metadata if (limit := _limit(item))]
        description = " ".join((field.description or "").replace("``", "").split())
        kind = ", ".join([_type(field.annotation), *limits])
        rows.append(Setting(name, kind, shown, description, _unit(name, field)))
    return rows


def _type(annotation: Any) -> str:
    """``int``, ``"a" | "b"``, ``tuple[int, ...]``, the name of a class."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin is typing.Literal:
        return " | ".join(map(repr, arguments))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(_type, arguments))
    if annotation is type(None):
        return "none"
    if annotation is Ellipsis:
        return "..."
    name = getattr(origin or annotation, "__name__", str(annotation))
    return f"{name}[{', '.join(map(_type, arguments))}]" if arguments else name


def _unit(name: str, field: FieldInfo) -> str:
    said = field.json_schema_extra
    if isinstance(said, dict) and "unit" in said:
        return str(said["unit"])
    types, unit = UNITS.get(name[name.rfind("_") :], ((), ""))
    return unit if field.annotation in types else ""


def _limit(item: Any) -> str:
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    return " ".join(f"{sign} {getattr(item, key)}" for key, sign in signs.items() if hasattr(item, key))


def _value(default: Any) -> str:
    if isinstance(default, BaseModel):
        return repr(default)
    if isinstance(default, float):
        return f"{default:.6g}"
    return "none" if default is None else str(default)
