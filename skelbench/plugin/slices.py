"""What the text of a plugin file announces: the slice of its top level that its hooks need, and its component classes.

Only that slice is run to list a file, so that what the rest of it imports (torch) is not imported. A file that does
what its text does not show (:func:`_is_plain`) has no slice and is imported whole.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from functools import cached_property
from typing import Any

from skelbench.plugin.descriptors import ComponentSpec

FAMILIES = {
    "Crop": "crops",
    "Augment": "augmentations",
    "Mask": "masks",
    "Degrade": "degradations",
    "Optimizer": "optimizers",
    "Schedule": "schedules",
}
"""Base class of a family, as skelbench names it -> kind of what derives from it."""
OPAQUE = {"globals", "locals", "vars", "dir", "exec", "eval", "*"}
"""Where these are used, or bound, any statement of the file may be needed."""
SCOPE = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


class TopLevel:
    """The statements of a module, ``source``, and how they depend on each other."""

    def __init__(self, source: str, path: str = "<unknown>") -> None:
        tree = ast.parse(source, path)
        self.body = [statement for statement in tree.body if not _is_for_scripts(statement)]
        self.docstring = ast.get_docstring(tree, clean=False)
        imports = [statement for statement in self.body if isinstance(statement, ast.Import | ast.ImportFrom)]
        modules = set().union(*map(_imported, imports))
        self.own = {each.name: each for each in self.body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        """Functions and classes of the file."""
        self.binds = [_binds(statement, modules, self.own) for statement in self.body]
        self._follow_second_names()
        lines, ends = source.split("\n"), [1, *(statement.end_lineno or 1 for statement in self.body)]
        self._texts = ["\n".join(lines[before - 1 : end]) for before, end in zip(ends, ends[1:], strict=False)]
        """The lines of each statement, with its decorators, from where the one before ends."""
        self._uses: dict[int, set[str]] = {}

    def _follow_second_names(self) -> None:
        """After ``COLD = VARIANTS["cold"]`` whatever changes the one changes the other."""
        second = {
            target.id: _root(each.value)
            for each in self.body
            if isinstance(each, ast.Assign) and isinstance(each.value, ast.Name | ast.Subscript | ast.Attribute)
            for target in each.targets
            if isinstance(target, ast.Name)
        }
        for _ in second:
            for names in self.binds:
                names |= set().union(*(second[name] for name in names & second.keys()))

    def uses(self, index: int) -> set[str]:
        """Names in a statement: looked for where they are asked for, as most statements announce nothing."""
        if index not in self._uses:
            self._uses[index] = _uses(self.body[index])
        return self._uses[index]

    def _uses_one(self, index: int, names: set[str]) -> bool:
        text = self._texts[index]
        possible = not text.isascii() or any(name in text for name in names)  # other letters may stand for plain ones
        return possible and not names.isdisjoint(self.uses(index))

    @cached_property
    def names(self) -> set[str]:
        """Every name that a statement binds; ``*`` for those of a star import."""
        return set().union(*self.binds)

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Classes by name; the last of a name counts, as when the file runs."""
        return {statement.name: statement for statement in self.body if isinstance(statement, ast.ClassDef)}

    @cached_property
    def hooks(self) -> set[int]:
        """Indices of the statements that are hooks: decorated with ``hookimpl`` or named like one (the latter may lack
        the decorator, which is said to the author)."""
        markers = set().union({"hookimpl"}, *(_markers(statement) for statement in self.body))
        return {
            index
            for index, statement in enumerate(self.body)
            if not isinstance(statement, ast.Import)
            and (any(name.startswith("skelbench_") for name in self.binds[index]) or self._uses_one(index, markers))
        }

    @property
    def twice(self) -> list[str]:
        """Hooks that are defined more than once, of which Python keeps the last."""
        named = Counter(each.name for each in self.body if isinstance(each, ast.FunctionDef))
        return [name for name, often in named.items() if often > 1 and name.startswith("skelbench_")]

    @property
    def silent(self) -> bool:
        """Whether the text holds no hook, and none can come from anywhere else."""
        return not self.hooks and not OPAQUE & self.names.union(*map(self.uses, range(len(self.body))))

    def slice(self) -> ast.Module | None:
        """What the hooks need, in order; None where only the whole file is sure to give it."""
        if OPAQUE & self.names or not all(_is_plain(each, self.own.keys()) for each in self.body):
            return None
        needed, more = set[int](), self.hooks | {i for i, bound in enumerate(self.binds) if "annotations" in bound}
        while more - needed:
            needed |= more
            used = set().union(*map(self.uses, needed))
            more = {i for i, bound in enumerate(self.binds) if bound & used}
            if OPAQUE & used:
                return None
        return ast.Module([self.body[i] for i in sorted(needed)], type_ignores=[])

    def announcements(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Name of the class, and ``name`` and ``api``, of every descriptor that the text makes; None where a value is
        not written out."""
        for node in (node for statement in self.body for node in ast.walk(statement) if isinstance(node, ast.Call)):
            spec = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if spec.endswith("Spec"):
                written = {each.arg: each.value for each in node.keywords}
                yield spec, {name: getattr(written.get(name), "value", None) for name in ("name", "api")}

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
            summary = summary.partition(". ")[0].rstrip(".")
            yield family, ComponentSpec(name=value.value, target=f":{name}", summary=summary, version=version.value)

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
            if not isinstance(statement, ast.Import | ast.ImportFrom):
                continue
            inside = isinstance(statement, ast.ImportFrom) and statement.level > 0
            for alias in statement.names:
                name, source = alias.asname or alias.name, getattr(statement, "module", None) or alias.name
                if inside or source.partition(".")[0] == "skelbench":
                    written |= {f"{name}.{cls}": kind for cls, kind in families.items()}
                    if alias.name in families:
                        written[name] = families[alias.name]
        return written


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a statement that run with it: not the bodies of what it defines, nor a comprehension's own names."""
    yield node
    if not isinstance(node, SCOPE):
        for child in ast.iter_child_nodes(node):
            if not (isinstance(node, ast.comprehension) and child is node.target):
                yield from _running(child)


def _is_plain(statement: ast.stmt, own: Set[str]) -> bool:
    """Whether all that the statement changes are the names it binds: no ``fill(RECIPES)`` by itself, no decorator that
    is one of the file's ``own`` functions, no class that acts on its subclasses."""
    for node in _running(statement):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name != "print" or name in own:
                return False
            case ast.FunctionDef() | ast.ClassDef() if own & set().union(*map(_uses, node.decorator_list)):
                return False
            case ast.ClassDef() if "__init_subclass__" in [getattr(each, "name", "") for each in node.body]:
                return False
    return True


def _binds(statement: ast.stmt, imported: Set[str], own: Mapping[str, ast.AST]) -> set[str]:
    """Names that a statement binds at the top level, or may change: what a method is called of, what a loop goes
    through, what a call is given whose result nobody takes, what one of the file's ``own`` functions is given or has
    in it; of the names that are ``imported`` only where a call stands alone."""
    names: set[str] = set()
    acted: set[str] = set()
    for node in _running(statement):
        match node:
            case ast.Import() | ast.ImportFrom():
                names |= _imported(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Name(ctx=ast.Store() | ast.Del()):
                names.add(node.id)
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                names |= _root(node)
            case ast.Expr(value=ast.Call(func=function, args=args, keywords=keywords)):  # NAMES.append("x")
                names |= _root(function) if isinstance(function, ast.Attribute) else set()
                acted |= _roots(args, keywords)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in own:  # ALL = add(NAMES, "x")
                acted |= _roots(args, keywords) | _changed(own, name)
            case ast.Call(func=ast.Attribute() as function):  # LAST = NAMES.pop()
                acted |= _root(function)
            case ast.For(iter=each):
                acted |= _uses(each)
    return names | acted - imported


def _imported(statement: ast.Import | ast.ImportFrom) -> set[str]:
    return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}


def _is_for_scripts(statement: ast.stmt) -> bool:
    """Whether it is ``if __name__ == "__main__":``, which runs nowhere else."""
    match statement:
        case ast.If(
            test=ast.Compare(
                left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]
            ),
            orelse=[],
        ):
            return True
    return False


