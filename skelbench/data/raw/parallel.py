"""Reading many raw files in several processes, results in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from threading import Thread
from typing import TypeVar

from skelbench.core.errors import SkelbenchError

T = TypeVar("T")
R = TypeVar("R")


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
        raise SkelbenchError("a worker process was killed, perhaps for want of memory; try fewer --workers") from error
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
