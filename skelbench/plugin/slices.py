"""What the text of a plugin file announces: the slice of its top level that its hooks need, and its component classes.

Only that slice is run to list a file, so that what the rest of it imports (torch) is not imported. Where the text does
not show what is needed the slice is too large rather than too small: every statement that binds, changes or registers
into a name in use belongs to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property

from skelbench.plugin.descriptors import ComponentSpec

FAMILIES = {
    "Crop": "crops",
    "Augment": "augmentations",
    "Mask": "masks",
    "Optimizer": "optimizers",
    "Schedule": "schedules",
}
"""Base class of a family, as skelbench names it -> kind of what derives from it."""
NAMESPACE = {"globals", "locals", "vars", "dir", "exec", "eval"}
"""Functions that see all names of a module: with them any of its statements may be needed."""
DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORT = (ast.Import, ast.ImportFrom)


class TopLevel:
    """The statements of a module, and how they depend on each other."""

    def __init__(self, tree: ast.Module) -> None:
        self.body = tree.body
        self.docstring = ast.get_docstring(tree, clean=False)
        self.binds = [_binds(statement) for statement in self.body]
        self.uses = [_uses(statement) for statement in self.body]

    @cached_property
    def names(self) -> set[str]:
        """Every name that a statement binds; ``*`` for those of a star import."""
        return set().union(*self.binds)

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Classes by name; the last of a name counts, as when the file runs."""
        return {statement.name: statement for statement in self.body if isinstance(statement, ast.ClassDef)}

    # ------------------------------------------------------------------------------------------------ hooks
    @cached_property
    def hooks(self) -> set[int]:
        """Indices of the statements that are hooks: decorated with ``hookimpl`` or named like one (the latter may lack
        the decorator, which is said to the author)."""
        markers = set().union({"hookimpl"}, *(_markers(statement) for statement in self.body))
        return {
            index
            for index, statement in enumerate(self.body)
            if not isinstance(statement, ast.Import)
            and (any(name.startswith("skelbench_") for name in self.binds[index]) or self.uses[index] & markers)
        }

    def slice(self) -> ast.Module | None:
        """What the hooks need, in order; None where that is the whole file."""
        needed = self.hooks | {i for i, s in enumerate(self.body) if _always(s)}
        while True:
            used = set().union(*(self.uses[i] for i in needed))
            if used & (NAMESPACE - self.names):
                return None
            more = {i for i, bound in enumerate(self.binds) if bound & used}
            more |= self._registrations(needed | more)
            if more <= needed:
                return ast.Module([self.body[i] for i in sorted(needed)], type_ignores=[])
            needed |= more

    def _registrations(self, needed: set[int]) -> set[int]:
        """Statements that may change a value of ``needed`` by a call: ``fill(RECIPES)``, or ``@register`` where
        ``register`` uses it."""
        values = set().union(*(self.binds[i] for i in needed if not isinstance(self.body[i], (*IMPORT, *DEFINITION))))
        registrars = {name for name in self._reach if self._reach[name] & values}
        return {
            i
            for i, statement in enumerate(self.body)
            if (isinstance(statement, ast.Expr) and self.uses[i] & values) or self._calls(statement) & registrars
        }

    def _calls(self, statement: ast.stmt) -> set[str]:
        """Names called while the statement runs (not when what it defines is called)."""
        if not isinstance(statement, DEFINITION):
            return set().union(*(_root(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)))
        called = set().union(*map(_uses, statement.decorator_list))
        if isinstance(statement, ast.ClassDef):
            called |= {cls.name for cls in self._ancestors(statement.name) if _defines(cls, "__init_subclass__")}
        return called

    @cached_property
    def _reach(self) -> dict[str, set[str]]:
        """Functions and classes of the file -> the names they use, themselves or through others of the file."""
        reach = {s.name: set(self.uses[i]) for i, s in enumerate(self.body) if isinstance(s, DEFINITION)}
        while True:
            size = sum(map(len, reach.values()))
            for used in reach.values():
                used.update(*(reach[name] for name in used & reach.keys()))
            if sum(map(len, reach.values())) == size:
                return reach

    # ------------------------------------------------------------------------------------------------ components
    def components(self, families: Mapping[str, str]) -> Iterator[tuple[str, ComponentSpec | str]]:
        """(kind, descriptor) of every class of a family that has a ``kind``; a sentence where that is no literal."""
        imported = self._imported_bases(families)
        for name, statement in self.classes.items():
            line = list(self._ancestors(name))
            family = next(filter(None, (self._family(cls, imported) for cls in line)), "")
            value = _assigned(statement, "kind")
            if not family or value is None or (isinstance(value, ast.Constant) and value.value == ""):
                continue
            if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
                yield family, f'class {name}: kind must be written as a text, kind = "..."'
                continue
            version = next((v for cls in line if (v := _assigned(cls, "version")) is not None), ast.Constant(1))
            if not isinstance(version, ast.Constant) or type(version.value) is not int:
                yield family, f"class {name}: version must be written as an integer, version = 2"
                continue
            summary = (ast.get_docstring(statement) or "").partition("\n\n")[0]
            summary = " ".join(summary.replace("``", "").split())
            yield (
                family,
                ComponentSpec(
                    name=value.value,
                    target=f":{name}",
                    summary=summary.partition(". ")[0].rstrip("."),
                    version=version.value,
                ),
            )

    def _ancestors(self, name: str, below: tuple[str, ...] = ()) -> Iterator[ast.ClassDef]:
        """The class and those it derives from, as far as the file holds them."""
        if name in self.classes and name not in below:
            yield self.classes[name]
            for base in self.classes[name].bases:
                if isinstance(base, ast.Name):
                    yield from self._ancestors(base.id, (*below, name))

    @staticmethod
    def _family(cls: ast.ClassDef, imported: Mapping[str, str]) -> str:
        own = _assigned(cls, "family")
        if isinstance(own, ast.Constant) and isinstance(own.value, str):
            return own.value
        return next((imported[text] for base in cls.bases if (text := ast.unparse(base)) in imported), "")

    def _imported_bases(self, families: Mapping[str, str]) -> dict[str, str]:
        """How the file writes a family's classes (``Augment``, ``views.Augment``) -> kind.

        Only what comes from skelbench or from the file's own package: torch has an ``Optimizer`` as well.
        """
        written: dict[str, str] = {}
        for statement in self.body:
            if isinstance(statement, ast.ImportFrom):
                if statement.level or (statement.module or "").partition(".")[0] == "skelbench":
                    for alias in statement.names:
                        name = alias.asname or alias.name
                        written |= {f"{name}.{cls}": kind for cls, kind in families.items()}
                        if alias.name in families:
                            written[name] = families[alias.name]
            elif isinstance(statement, ast.Import):
                for alias in statement.names:
                    if alias.name.partition(".")[0] == "skelbench":
                        written |= {f"{alias.asname or alias.name}.{cls}": kind for cls, kind in families.items()}
        return written