def _root(node: ast.AST) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _changed(own: Mapping[str, ast.AST], name: str) -> set[str]:
    """Names that a call of the file's function ``name`` may change, itself or by those of the file that it calls."""
    found, seen, more = set[str](), set[str](), {name}
    while more:
        seen |= more
        bodies = [_body(own[each]) for each in more]
        found |= set().union(*(changed for changed, _ in bodies))
        more = (set().union(*(called for _, called in bodies)) & own.keys()) - seen
    return found


def _body(definition: ast.AST) -> tuple[set[str], set[str]]:
    """Names, none of its own, that a definition writes into, calls a method of, gives to a function or takes by a
    second name; names that it calls."""
    changed, local, shared, called = set[str](), set[str](), set[str](), set[str]()
    for node in ast.walk(definition):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                local.add(name)
            case ast.Global(names=names):
                shared.update(names)
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                changed |= _root(node)
            case ast.Assign(value=ast.Name() | ast.Subscript() | ast.Attribute() as value):
                changed |= _root(value)
            case ast.Call(func=function, args=args, keywords=keywords):
                changed |= _roots(args, keywords) | (_root(function) if isinstance(function, ast.Attribute) else set())
                called |= {function.id} if isinstance(function, ast.Name) else set()
    return changed - local | shared, called


def _roots(args: list[ast.expr], keywords: list[ast.keyword]) -> set[str]:
    """Names of what a call is given."""
    return set().union(*map(_root, [*args, *(keyword.value for keyword in keywords)]))


def _uses(statement: ast.AST) -> set[str]:
    """Names in a statement, wherever they stand in it; ``plugin.hookimpl`` counts as ``hookimpl``."""
    return {
        getattr(node, "id", "hookimpl")
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and node.attr == "hookimpl")
    }


def _markers(statement: ast.stmt) -> set[str]:
    """Names under which the file knows ``hookimpl``."""
    if isinstance(statement, ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names if alias.name == "hookimpl"}
    if isinstance(statement, ast.Assign) and "HookimplMarker" in ast.unparse(statement.value):
        return set().union(*map(_uses, statement.targets))
    return set()


def _assigned(cls: ast.ClassDef, name: str) -> ast.expr | None:
    """What the body of ``cls`` gives ``name``."""
    for statement in cls.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if name in map(ast.unparse, targets):
                return statement.value
    return None
