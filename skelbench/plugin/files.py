"""Plugin files: where they are found, what the text of one announces, and its code.

Every plugin is a file, whether it ships, is installed or is named by a user: it is read, the slice that its
announcements need is run in a namespace of its own, and the file itself is imported when something of it is used.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.user_config import SETTINGS, said
from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.plugin_errors import SINGLE
from skelbench.plugin.slices import TopLevel
from skelbench.plugin.undisturbed import put_back

ANNOUNCEMENT = re.compile(rb"hookimpl|skelbench_\w+|^[ \t]+kind\b", re.MULTILINE)
"""A file without a match announces nothing, and need not be parsed to know it."""

KEPT = 256
"""Texts of which a process remembers what they announce: notebooks and tests make a host again and again."""

AnyDescriptor = TypeVar("AnyDescriptor", bound=Descriptor)


def files_on_path() -> list[Path]:
    """Files named by ``SKELBENCH_PLUGIN_PATH`` or ``skelbench.toml``: each item a file or a directory of ``*.py`` (not
    ``_*.py``)."""
    files: list[Path] = []
    for path in said("plugins") or ():
        inside = sorted(p for p in path.glob("*.py") if not p.name.startswith(("_", "."))) if path.is_dir() else []
        files += inside or [path]  # what is not there, or holds none, becomes a plugin that cannot be read
    return files


def named_file(name: str, what: str, folder: Path = Path()) -> Path:
    """The plugin file ``name``, below ``folder`` if it is relative; SkelbenchError begins with ``what`` if there is
    none."""
    path = folder / Path(name).expanduser()
    if path.is_dir():
        variable = SETTINGS["plugins"].variable
        raise SkelbenchError(f"{what} is a folder; name a file in it, or set {variable} to the folder")
    if not path.exists():
        raise SkelbenchError(f"{what}: there is no such file; check the path")
    return path


def named_files(names: Any, file: Path) -> list[str]:
    """The plugin files that a TOML ``file`` lists as ``plugins``, relative to its folder."""
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise SkelbenchError(f'{file}: plugins = {names!r:.60} is no list of files; write plugins = ["my_method.py"]')
    return [str(named_file(name, f"{file}: plugins: {name}", file.parent)) for name in names]


def installed_files(place: str, families: Mapping[str, str]) -> Iterator[PluginFile]:
    """The plugin files of a module or package, which is not imported: the module; the package's ``__init__`` if that
    announces something, else every module and package in it whose name does not begin with ``_``.

    ModuleNotFoundError if there is no such module.
    """
    yield from _files_of(module_spec(place), families)


def module_spec(module: str) -> ModuleSpec:
    """Where a module stands, found without importing the packages around it; ModuleNotFoundError if nowhere."""
    spec, outer = None, ""
    for part in module.split("."):
        name = f"{outer}.{part}" if outer else part
        spec = PathFinder.find_spec(name, spec.submodule_search_locations) if spec else importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}")
        outer = name
    assert spec is not None
    return spec


def _files_of(spec: ModuleSpec, families: Mapping[str, str]) -> Iterator[PluginFile]:
    file = PluginFile(Path(spec.origin), spec.name) if spec.has_location and spec.origin else None
    inside = spec.submodule_search_locations
    if inside is None:
        if file is None:
            raise ImportError(f"{spec.name} is no Python file")
        yield file
    elif file is not None and file.announces(families):
        yield file
    else:
        for module in sorted(pkgutil.iter_modules(inside), key=lambda module: module.name):
            if not module.name.startswith("_"):
                part = PathFinder.find_spec(f"{spec.name}.{module.name}", inside)
                if part is not None:
                    yield from _files_of(part, families)


@lru_cache(maxsize=KEPT)
def _parsed(code: bytes, path: str) -> TopLevel:
    return TopLevel(importlib.util.decode_source(code), path)


@lru_cache(maxsize=KEPT)
def _sliced(code: bytes, path: str) -> CodeType | None:
    """The slice that the file's hooks need; None where it must be imported whole."""
    sliced = _parsed(code, path).slice()
    return None if sliced is None else compile(sliced, path, "exec", dont_inherit=True)


