"""What the files of runs say, worked out once: kept in the user's cache folder while those files stay as they are.

Ten thousand runs take minutes to read. The records stay the only truth: what is kept is found by stamps of the files
that it was made from and by the code that made it, may be deleted at any time, and where it cannot be read, or is of
anything else, it is made again. Nothing is written into a results directory.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from skelbench.core.files import keep_newest, write_atomic
from skelbench.core.hashing import digest, hash_of_code
from skelbench.core.threads import uncollected
from skelbench.core.user_config import cache_root
from skelbench.core.version import installed

LEAST = 200
"""Directories of fewer runs are read as fast as what would be kept of them."""
SETTLED_NS = 2_000_000_000
"""A file that changed later than this before it was looked at may change again without its stamp saying so: clocks of
file systems tick slowly (git's "racily clean" entries)."""
ALL = ""
"""Instead of a name: what all runs that are asked for decide together."""
STORES = 8
"""Results directories of which something stays kept."""

SIGNS = ("run.json", "metrics.jsonl", "last.pt")
"""A folder with one of them is a run, if a damaged one."""
FILES = ("run.json", "cost.json", "metrics.jsonl")
"""What tables are made from beside ``eval-*``."""
Progress = Callable[..., AbstractContextManager[Callable[..., None]]]
log = logging.getLogger(__name__)


class Stamps:
    """Of the files of a run that tables are made from."""

    __slots__ = ("_files", "mark")

    def __init__(self, files: list[tuple[str, int, int, int, int]]) -> None:
        self._files = sorted(files)
        self.mark = hashlib.sha256(repr(self._files).encode()).hexdigest()[:24]
        """One word for all of them."""

    def of(self, name: str) -> list[int]:
        """Size, times of the last change of content and of the entry in ns, inode of a file; nothing if there is
        none."""
        return next((list(stamp) for file, *stamp in self._files if file == name), [])


def looked_at(folder: str) -> tuple[bool, Stamps | None]:
    """Whether a folder has something of a run in it, and the stamps of its files; None where one of them cannot be
    trusted."""
    latest, found, is_run, settled = time.time_ns() - SETTLED_NS, [], False, True
    try:
        with os.scandir(folder) as files:
            for file in files:
                name = file.name
                is_run |= name in SIGNS
                if name in FILES or (name.startswith("eval-") and name.endswith((".json", ".npz"))):
                    of = file.stat()
                    settled &= of.st_mtime_ns <= latest and of.st_ctime_ns <= latest
                    found.append((name, of.st_size, of.st_mtime_ns, of.st_ctime_ns, of.st_ino))
    except OSError:  # no folder, or a link that leads nowhere
        settled = False
    return is_run, Stamps(found) if is_run and settled else None


class Shelf:
    """Plain data of one kind, by name of the run and by a mark of the files that it was made from."""

    def __init__(self, file: Path, about: Mapping[str, str]) -> None:
        self._file, self._about = file, dict(about)
        self.changed = False

    @cached_property
    def _kept(self) -> dict[str, list[Any]]:
        """name -> [mark, facts]; a file that is not whole, or not about the same, holds nothing."""
        try:
            head, _, body = self._file.read_bytes().partition(b"\n")
            about = {**self._about, "sha256": hashlib.sha256(body).hexdigest()}
            with uncollected():
                return dict(json.loads(body)) if json.loads(head) == about else {}
        except (OSError, ValueError, RecursionError):
            return {}

    def get(self, name: str, mark: Any) -> Any:
        """What was made from the same files; None where nothing was."""
        kept = self._kept.get(name)
        return kept[1] if kept is not None and kept[0] == mark else None

    def put(self, name: str, mark: Any, facts: Any) -> None:
        """Keep ``facts``, plain data that JSON gives back as they are."""
        self._kept[name] = [mark, facts]
        self.changed = True

    def save(self, names: Collection[str]) -> None:
        """Write what is kept of the runs ``names``, if that is anything new."""
        if not self.changed:
            return
        body = json.dumps({name: kept for name, kept in self._kept.items() if name in names}).encode()
        head = json.dumps({**self._about, "sha256": hashlib.sha256(body).hexdigest()}).encode()
        try:
            write_atomic(self._file, lambda file: file.writelines((head, b"\n", body)))
            keep_newest(self._file.parent.glob(f"results-*-{self._about['kind']}.kept"), STORES)
        except OSError as error:
            log.debug("facts of runs are not kept: %s", error)
        self.changed = False


class Shelves:
    """Everything that is kept of the runs ``names`` of one results directory. ``progress``: see :meth:`filling`."""

    def __init__(self, root: Path, names: Collection[str], progress: Progress | None = None) -> None:
        self._root, self._names, self._progress = str(root.resolve()), frozenset([*names, ALL]), progress
        self._shelves: dict[str, Shelf] = {}

    def __getitem__(self, kind: str) -> Shelf:
        if kind not in self._shelves:
            code = [hash_of_code(Path(__file__).parents[1]), *(installed(name) for name in ("numpy", "pydantic"))]
            about = {"kind": kind, "root": self._root, "code": digest(code, 24)}
            file = cache_root() / f"results-{digest(self._root, 16)}-{kind}.kept"
            self._shelves[kind] = Shelf(file, about)
        return self._shelves[kind]

    def save(self) -> None:
        """Write what is new."""
        for shelf in self._shelves.values():
            shelf.save(self._names)

    @contextmanager
    def filling(self, total: int, missing: int, label: str) -> Iterator[Callable[..., None]]:
        """Save what is kept meanwhile, also of a command that is stopped; with ``progress`` over ``total`` runs where
        many are ``missing``."""
        try:
            if self._progress is None or missing < LEAST:
                yield lambda *_, **__: None
            else:
                with self._progress(total=total, label=label, unit="runs") as report:
                    yield report
        finally:
            self.save()
