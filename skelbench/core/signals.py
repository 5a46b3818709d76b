"""Signal handlers for the length of a block."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import Any

ENDINGS = (signal.SIGINT, signal.SIGTERM)
"""Signals of Ctrl-C, ``kill`` and schedulers."""
WARNINGS = tuple(number for name in ("SIGUSR2",) if (number := getattr(signal, name, None)) is not None)
"""Signal that a scheduler sends before it takes a machine away (``sbatch --signal=USR2@120``); NCCL uses SIGUSR1. Empty
on systems without it."""
AGAIN_LATER = 75
"""Exit code of a command that was warned and has saved its state: issue it again (EX_TEMPFAIL in sysexits.h)."""
_warned = Event()


def several() -> bool:
    """Whether this process was started as one of several processes of a run, as ``torchrun`` does."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def handle_signals(
    handler: Callable[[int, FrameType | None], Any], numbers: Sequence[int] = ENDINGS
) -> Iterator[dict[int, Any]]:
    """Call ``handler(number, frame)`` for these signals; yields the mutable mapping of handlers to restore.

    Signals reach only the main thread: in other threads nothing changes.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers} if main else {}
    try:
        yield before
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def stop_requested() -> Iterator[Event]:
    """Set the yielded event on SIGINT, SIGTERM, SIGHUP and SIGUSR2, so that work can save its state first.

    A second signal of a kind ends the process as usual, except for SIGUSR2, which a script may forward twice. An
    ignored SIGHUP (nohup) stays ignored. In a distributed run signals after the first, or after an error, change
    nothing: each process gets a Ctrl-C twice, from the terminal and from ``torchrun``, which kills the rest after 30 s.
    """
    event, numbers = Event(), [*ENDINGS, *WARNINGS]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def stop(number: int, _frame: FrameType | None) -> None:
        event.set()
        if number in WARNINGS:
            _warned.set()
        elif not several():
            signal.signal(number, before[number])

    with handle_signals(stop, numbers) as before:
        try:
            yield event
        except BaseException:
            event.set()
            raise
        finally:
            if several() and event.is_set():
                before.clear()


@contextmanager
def warnings_heeded() -> Iterator[Event]:
    """Raise KeyboardInterrupt on a warning, unless :func:`stop_requested` handles it; yields the event of a warning."""
    _warned.clear()

    def end(_number: int, _frame: FrameType | None) -> None:
        if not _warned.is_set():  # a second warning would interrupt the saving
            _warned.set()
            raise KeyboardInterrupt

    with handle_signals(end, WARNINGS):
        yield _warned
