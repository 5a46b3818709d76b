"""Progress of a study: a line for each event, and the running trials below them on a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.console import Console

from skelbench.core.console import duration
from skelbench.core.text import plain

LINE_SECONDS = 30.0
"""Without a terminal: seconds between lines about running trials."""


class Display:
    """Print the events of a study of ``total`` trials; ``done`` trials were finished before."""

    def __init__(self, console: Console, name: str, total: int, done: int) -> None:
        self.console, self.name, self.total = console, name, total
        self.finished, self.failed = done, 0
        self._started = self._last_line = time.monotonic()
        self._running = console.status("") if console.is_terminal else None
        self._first: dict[str, float] = {}

    def __enter__(self) -> Display:
        if self._running:
            self._running.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._running:
            self._running.stop()

    def ended(self, title: str, outcome: str, failed: bool) -> None:
        """Count a trial that was made here and print its outcome."""
        self.failed += failed
        self.finished += not failed
        self.message(f"{title}: {outcome}")

    def refresh(self, running: Sequence[str], shares: Mapping[str, float]) -> None:
        """Show running trials; ``shares``: trial id -> fraction of its training that is done."""
        self._first = self._first or dict(shares)
        parts = [f"{self.finished}/{self.total} trials", f"{self.failed} failed" if self.failed else ""]
        progress = sum(shares.values()) - sum(self._first.values())
        if progress > 0:
            seconds_left = (len(shares) - sum(shares.values())) / progress * (time.monotonic() - self._started)
            parts.append(f"ETA {duration(seconds_left)}")
        text = ", ".join(filter(None, [*parts, "; ".join(running) or "waiting for another command"]))
        if self._running:
            self._running.update(plain(text))
        elif time.monotonic() - self._last_line >= LINE_SECONDS:
            self.message(text)

    def message(self, text: str) -> None:
        """Print one line."""
        self._last_line = time.monotonic()
        self.console.print(plain(f"{self.name}: {text}"), soft_wrap=True)
