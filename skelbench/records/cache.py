"""Cache of data that tables read from the files of runs: hundreds of runs take long to read.

The user's cache folder has one file for each results directory. An entry holds while size and time of the run's files
stay the same. The file may be deleted at any time.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from skelbench.core.files import keep_newest, write_atomic
from skelbench.core.hashing import digest, hash_of_code
from skelbench.core.user_config import cache_root
from skelbench.core.version import installed
from skelbench.records.errors import Found, skipped

LEAST = 200
"""Number of directories from which on the cache is used."""
ALL = ""
"""Name of entries that all runs together decide."""
STORES = 8
"""Number of results directories whose caches are kept."""

SIGNS = ("run.json", "metrics.jsonl", "last.pt")
"""A folder with one of these files is a run, perhaps a damaged one."""
FILES = ("run.json", "cost.json", "metrics.jsonl")
"""Files that tables read, next to ``eval-*``."""
Progress = Callable[..., AbstractContextManager[Callable[..., None]]]
Stamps = dict[str, list[int]]
"""Size and time of the last change in ns of the files of a run, by name."""
log = logging.getLogger(__name__)


def scan(folder: str) -> Stamps | None:
    """Stamps of the files of a run; None for a folder that is no run."""
    stamps, is_run = {}, False
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_run |= entry.name in SIGNS
                if entry.name in FILES or (entry.name.startswith("eval-") and entry.name.endswith((".json", ".npz"))):
                    status = entry.stat()
                    stamps[entry.name] = [status.st_size, status.st_mtime_ns]
    except OSError:  # no folder, or removed meanwhile
        return None
    return stamps if is_run else None


def mark_of(stamps: Stamps) -> str:
    """Hash of ``stamps``."""
    return digest(sorted(stamps.items()), 24)


class ResultsCache:
    """Plain data by kind, name of the run and mark of its files, for the runs ``names`` of one results directory."""

    def __init__(self, root: Path, names: Collection[str], progress: Progress | None = None) -> None:
        self._names, self._progress = frozenset([*names, ALL]), progress
        self.changed = False
        """Whether an entry is new or was modified in place."""
        place = str(root.resolve())
        code = [hash_of_code(Path(__file__).parents[1]), *(installed(name) for name in ("numpy", "pydantic"))]
        self._about = digest([place, *code])
        self._file = cache_root() / f"results-{digest(place, 16)}.json"

    @cached_property
    def _entries(self) -> dict[str, list[Any]]:
        """``KIND/NAME`` -> [mark, data]; empty if the file is damaged or of other code."""
        try:
            about, entries = json.loads(self._file.read_bytes())
            return dict(entries) if about == self._about else {}
        except (OSError, ValueError, TypeError, RecursionError):
            return {}

    def get(self, kind: str, name: str, mark: str) -> Any:
        """Data of the entry; None if there is none for these files."""
        entry = self._entries.get(f"{kind}/{name}")
        return entry[1] if entry and entry[0] == mark else None

    def keep(self, kind: str, name: str, mark: str, make: Callable[[], Found]) -> Found:
        """Data of the entry, else ``make()``, whose value must stay the same after a trip through JSON.

        The value is not kept if a damaged file was skipped, so that every command warns about the file.
        """
        found = self.get(kind, name, mark)
        if found is None:
            before = len(skipped)
            found = make()
            if found is not None and len(skipped) == before:
                self._entries[f"{kind}/{name}"] = [mark, found]
                self.changed = True
        return found

    def save(self) -> None:
        """Write the file if an entry changed."""
        if self.changed:
            kept = {key: entry for key, entry in self._entries.items() if key.partition("/")[2] in self._names}
            text = json.dumps([self._about, kept]).encode()
            try:
                write_atomic(self._file, lambda file: file.write(text))
                keep_newest(self._file.parent.glob("results-*.json"), STORES)
            except OSError as error:
                log.debug("runs are not cached: %s", error)
            self.changed = False

    @contextmanager
    def filling(self, total: int, missing: int, label: str) -> Iterator[Callable[..., None]]:
        """Save at the end, even of an interrupted command; show progress if many of ``total`` runs are ``missing``."""
        try:
            if self._progress is None or missing < LEAST:
                yield lambda *_, **__: None
            else:
                with self._progress(total=total, label=label, unit="runs") as report:
                    yield report
        finally:
            self.save()
