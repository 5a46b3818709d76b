"""Plugin files: finding and importing them."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.user_config import SETTINGS, said
from skelbench.plugin.plugin_errors import SINGLE


def files_on_path() -> list[Path]:
    """Return the files of ``SKELBENCH_PLUGIN_PATH`` or ``skelbench.toml``: files, and ``*.py`` (not ``_*.py``) of
    folders."""
    files: list[Path] = []
    for path in said("plugins") or ():
        inside = sorted(p for p in path.glob("*.py") if not p.name.startswith(("_", "."))) if path.is_dir() else []
        files += inside or [path]  # a missing file or an empty folder becomes a plugin that cannot be read
    return files


def named_file(name: str, what: str, folder: Path = Path()) -> Path:
    """Return the plugin file ``name``, below ``folder`` if it is relative; SkelbenchError if there is none."""
    path = folder / Path(name).expanduser()
    if path.is_dir():
        variable = SETTINGS["plugins"].variable
        raise SkelbenchError(f"{what} is a folder; name a file in it, or set {variable} to the folder")
    if not path.exists():
        raise SkelbenchError(f"{what}: there is no such file; check the path")
    return path


def named_files(names: Any, file: Path) -> list[str]:
    """Return the plugin files that a TOML ``file`` lists as ``plugins``, relative to its folder."""
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise SkelbenchError(f'{file}: plugins = {names!r:.60} is no list of files; write plugins = ["my_method.py"]')
    return [str(named_file(name, f"{file}: plugins: {name}", file.parent)) for name in names]


@dataclass(frozen=True)
class PluginFile:
    """One file. ``module`` is its name where it is installed; "" for a single file, which has no module name.

    A single file is read once: the code that runs is the code that was hashed.
    """

    path: Path
    module: str = ""
    package: bool = False
    """Whether it is the ``__init__.py`` of a package."""

    @cached_property
    def code(self) -> bytes:
        """Content of the file; OSError if it cannot be read."""
        return self.path.read_bytes()

    @cached_property
    def sha256(self) -> str:
        """Hash of the code."""
        return hashlib.sha256(self.code).hexdigest()

    @property
    def module_name(self) -> str:
        """Name in ``sys.modules``; for a single file it depends on the content, so targets do not name a folder."""
        return self.module or f"{SINGLE}{self.sha256[:16]}"

    @property
    def inside(self) -> list[str]:
        """Public modules and packages of a package."""
        found = pkgutil.iter_modules([str(self.path.parent)]) if self.package else ()
        return sorted(f"{self.module}.{each.name}" for each in found if not each.name.startswith("_"))

    def load(self) -> ModuleType:
        """Import the file once; whatever it raises passes through and leaves no module behind."""
        name = self.module_name
        if name in sys.modules:
            return sys.modules[name]
        if self.module:
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(name, self.path.resolve())
        if spec is None:
            raise ImportError(f"{self.path} is not a Python file (*.py)")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            exec(compile(self.code, str(self.path), "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        return module


def module_file(module: str) -> PluginFile:
    """Find the file of a module without importing the packages around it; ImportError if there is none."""
    spec: ModuleSpec | None = None
    outer = ""
    for part in module.split("."):
        name = f"{outer}.{part}" if outer else part
        spec = PathFinder.find_spec(name, spec.submodule_search_locations) if spec else importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        outer = name
    if spec is None or not spec.has_location or not spec.origin:
        raise ImportError(f"{module} is no Python file")
    return PluginFile(Path(spec.origin), module, spec.submodule_search_locations is not None)