def _always(statement: ast.stmt) -> bool:
    """Imports that may give any name, or change how the others are compiled."""
    return isinstance(statement, ast.ImportFrom) and (
        statement.module == "__future__" or any(alias.name == "*" for alias in statement.names)
    )


def _binds(node: ast.AST) -> set[str]:
    """Names that a statement binds or changes at the top level."""
    match node:
        case ast.Import() | ast.ImportFrom():
            return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return set()
        case ast.Name():
            return set() if isinstance(node.ctx, ast.Load) else {node.id}
        case ast.Subscript() | ast.Attribute() if not isinstance(node.ctx, ast.Load):
            return _root(node)
        case ast.Expr(value=ast.Call(func=ast.Attribute() as function)):  # NAMES.append("x")
            return _root(function)
    return set().union(*map(_binds, ast.iter_child_nodes(node)))


def _root(node: ast.AST) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _uses(node: ast.AST) -> set[str]:
    """Names in a statement, wherever they stand in it; ``plugin.hookimpl`` counts as ``hookimpl``."""
    return {
        getattr(child, "id", "hookimpl")
        for child in ast.walk(node)
        if isinstance(child, ast.Name) or (isinstance(child, ast.Attribute) and child.attr == "hookimpl")
    }


def _markers(statement: ast.stmt) -> set[str]:
    """Names under which the file knows ``hookimpl``."""
    if isinstance(statement, ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names if alias.name == "hookimpl"}
    if isinstance(statement, ast.Assign) and "HookimplMarker" in ast.unparse(statement.value):
        return _binds(statement)
    return set()


def _defines(cls: ast.ClassDef, name: str) -> bool:
    return any(isinstance(statement, DEFINITION) and statement.name == name for statement in cls.body)


def _assigned(cls: ast.ClassDef, name: str) -> ast.expr | None:
    """What the body of ``cls`` gives ``name``."""
    for statement in cls.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return statement.value
    return None
