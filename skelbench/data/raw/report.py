"""Shared steps of preparing a dataset from its raw files."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from skelbench.core.errors import SkelbenchError
from skelbench.data.raw.files import RawFile
from skelbench.data.store.clip_store import Skipped
from skelbench.data.store.writer import Clip, StoreWriter
from skelbench.views.skeleton.topology import NTU25

T = TypeVar("T")
R = TypeVar("R")
Progress = Callable[[int, int, int], None]
"""Called with items done, all items, and clips skipped unexpectedly."""
Converted = tuple[Sequence[Clip | Skipped], Mapping[str, int]]
"""Clips of a raw file, or reasons why there are none, and counts that are summed up in the store's details."""


@dataclass
class Report:
    """Result of preparing a dataset."""

    path: Path
    """The store."""
    clips: int = 0
    unexpected: list[tuple[str, str]] = field(default_factory=list)
    """Name and reason of everything that was skipped unexpectedly."""
    notes: list[str] = field(default_factory=list)
    """Notes on files that were skipped on purpose, and on missing files."""

    def ignore(self, files: Sequence[RawFile], label: str) -> None:
        """Note files that are skipped on purpose."""
        if files:
            some = ", ".join(file.name for file in files[:3]) + (", ..." if len(files) > 3 else "")
            self.notes.append(f"{label} ignored: {len(files):,} ({some})")

    def store(
        self,
        items: Sequence[T],
        convert: Callable[[T], Converted],
        label: str,
        *,
        workers: int,
        chunksize: int,
        progress: Progress | None,
        skipped: Iterable[Skipped] = (),
        **settings: Any,
    ) -> StoreWriter:
        """Store what ``items`` are converted to by ``workers`` processes; return the closed writer.

        ``label``: "files" or "videos". ``settings``: arguments of :class:`StoreWriter`. Raises if there is no clip.
        """
        batches = in_order(convert, items, workers, chunksize)
        with StoreWriter(self.path, topology=NTU25, **settings) as writer, closing(batches):
            for number, (results, counts) in enumerate(batches, start=1):
                for result in results:
                    if isinstance(result, Clip):
                        writer.add_clip(result)
                    elif result.expected:
                        writer.skipped.append(result)
                    else:
                        self.unexpected.append((result.name, result.reason))
                for key, count in counts.items():
                    writer.details[key] = writer.details.get(key, 0) + count
                if progress is not None:
                    progress(number, len(items), len(self.unexpected))
            self.clips = len(writer.names)
            writer.skipped += [*(Skipped(name=name, reason=reason) for name, reason in self.unexpected), *skipped]
            for name in writer.drop_empty_splits():
                self.notes.append(f"the split {name} is skipped: these {label} lack its training or test clips")
        return writer


def in_order(work: Callable[[T], R], items: Sequence[T], workers: int, chunksize: int = 8) -> Generator[R, None, None]:
    """Yield ``work(item)`` for every item, computed by ``workers`` processes (1 = this process).

    ``work`` must be importable and its results picklable. Close the generator to end the processes early.

    Raises:
        SkelbenchError: a worker process was killed.
    """
    if workers == 1 or len(items) <= chunksize:
        yield from map(work, items)
        return
    pool = ProcessPoolExecutor(workers, initializer=_start_worker)
    try:
        yield from pool.map(work, items, chunksize=chunksize)
    except BrokenProcessPool as error:
        raise SkelbenchError("a worker process was killed, perhaps out of memory; try fewer --workers") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    """Leave Ctrl-C and SIGTERM to the parent process, and end together with it, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None  # a worker has one
    wait([parent.sentinel])
    os._exit(1)
