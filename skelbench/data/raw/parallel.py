"""The same work on many items by several processes, results in order, a bounded number of them waiting."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from skelbench.core.errors import SkelbenchError
from skelbench.core.malloc import keep_freed_memory
from skelbench.core.signals import ENDINGS, handle_signals

T = TypeVar("T")
R = TypeVar("R")
AHEAD = 4
"""Chunks per process that are under way or wait for their turn."""
KEPT_BYTES = 64 << 20
"""Memory of arrays up to this size stays with the process: as new pages it is a fifth of the work on a file."""


def in_order(
    work: Callable[[T], R], items: Sequence[T], workers: int, chunk: int = 8, name: Callable[[T], str] = str
) -> Generator[R, None, None]:
    """``map(work, items)`` by ``workers`` processes (1 = this one), ``chunk`` items at a time.

    ``work`` must be importable and its results picklable; an exception it raises is raised here. What a process that
    was killed worked on is done once more; :class:`SkelbenchError` says its ``name`` if that is killed as well. Who may
    be interrupted closes the generator (``contextlib.closing``): the processes end with it.
    """
    if workers == 1 or len(items) <= chunk:
        yield from map(work, items)
        return
    parts = [slice(first, first + chunk) for first in range(0, len(items), chunk)]
    crew = _Crew(workers, partial(_answer, work, items, parts), len(parts))
    try:
        for part in range(len(parts)):
            if (lost := crew.wait_for(part)) is not None:
                names = dict.fromkeys(name(items[parts[lost]][end]) for end in (0, -1))
                raise SkelbenchError(
                    f"a worker process ended unexpectedly, and so did the one that did its work again, on "
                    f"{' to '.join(names)}, perhaps for want of memory; try again with fewer --workers"
                )
            error, results = crew.done.pop(part)
            if error is not None:
                raise error
            yield from results
    finally:
        # Not SIG_IGN: Python complains of a signal that came just before that was set.
        with handle_signals(lambda *_: None):
            for worker in crew.workers:
                worker.end()


class _Crew:
    """Processes that share nothing, each at the end of a pipe of its own: one that is killed, whenever it is, takes no
    lock along, and its pipe says so."""

    def __init__(self, size: int, answer: Callable[[int], bytes], parts: int) -> None:
        self.size, self.answer, self.open = size, answer, deque(range(parts))
        self.workers: list[_Worker] = []
        self.lost: set[int] = set()
        self.done: dict[int, Any] = {}

    def wait_for(self, part: int) -> int | None:
        """Until ``part`` is done; returns one whose worker was killed for the second time."""
        while True:
            self.hand_out(part + AHEAD * self.size)
            for pipe in wait([worker.pipe for worker in self.workers], 0 if part in self.done else None):
                worker = next(worker for worker in self.workers if worker.pipe is pipe)
                try:
                    answer = worker.pipe.recv_bytes()
                except (EOFError, OSError):  # killed, perhaps in the middle of an answer
                    self.workers.remove(worker)
                    worker.end()
                    if worker.parts and worker.parts[0] in self.lost:
                        return worker.parts[0]
                    self.lost.update(list(worker.parts)[:1])
                    self.open.extendleft(reversed(worker.parts))
                else:
                    self.done[worker.parts.popleft()] = pickle.loads(answer)
            if part in self.done:
                return None

    def hand_out(self, end: int) -> None:
        """Parts before ``end`` to those without one, then a second each, to begin with while results are used here."""
        for most in 1, 2:
            for place in range(self.size):
                if not self.open or self.open[0] >= end:
                    return
                if place == len(self.workers):
                    self.workers.append(_Worker(self.answer, [worker.pipe for worker in self.workers]))
                if len(self.workers[place].parts) < most:
                    self.workers[place].begin(self.open.popleft())


class _Worker:
    """A process, this end of its pipe, and the parts it has to do, the one it works on first."""

    def __init__(self, answer: Callable[[int], bytes], others: list[Connection]) -> None:
        # A fork costs nothing and inherits what is loaded; elsewhere than on Linux it is not safe.
        fork = sys.platform == "linux"
        context: Any = multiprocessing.get_context("fork" if fork else "spawn")
        self.parts: deque[int] = deque()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)  # until it has handlers of its own
        try:
            self.pipe, its = context.Pipe()
            inherited = [self.pipe, *others] if fork else []
            self.process = context.Process(target=_serve, args=(its, answer, inherited), daemon=True)
            self.process.start()
            its.close()
        except OSError as error:
            raise SkelbenchError(f"cannot start a worker process: {error}; try again with fewer --workers") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def begin(self, part: int) -> None:
        self.parts.append(part)
        with suppress(OSError):  # it was killed, which reading says as well
            self.pipe.send(part)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, answer: Callable[[int], bytes], inherited: list[Connection]) -> None:
    """Answer until the other end is gone, however that came. Signals are for the parent; SIGTERM ends this process."""
    for other in inherited:  # or no end would ever be the last
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
    keep_freed_memory(KEPT_BYTES)
    with suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(answer(pipe.recv()))


def _answer(work: Callable[[T], R], items: Sequence[T], parts: Sequence[slice], part: int) -> bytes:
    """The pickled exception, or None, and results."""
    try:
        return pickle.dumps((None, [work(item) for item in items[parts[part]]]), -1)
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        try:
            return pickle.dumps((error, []), -1)
        except Exception:
            return pickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), []), -1)
