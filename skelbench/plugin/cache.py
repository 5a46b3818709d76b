"""Announced descriptors, kept in files so that listing plugins imports no plugin and no torch.

One file holds the announcements of one package, or of one single file, each with a hash of its source. After an edit
the hash is another, and the plugin is imported once more.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from contextlib import suppress
from pathlib import Path

from skelbench.core.files import keep_newest, write_atomic
from skelbench.core.hashing import hash_of_code
from skelbench.core.user_config import cache_root
from skelbench.core.version import __version__
from skelbench.plugin.descriptors import Descriptor

KEPT = 128
"""Most files of the cache: the oldest ones are deleted."""
STARTED = time.time()
Announcement = list[tuple[str, Descriptor]]
"""(kind, descriptor) of everything that a plugin announces."""


class DescriptorCache:
    """Announcements of the plugins at ``location``."""

    def __init__(self, location: Path) -> None:
        about = f"{location.absolute()} {__version__} {source_hash(Path(__file__).parent)}"
        name = hashlib.sha256(about.encode()).hexdigest()[:16]
        self.path = cache_root() / "plugins" / f"{location.stem}-{name}.pickle"
        self._changed = False
        self._kept: dict[str, tuple[str, bytes]] = {}
        with suppress(Exception):  # absent, or damaged
            self._kept = dict(pickle.loads(self.path.read_bytes()))

    def get(self, name: str, source: str) -> Announcement | None:
        """Return the announcement of plugin ``name`` whose source has this hash; None if it is not cached."""
        with suppress(Exception):
            hashed, announcement = self._kept[name]
            return pickle.loads(announcement) if hashed == source else None
        return None

    def put(self, name: str, source: str, announcement: Announcement) -> None:
        """Keep an announcement, unless its source has no hash or a value cannot be pickled."""
        if source:
            with suppress(Exception):
                self._kept[name] = source, pickle.dumps(announcement)
                self._changed = True

    def save(self) -> None:
        """Write the file if something was added to it and the folder is writable."""
        if self._changed:
            with suppress(OSError):  # a folder of somebody else, a full disk
                write_atomic(self.path, lambda file: pickle.dump(self._kept, file))
                keep_newest(self.path.parent.glob("*.pickle"), KEPT)


def source_hash(root: Path) -> str:
    """Return a hash of a module, or of all modules of a package.

    Return "" if one was edited after this process started: the code in memory may be older than the file.
    """
    paths = root.rglob("*.py") if root.is_dir() else [root]
    return "" if any(path.stat().st_mtime > STARTED for path in paths) else hash_of_code(root)
