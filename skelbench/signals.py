"""Signals that ask a process to stop: they set an event, so that work can save its state first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """SIGINT, SIGTERM and SIGHUP set the event instead of ending the process; a second one of a kind ends it as usual.

    A SIGHUP that is ignored (nohup) stays ignored. Outside the main thread, where Python takes no signals, the event
    is never set.
    """
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        before[signal.SIGHUP] = signal.getsignal(signal.SIGHUP)

    def handler(number: int, _frame: FrameType | None) -> None:
        event.set()
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, handler)
    try:
        yield event
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
