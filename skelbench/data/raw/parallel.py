"""The same work on many items by several processes, results in order, a bounded number of them waiting."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from skelbench.errors import SkelbenchError
from skelbench.signals import handle_signals

T = TypeVar("T")
R = TypeVar("R")
AHEAD = 4
"""Chunks per process that are under way or wait for their turn."""

GRACE_S = 2.0
"""What a process that gets SIGTERM leaves its parent to end everything in order."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_memory() -> None:
    """Have the C library keep what is freed, up to 64 MB, where it can be told to (glibc), in a process for this alone.

    Arrays of the size of a file otherwise come as new pages from the kernel every time, a fifth of the work on a file.
    """
    with suppress(AttributeError, OSError, TypeError):
        for threshold in _M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD:
            ctypes.CDLL(None).mallopt(threshold, 64 << 20)


def in_order(work: Callable[[T], R], items: Sequence[T], workers: int, chunk: int = 8) -> Generator[R, None, None]:
    """``map(work, items)`` by ``workers`` processes (1 = this one), ``chunk`` items at a time.

    ``work`` must be importable and its results picklable; an exception it raises is raised here. Who may be interrupted
    closes the generator (``contextlib.closing``): the processes end with it.
    """
    if workers == 1 or len(items) <= chunk:
        yield from map(work, items)
        return
    # A fork costs nothing and inherits what is loaded; elsewhere than on Linux it is not safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    chunks = (items[first : first + chunk] for first in range(0, len(items), chunk))
    pool = ProcessPoolExecutor(workers, context, _start, (os.getpid(),))
    try:
        waiting = deque(pool.submit(_do, work, part) for part in islice(chunks, AHEAD * workers))
        while waiting:
            yield from waiting.popleft().result()
            waiting.extend(pool.submit(_do, work, part) for part in islice(chunks, 1))
    except BrokenProcessPool:
        raise SkelbenchError(
            "a worker process ended unexpectedly, perhaps for want of memory; try again with fewer --workers"
        ) from None
    finally:
        # A pool whose shutdown is broken off waits for its processes for ever, and they for it. Not SIG_IGN: Python
        # complains of a signal that came just before that was set.
        with handle_signals(lambda *_: None):
            pool.shutdown(wait=True, cancel_futures=True)


def _do(work: Callable[[T], R], part: Sequence[T]) -> list[R]:
    return [work(item) for item in part]


def _start(parent: int) -> None:
    """Leave signals to the parent, and do not outlive it however it ends.

    SIGTERM may have gone to all processes; those that died of it at once would take the parent's queues along. Yet the
    pool ends by it what is left when one has died, so it works after a while.
    """

    def end_later(*_: object) -> None:
        timer = threading.Timer(GRACE_S, os._exit, (1,))
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end_later)
    keep_memory()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
