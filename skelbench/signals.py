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
    """SIGINT, SIGTERM and SIGHUP set the event instead of ending the process, so that work can save its state first; a
    second one of a kind ends the process as usual. A SIGHUP that is ignored (nohup) stays ignored.

    Of several processes of a run each hears a Ctrl-C twice, from the terminal and from ``torchrun``, which also sends
    SIGTERM to the others as soon as one has ended: there a later signal, behind the block as well, changes nothing once
    the event is set (``torchrun`` kills what has not ended after 30 s).
    """
    event, numbers = Event(), list(ENDINGS)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def stop(number: int, _frame: FrameType | None) -> None:
        event.set()
        if not several():
            signal.signal(number, before[number])

    with handle_signals(stop, numbers) as before:
        try:
            yield event
        finally:
            if several() and event.is_set():
                before.clear()
