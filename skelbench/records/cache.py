"""Cache of what tables read from the files of runs: hundreds of runs take long to read.

It lies in the user's cache folder, one file for each results directory. An entry holds while size and time of the run's
files stay the same. The file may be deleted at any time.
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
from skelbench.core.threads import uncollected
from skelbench.core.user_config import cache_root
from skelbench.core.version import installed

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
log = logging.getLogger(__name__)


class Stamps:
    """Size and time of the last change in ns of the files of a run."""

    __slots__ = ("_files", "mark")

    def __init__(self, files: dict[str, list[int]]) -> None:
        self._files = files
        self.mark = digest(sorted(files.items()), 24)

    def of(self, name: str) -> list[int]:
        """Size and time of one file; empty if there is none."""
        return self._files.get(name, [])


def scan(folder: str) -> Stamps | None:
    """Stamps of the files of a run; None for a folder that is no run."""
    files, is_run = {}, False
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_run |= entry.name in SIGNS
                if entry.name in FILES or (entry.name.startswith("eval-") and entry.name.endswith((".json", ".npz"))):
                    status = entry.stat()
                    files[entry.name] = [status.st_size, status.st_mtime_ns]
    except OSError:  # no folder, or removed meanwhile
        return None
    return Stamps(files) if is_run else None


class ResultsCache:
    """Plain data by kind, name of the run and mark of its files, for the runs ``names`` of one results directory."""

    def __init__(self, root: Path, names: Collection[str], progress: Progress | None = None) -> None:
        self._names, self._progress, self._changed = frozenset([*names, ALL]), progress, False
        place = str(root.resolve())
        code = [hash_of_code(Path(__file__).parents[1]), *(installed(name) for name in ("numpy", "pydantic"))]
        self._about = digest([place, *code])
        self._file = cache_root() / f"results-{digest(place, 16)}.json"

    @cached_property
    def _entries(self) -> dict[str, list[Any]]:
        """``KIND/NAME`` -> [mark, data]; empty if the file is damaged or of other code."""
        try:
            with uncollected():
                about, entries = json.loads(self._file.read_bytes())
                return dict(entries) if about == self._about else {}
        except (OSError, ValueError, TypeError, RecursionError):
            return {}

    def get(self, kind: str, name: str, mark: str) -> Any:
        """Data of the entry; None if there is none for these files."""
        entry = self._entries.get(f"{kind}/{name}")
        return entry[1] if entry and entry[0] == mark else None

    def put(self, kind: str, name: str, mark: str, data: Any) -> None:
        """Keep ``data``, which must be the same after a trip through JSON."""
        self._entries[f"{kind}/{name}"] = [mark, data]
        self._changed = True

    def modified(self) -> None:
        """Say that data of an entry were modified in place."""
        self._changed = True

    def save(self) -> None:
        """Write the file if an entry is new."""
        if self._changed:
            kept = {key: entry for key, entry in self._entries.items() if key.partition("/")[2] in self._names}
            text = json.dumps([self._about, kept]).encode()
            try:
                write_atomic(self._file, lambda file: file.write(text))
                keep_newest(self._file.parent.glob("results-*.json"), STORES)
            except OSError as error:
                log.debug("runs are not cached: %s", error)
            self._changed = False

    @contextmanager
    def filling(self, total: int, missing: int, label: str) -> Iterator[Callable[..., None]]:
        """Save at the end, even of an interrupted command; show progress over ``total`` runs if many are
        ``missing``."""
        try:
            if self._progress is None or missing < LEAST:
                yield lambda *_, **__: None
            else:
                with self._progress(total=total, label=label, unit="runs") as report:
                    yield report
        finally:
            self.save()
