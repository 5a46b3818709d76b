"""Names of the settings of a class, read from the text of its file: completing a word imports no torch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from skelbench.plugin.files import PluginFile, module_spec


def field_names(file: PluginFile, name: str) -> list[str]:
    """Fields of class ``name`` of ``file``, those of its bases first, as far as these stand in skelbench or in its own
    package."""
    return list(dict.fromkeys(_fields(file, name, frozenset())))


def _fields(file: PluginFile, name: str, seen: frozenset[tuple[Path, str]]) -> Iterator[str]:
    if (here := (file.path, name)) in seen:
        return
    seen |= {here}
    if name in file.top_level.classes:
        cls = file.top_level.classes[name]
        for base in cls.bases:
            if isinstance(base, ast.Name):
                yield from _fields(file, base.id, seen)
        yield from filter(None, map(_field, cls.body))
        return
    for statement in file.top_level.body:
        match statement:
            case ast.ImportFrom():
                found = next((alias for alias in statement.names if (alias.asname or alias.name) == name), None)
                if found and (source := _source(file, statement)):
                    yield from _fields(source, found.name, seen)
            case ast.Assign(targets=[ast.Name(id=bound)], value=ast.Name(id=other)) if bound == name:
                yield from _fields(file, other, seen)


def _field(statement: ast.stmt) -> str:
    """The field that a statement in the body of a class declares, "" = none."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if not name.startswith("_"):
            return "" if "ClassVar" in ast.unparse(annotation) else name
    return ""


def _source(file: PluginFile, statement: ast.ImportFrom) -> PluginFile | None:
    """The file that ``from ... import`` reads; None outside of skelbench and the file's own package."""
    package = file.module if file.path.name == "__init__.py" else file.module.rpartition(".")[0]
    inside = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
    module = ".".join([*inside, *([statement.module] if statement.module else [])])
    if module.partition(".")[0] not in ("skelbench", file.module.partition(".")[0]):
        return None
    spec = module_spec(module)
    return PluginFile(Path(spec.origin), spec.name) if spec.origin else None
