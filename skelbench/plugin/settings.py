"""What there is to set: the fields of a config class with type, default and documentation."""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined


@dataclass(frozen=True)
class Setting:
    """One field, as text."""

    name: str
    type: str
    default: str
    doc: str


def settings(model: type[BaseModel]) -> list[Setting]:
    """The fields of ``model`` in order.

    Documentation is ``Field(description=...)``, else the string below the field, else the comment beside or above it.
    """
    written: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            written |= _written(cls)
    found = []
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=not field.default_factory_takes_validated_data)
        shown = "required" if default is PydanticUndefined else _value(default)
        limits = [limit for item in field.metadata if (limit := _limit(item))]
        kind = ", ".join([_type(field.annotation), *limits])
        found.append(Setting(name, kind, shown, field.description or written.get(name, "")))
    return found


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


def _limit(item: Any) -> str:
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    return " ".join(f"{sign} {getattr(item, key)}" for key, sign in signs.items() if hasattr(item, key))


def _value(default: Any) -> str:
    if isinstance(default, BaseModel):
        return repr(default)
    if isinstance(default, float):
        return f"{default:.6g}"
    return "none" if default is None else str(default)


def _written(cls: type) -> dict[str, str]:
    """Field name -> string below it or comment at it, from the source of ``cls`` where that is at hand."""
    try:
        lines, _ = inspect.getsourcelines(cls)
        body = ast.parse(inspect.cleandoc("\n" + "".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return {}
    lines = inspect.cleandoc("\n" + "".join(lines)).splitlines()
    found = {}
    for node, following in zip(body.body, [*body.body[1:], None]):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        found[node.target.id] = _string(following) or _comment(lines, node)
    return found


def _string(node: ast.stmt | None) -> str:
    held = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return " ".join(node.value.value.replace("``", "").split()) if held else ""


def _comment(lines: list[str], node: ast.stmt) -> str:
    beside = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
    if match := re.match(r"\s*#\s*(.*)", beside):
        return match[1].strip()
    above, row = [], node.lineno - 2
    while row >= 0 and (match := re.match(r"\s*#\s?(.*)", lines[row])):
        above.insert(0, match[1].strip())
        row -= 1
    return " ".join(above)
