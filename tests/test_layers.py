"""Imports follow the order of packages in ARCHITECTURE.md, without cycles, and nothing imports a plugin.

Imports inside functions and under ``TYPE_CHECKING`` count like any other. No part of skelbench is imported here, so
this also runs without its dependencies.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = {"skelbench": "skelbench", "skelbench_plugins": "plugins"}
"""Package -> its folder."""
CONNECTS = "skelbench"
"""The top-level module, which belongs to no package."""


class Import(NamedTuple):
    """One import of a module of this repository by another."""

    importer: str
    line: int
    module: str


def module_files() -> dict[str, Path]:
    """Module name -> file, of both packages."""
    files = {}
    for package, folder in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            files[".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])] = path
    return files


FILES = module_files()


def order_of_packages() -> list[tuple[str, ...]]:
    """Packages from the top, each with its paths, as the table in ARCHITECTURE.md lists them."""
    section = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("## Packages")[1].split("\n## ")[0]
    first_cells = re.findall(r"(?m)^\| (`.*?) \|", section)
    return [tuple(re.findall(r"`([^`]+)`", cell)) for cell in first_cells]


LAYERS = order_of_packages()


def where(module: str) -> str:
    return str(FILES[module].relative_to(ROOT))


def level(module: str) -> int | None:
    """Index of the package that holds ``module``, None if no package does."""
    path = where(module)
    inside = (
        i
        for i, package in enumerate(LAYERS)
        for part in package
        if path == part or path.startswith(part.rstrip("/") + "/")
    )
    return next(inside, None)


def imports(module: str) -> Iterator[Import]:
    """All imports of this repository's modules, at whatever depth of the file."""
    path = FILES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in FILES else base for alias in node.names]
        else:
            continue
        for name in dict.fromkeys(names):
            if name.partition(".")[0] in PACKAGES and name != module:
                yield Import(module, node.lineno, name)


@cache
def all_imports() -> list[Import]:
    return [found for module in FILES if module != CONNECTS for found in imports(module)]


def line_of(arrow: Import) -> str:
    return f"{where(arrow.importer)}:{arrow.line} imports {arrow.module}"


def report(faults: list[str]) -> str:
    return "\n".join([f"{len(faults)} against ARCHITECTURE.md:", *faults])


def test_every_file_is_in_a_listed_package():
    strays = [f"{where(module)} is in no package" for module in FILES if module != CONNECTS and level(module) is None]
    strays += [
        f"{part} is listed and does not exist" for package in LAYERS for part in package if not (ROOT / part).exists()
    ]
    assert not strays, report(strays)


def test_imported_modules_exist():
    lost = [line_of(arrow) + ", which does not exist" for arrow in all_imports() if arrow.module not in FILES]
    assert not lost, report(lost)


def test_no_package_imports_one_above_it():
    faults = []
    for arrow in all_imports():
        upper, lower = level(arrow.importer), level(arrow.module) if arrow.module in FILES else None
        if upper is not None and lower is not None and lower < upper:
            faults.append(f"{line_of(arrow)}: {LAYERS[upper][0]} is below {LAYERS[lower][0]}")
    assert not faults, report(faults)


def test_no_files_import_each_other_in_a_circle():
    after: dict[str, set[str]] = {module: set() for module in FILES}
    for arrow in all_imports():
        after[arrow.importer].add(arrow.module)

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            todo += new if (new := after.get(todo.pop(), set()) - seen) else ()
            seen |= new
        return seen

    reached = {module: reach(module) for module in FILES}
    circles = {frozenset(m for m in reached[n] if n in reached.get(m, ())) for n in FILES if n in reached[n]}
    faults = [
        "a circle: " + "; ".join(line_of(arrow) for arrow in all_imports() if {arrow.importer, arrow.module} <= circle)
        for circle in circles
    ]
    assert not faults, report(sorted(faults))


def test_plugins_are_found_only_by_name():
    """Files of plugins/ that begin with _ are no plugins: they hold what several of them share."""

    def plugin(module: str) -> str | None:
        package, _, rest = module.partition(".")
        name = rest.partition(".")[0]
        return name if package == "skelbench_plugins" and name and not name.startswith("_") else None

    faults = [
        f"{line_of(arrow)}: a plugin is found by its name, and knows no other plugin"
        for arrow in all_imports()
        if plugin(arrow.module) is not None and plugin(arrow.module) != plugin(arrow.importer)
    ]
    assert not faults, report(faults)


def test_every_folder_is_installed():
    """pyproject.toml names packages one by one; an editable install that is older than a folder does not miss it."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {
        ".".join([package, *path.parent.relative_to(ROOT / folder).parts])
        for package, folder in PACKAGES.items()
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert named == sorted(named) and set(named) == there


def test_skelbench_has_at_most_14_packages():
    assert len([path for path in (ROOT / "skelbench").iterdir() if (path / "__init__.py").is_file()]) <= 14
    loose = {path.name for path in (ROOT / "skelbench").glob("*.py")}
    assert loose == {"__init__.py", "__main__.py"}, "modules belong in a package"
