"""Handlers of signals for the length of a block."""

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
"""Ctrl-C, and what ``kill`` and schedulers send."""
WARNINGS = tuple(number for name in ("SIGUSR2",) if (number := getattr(signal, name, None)) is not None)
"""What a scheduler is told to send (``sbatch --signal=USR2@120``) before it takes a machine away: not SIGUSR1, which
NCCL takes. Empty on a system without it."""
AGAIN_LATER = 75
"""Exit code of a command that was warned and has saved its state: issue it again (EX_TEMPFAIL of sysexits.h)."""
_warned = Event()


def several() -> bool:
    """Whether this process was started as one of several of a run, as ``torchrun`` does."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def handle_signals(
    handler: Callable[[int, FrameType | None], Any], numbers: Sequence[int] = ENDINGS
) -> Iterator[dict[int, Any]]:
    """Call ``handler(number, frame)`` for these signals; yields the handlers that come back at the end, to be changed.

    Signals reach the main thread only: in any other nothing is handled.
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
    """SIGINT, SIGTERM, SIGHUP and the warning SIGUSR2 set the event instead of ending the process, so that work can
    save its state first; a second one of a kind ends the process as usual, but for the warning, which may come from the
    scheduler and through a script. A SIGHUP that is ignored (nohup) stays ignored.

    Of several processes of a run each hears a Ctrl-C twice, from the terminal and from ``torchrun``, which also sends
    SIGTERM to the others as soon as one has ended: there a later signal, behind the block as well, changes nothing once
    the event is set (``torchrun`` kills what has not ended after 30 s).
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
        finally:
            if several() and event.is_set():
                before.clear()


@contextmanager
def warnings_heeded() -> Iterator[Event]:
    """Within, a warning ends what goes on as Ctrl-C does, or as :func:`stop_requested` has it end; yields whether one
    came."""
    _warned.clear()

    def end(_number: int, _frame: FrameType | None) -> None:
        if not _warned.is_set():  # a second one would break off what the first set going
            _warned.set()
            raise KeyboardInterrupt

    with handle_signals(end, WARNINGS):
        yield _warned
