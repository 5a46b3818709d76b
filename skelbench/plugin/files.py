"""Plugin files: finding and importing them."""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.user_config import said
from skelbench.plugin.plugin_errors import SINGLE


def files_on_path() -> list[Path]:
    """Return the plugin files that the user's configuration names, and ``*.py`` (not ``_*.py``) of its folders."""
    files: list[Path] = []
    for path in said("plugins") or ():
        files += sorted(path.glob("[!_.]*.py")) if path.is_dir() else [path]
    return files


def named_file(name: str, what: str, folder: Path = Path()) -> Path:
    """Return the path of the plugin file ``name``, relative to ``folder``; SkelbenchError if there is none."""
    path = folder / Path(name).expanduser()
    if not path.is_file():
        raise SkelbenchError(f"{what}: there is no such file; check the path")
    return path


def named_files(names: Any, file: Path) -> list[str]:
    """Return the plugin files that a TOML ``file`` lists as ``plugins``, relative to its folder."""
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise SkelbenchError(f'{file}: plugins = {names!r:.60} is not a list; write plugins = ["my_method.py"]')
    return [str(named_file(name, f"{file}: plugins: {name}", file.parent)) for name in names]


@dataclass(frozen=True)
class PluginFile:
    """One file. ``module`` is its name where it is installed; "" for a single file, which has no module name.

    A single file is read once: the code that runs is the code that was hashed.
    """

    path: Path
    module: str = ""

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

    @cached_property
    def inside(self) -> list[PluginFile]:
        """Public modules and packages of a package, by name; empty for other files."""
        files: list[PluginFile] = []
        if self.module and self.path.name == "__init__.py":
            for module in pkgutil.iter_modules([str(self.path.parent)]):
                if not module.name.startswith("_"):
                    path = self.path.parent / module.name
                    path = path / "__init__.py" if module.ispkg else path.with_suffix(".py")
                    files.append(PluginFile(path, f"{self.module}.{module.name}"))
        return files

    def modules(self) -> Iterator[PluginFile]:
        """Yield this module, and all public modules in it."""
        yield self
        for part in self.inside:
            yield from part.modules()

    def load(self) -> ModuleType:
        """Import the file once; whatever it raises passes through and leaves no module behind."""
        name = self.module_name
        if name in sys.modules:
            return sys.modules[name]
        if self.module:
            return importlib.import_module(name)
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = str(self.path)
        try:
            exec(compile(self.code, str(self.path), "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        return module
