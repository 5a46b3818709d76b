"""Descriptors kept in JSON files, so that listing plugins imports no plugin and no torch.

One file holds the announcements of one package, or of one single file, each with a hash of its source. After an edit
the hash is another, and the plugin is imported once more.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from skelbench.core.files import keep_newest, read_json, write_json
from skelbench.core.user_config import cache_root
from skelbench.core.version import __version__
from skelbench.plugin.descriptors import KINDS, Descriptor, NativeProbe, Stage
from skelbench.plugin.space import Linear, Log

KEPT = 128
"""Most files of the cache: the oldest ones are deleted."""
STARTED = time.time()
CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (*KINDS.values(), NativeProbe, Stage, Linear, Log)}


@dataclass
class Announcement:
    """Everything that one plugin announces."""

    descriptors: list[tuple[str, Descriptor]] = field(default_factory=list)
    """(kind, descriptor), with targets that name a module."""
    observers: list[str] = field(default_factory=list)
    """Names of observer hooks."""
    settings: dict[str, list[str]] = field(default_factory=dict)
    """``"module:Config"`` of a descriptor -> names of its fields."""

    def __bool__(self) -> bool:
        return bool(self.descriptors or self.observers)


class DescriptorCache:
    """Announcements of the plugins at ``location``."""

    def __init__(self, location: Path) -> None:
        name = hashlib.sha256(str(location.absolute()).encode()).hexdigest()[:16]
        try:
            folder = cache_root() / "plugins"
        except RuntimeError:  # no home folder: nothing can be kept
            folder = Path(os.devnull)
        self.path = folder / f"{location.stem}-{name}.json"
        self._own = source_hash(Path(__file__).parent)
        self._format = f"{__version__} {self._own}"
        self._changed = False
        self._kept: dict[str, Any] = {}
        with suppress(OSError, ValueError, KeyError, TypeError):  # absent, or damaged
            document = read_json(self.path)
            self._kept = document["plugins"] if document["format"] == self._format else {}

    def get(self, name: str, source: str) -> Announcement | None:
        """Return the announcement of plugin ``name`` whose source has this hash; None if it is not kept."""
        with suppress(KeyError, TypeError, ValueError):
            kept = self._kept[name]
            if kept["source"] == source:
                descriptors = [(kind, _decoded(descriptor)) for kind, descriptor in kept["descriptors"]]
                return Announcement(descriptors, kept["observers"], kept["settings"])
        return None

    def put(self, name: str, source: str, announcement: Announcement) -> None:
        """Keep an announcement, unless its source has no hash or one of its values is not plain data."""
        if source and self._own:
            with suppress(TypeError):
                descriptors = [(kind, _encoded(descriptor)) for kind, descriptor in announcement.descriptors]
                self._kept[name] = {**vars(announcement), "source": source, "descriptors": descriptors}
                self._changed = True

    def save(self) -> None:
        """Write the file if something was added to it and the folder is writable."""
        if self._changed:
            with suppress(OSError, ValueError):  # a folder of somebody else, a full disk, an infinite number
                write_json(self.path, {"format": self._format, "plugins": self._kept})
                keep_newest(self.path.parent.glob("*.json"), KEPT)


@lru_cache
def source_hash(root: Path) -> str:
    """Return a hash of a module, or of all modules of a package.

    Return "" if one was edited after this process started: the code in memory may be older than the file.
    """
    hashed = hashlib.sha256()
    for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
        if path.stat().st_mtime > STARTED:
            return ""
        hashed.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return hashed.hexdigest()


def _encoded(value: Any) -> Any:
    """Return JSON for plain data and descriptors; TypeError for anything else."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [_encoded(item) for item in value]
    if type(value) is tuple:
        return {"tuple": [_encoded(item) for item in value]}
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        return {"dict": {key: _encoded(item) for key, item in value.items()}}
    cls = CLASSES.get(type(value).__name__)
    if cls is type(value):
        return {cls.__name__: {each.name: _encoded(getattr(value, each.name)) for each in fields(cls)}}
    raise TypeError(f"{value!r} is not plain data")


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((tag, inside),) = value.items()
    if tag == "tuple":
        return tuple(_decoded(item) for item in inside)
    items = {key: _decoded(item) for key, item in inside.items()}
    return items if tag == "dict" else CLASSES[tag](**items)