@dataclass(frozen=True)
class PluginFile:
    """One file. ``module`` is its name where it is installed; a single file has a name of its own ("" = single).

    Of a single file the code that runs is the code that was hashed: it is read once.
    """

    path: Path
    module: str = ""

    @cached_property
    def code(self) -> bytes:
        """What stands in the file; OSError if it cannot be read."""
        return self.path.read_bytes()

    @cached_property
    def sha256(self) -> str:
        """Of the code."""
        return hashlib.sha256(self.code).hexdigest()

    @cached_property
    def top_level(self) -> TopLevel:
        """Its statements; SyntaxError or ValueError if it is no Python."""
        return _parsed(self.code, str(self.path))

    @property
    def api(self) -> int:
        """The newest plugin API that an announcement in its text is for; 0 where none says so."""
        said = [values["api"] for _, values in self._announcements()]
        return max((api for api in said if type(api) is int), default=0)

    def named(self) -> list[tuple[str, str]]:
        """(``"MethodSpec"``, name) of the announcements in its text whose name is written out."""
        return [(spec, values["name"]) for spec, values in self._announcements() if isinstance(values["name"], str)]

    def _announcements(self) -> list[tuple[str, dict[str, Any]]]:
        try:
            return list(self.top_level.announcements())
        except (OSError, SyntaxError, ValueError):
            return []

    @property
    def module_name(self) -> str:
        """Of a single file unique per content and independent of where it lies, so that targets do not depend on it."""
        return self.module or f"{SINGLE}{self.sha256[:16]}"

    def announces(self, families: Mapping[str, str]) -> bool:
        """Whether its text has hooks or classes of ``families``; a file that cannot be read may have."""
        try:
            if not ANNOUNCEMENT.search(self.code):
                return False
            return bool(self.top_level.hooks) or any(self.top_level.components(families))
        except (OSError, SyntaxError, ValueError):
            return True

    def announcement(self) -> ModuleType:
        """The slice that its hooks need, run in a module of its own; all of it, imported, where that is as much."""
        sliced = _sliced(self.code, str(self.path))
        if sliced is None:
            return self.load()
        module = self._empty()
        module.__doc__ = self.top_level.docstring
        exec(sliced, module.__dict__)
        return module

    def load(self) -> ModuleType:
        """Import the file once; what it raises passes through and leaves nothing behind."""
        if self.module:
            with nullcontext() if self.module in sys.modules else put_back():
                return importlib.import_module(self.module)
        if loaded := sys.modules.get(self.module_name):
            return loaded
        with put_back():
            module = self._empty()
            sys.modules[self.module_name] = module
            try:
                exec(compile(self.code, str(self.path), "exec", dont_inherit=True), module.__dict__)
            except BaseException:
                del sys.modules[self.module_name]
                raise
        return module

    def _empty(self) -> ModuleType:
        inside = [str(self.path.parent)] if self.module and self.path.name == "__init__.py" else None
        spec = importlib.util.spec_from_file_location(
            self.module_name, self.path.resolve(), submodule_search_locations=inside
        )
        if spec is None:
            raise ImportError(f"{self.path} is not a Python file (*.py)")
        return importlib.util.module_from_spec(spec)

    def own(self, descriptor: AnyDescriptor) -> AnyDescriptor:
        """``descriptor`` with ``":Name"`` (of a single file also ``"file:Name"``) pointing at this file's module.

        SkelbenchError names the nearest class if the file does not define it.
        """
        stems = ("", self.module_name) if self.module else ("", self.module_name, self.path.stem)
        fields: dict[str, Any] = {}
        for place in descriptor.places:
            name, _, attribute = getattr(descriptor, place).partition(":")
            if attribute and name in stems:
                if not self._defines(attribute.partition(".")[0]):
                    classes = list(self.top_level.classes)
                    raise SkelbenchError(did_you_mean(attribute, classes, f"name in {self.path.name},"))
                fields[place] = f"{self.module_name}:{attribute}"
        return replace(descriptor, **fields) if fields else descriptor

    def _defines(self, name: str) -> bool:
        try:
            return name in self.top_level.names or hasattr(self.load(), name)
        except (Exception, SystemExit):
            return False
