"""Single-file plugins: found on a path, imported under a name of their own, listed from a descriptor cache.

The cache lets a file that imports torch at its top be listed without running it: the key is the file's content and
skelbench's version, so only a changed file is imported again. What a file announces must therefore follow from the
file alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from skelbench import __version__
from skelbench.errors import SkelbenchError, did_you_mean
from skelbench.files import write_json
from skelbench.plugin.descriptors import KINDS, Descriptor
from skelbench.plugin.validate import descriptor_problem

PATH_VARIABLE = "SKELBENCH_PLUGIN_PATH"


def cache_dir() -> Path:
    """``$SKELBENCH_CACHE``, ``$XDG_CACHE_HOME/skelbench`` or ``~/.cache/skelbench``."""
    if chosen := os.environ.get("SKELBENCH_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "skelbench"


def files_on_path() -> list[Path]:
    """Files named by ``SKELBENCH_PLUGIN_PATH``: each item a file or a directory of ``*.py`` (not ``_*.py``)."""
    found: list[Path] = []
    for item in filter(None, os.environ.get(PATH_VARIABLE, "").split(os.pathsep)):
        path = Path(item).expanduser()
        found += sorted(p for p in path.glob("*.py") if not p.name.startswith(("_", "."))) if path.is_dir() else [path]
    return found


@dataclass(frozen=True)
class Announced:
    """What a plugin offers: descriptors by kind, and the observer hooks it implements."""

    descriptors: dict[str, list[Descriptor]]
    observers: list[str]


@dataclass(frozen=True)
class SourceFile:
    """One file read once, so that the code that runs is the code that was hashed."""

    path: Path
    code: bytes
    sha256: str

    @classmethod
    def read(cls, path: Path) -> SourceFile:
        """Read ``path``; OSError if that fails."""
        code = path.read_bytes()
        return cls(path.resolve(), code, hashlib.sha256(code).hexdigest())

    @property
    def module_name(self) -> str:
        """Unique per content and independent of where the file lies, so that targets do not depend on it."""
        return f"skelbench_file_{self.sha256[:16]}"

    def load(self) -> ModuleType:
        """Import the file once; what it raises passes through and leaves nothing behind."""
        if loaded := sys.modules.get(self.module_name):
            return loaded
        spec = importlib.util.spec_from_file_location(self.module_name, self.path)
        if spec is None:
            raise ImportError(f"{self.path} is not a Python file (*.py)")
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.module_name] = module
        try:
            exec(compile(self.code, str(self.path), "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[self.module_name]
            raise
        return module

    def own(self, announced: Announced) -> Announced:
        """Point ``":Class"`` and ``"thisfile:Class"`` at this file's module; refuse names it does not define.

        Values become what JSON makes of them (tuples turn into lists), so that a plugin is the same whether it
        comes from the file or from the cache.
        """
        module = self.load()

        def resolved(target: str) -> str:
            name, _, attribute = target.partition(":")
            if name not in ("", self.path.stem, self.module_name):
                return target
            if not hasattr(module, attribute.partition(".")[0]):
                classes = [key for key, value in vars(module).items() if isinstance(value, type)]
                raise SkelbenchError(did_you_mean(attribute, classes, f"name in {self.path.name},"))
            return f"{self.module_name}:{attribute}"

        changed = {}
        for kind, descriptors in announced.descriptors.items():
            changed[kind] = []
            for descriptor in descriptors:
                fields = {f: resolved(v) for f in ("target", "config", "imports") if (v := getattr(descriptor, f, ""))}
                descriptor = dataclasses.replace(descriptor, **fields)
                changed[kind].append(_from_json(kind, _to_json(descriptor)) if _plain(descriptor) else descriptor)
        return dataclasses.replace(announced, descriptors=changed)

    # ------------------------------------------------------------------------------------------------ cache
    @property
    def cache_path(self) -> Path:
        """The stem is part of the name because targets may use it."""
        stem = re.sub(r"\W", "_", self.path.stem)
        return cache_dir() / "plugins" / f"{stem}-{self.sha256}-{__version__}.json"

    def cached(self) -> Announced | None:
        """What this very file announced last time, or None; a damaged cache counts as none."""
        try:
            data = json.loads(self.cache_path.read_text())
            descriptors = {kind: [_from_json(kind, item) for item in items] for kind, items in data["hooks"].items()}
            observers = [str(name) for name in data["observers"]]
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        if any(descriptor_problem(kind, item) for kind, items in descriptors.items() for item in items):
            return None
        return Announced(descriptors, observers)

    def remember(self, announced: Announced) -> None:
        """Store ``announced`` if JSON can carry it; a cache that cannot be written is no error."""
        if not all(_plain(d) for descriptors in announced.descriptors.values() for d in descriptors):
            return
        hooks = {kind: [_to_json(d) for d in items] for kind, items in announced.descriptors.items()}
        try:
            write_json(self.cache_path, {"hooks": hooks, "observers": announced.observers})
        except OSError:
            pass


def _to_json(descriptor: Descriptor) -> dict[str, Any]:
    return {f.name: getattr(descriptor, f.name) for f in dataclasses.fields(descriptor)}


def _plain(descriptor: Descriptor) -> bool:
    """Whether JSON carries the descriptor (tuples aside)."""
    try:
        json.dumps(_to_json(descriptor), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return type(descriptor) in KINDS.values()


def _from_json(kind: str, values: dict[str, Any]) -> Descriptor:
    values = json.loads(json.dumps(values))
    if "splits" in values:
        values["splits"] = tuple(values["splits"])
    return KINDS[kind](**values)


def unique(paths: Iterable[Path]) -> list[Path]:
    """``paths`` without second mentions of one file."""
    first: dict[Path, Path] = {}
    for path in paths:
        first.setdefault(path.resolve(), path)
    return list(first.values())
