"""Terminal output: two rich consoles, error messages, tables that survive a pipe, progress.

Text from files (classes, clips, runs, plugins, errors) is shown unchanged: no markup, no emoji, no control characters.
:func:`styled` puts colored text together.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from skelbench.core.text import plain, printable

styled = Text.assemble
"""Text of strings and pairs of string and style: ``styled(("error:", "bold red"), " it stopped")``."""


WIDTH = 120
"""Width of tables without a terminal."""


class WordConsole(Console):
    """A console that shows strings unchanged: no markup, no emoji, no control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class PipeConsole(WordConsole):
    """A console that does not fold sentences in a file or a pipe; tables there are :data:`WIDTH` columns wide."""

    def print(self, *objects: Any, **options: Any) -> None:
        if self.is_terminal or "width" in options:
            super().print(*objects, **options)
        elif all(isinstance(item, str | Text) for item in objects):
            super().print(*objects, **{"soft_wrap": True, **options})
        else:
            WordConsole(file=self.file, width=WIDTH).print(*objects, **options)


out = PipeConsole()
"""Results."""
err = PipeConsole(stderr=True)
"""Progress, notes and errors."""


@contextmanager
def results_alone() -> Iterator[None]:
    """Send prints of plugins to stderr: programs read the results on stdout."""
    before, out.file = out._file, sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        out._file = before


INTERVAL_S = 10.0
"""Time between two progress lines without a terminal."""

AGAIN = " (run again with --debug for the traceback)"
"""End of a message about an exception."""

LEFT_OUT = 3
"""Exit code: done, but a part was skipped or is wrong."""


def fail(message: str, code: int = 2) -> int:
    """Print ``error: message`` on stderr, on one line, unwrapped, and return ``code`` for the exit."""
    err.print(styled(("error:", "bold red"), f" {plain(message)}"))
    return code


class _Terminal(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        err.print(plain(self.format(record)))


def log_to_terminal() -> None:
    """Print warnings of this package's loggers on stderr."""
    logger = logging.getLogger("skelbench")
    if not any(isinstance(handler, _Terminal) for handler in logger.handlers):
        logger.addHandler(_Terminal(logging.WARNING))


SHORT = 20
"""Longest cell that a table does not break, in characters."""


def make_table(columns: Sequence[str], rows: Sequence[Sequence[Any]] = (), title: str | None = None) -> Table:
    """Return a table with right-aligned numbers. Short cells stay on one line if the table then fits the terminal."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    cells = [[row[i] for row in rows if row[i] not in ("", None)] for i in range(len(columns))]
    widths = [max((len(str(value)) for value in values), default=0) for values in cells]
    short = [0 < width <= SHORT and len(name) <= width + 2 for name, width in zip(columns, widths, strict=True)]
    needed = sum(3 + (width if whole else 10) for width, whole in zip(widths, short, strict=True))
    for name, values, whole in zip(columns, cells, short, strict=True):
        right = bool(values) and all(isinstance(value, int | float) for value in values)
        justify: Any = "right" if right else "left"
        table.add_column(plain(name), justify=justify, overflow="fold", no_wrap=whole and needed <= out.width)
    for row in rows:
        table.add_row(*("" if value is None else plain(value) for value in row))
    return table


def print_facts(facts: Iterable[tuple[str, Any]], title: str | None = None) -> None:
    """Print names and values, one pair per line, without empty values; nothing if all are empty."""
    grid = Table.grid(padding=(0, 2))
    grid.title, grid.title_justify = title, "left"
    for name, value in facts:
        if value not in (None, "", (), [], {}):
            grid.add_row(styled((plain(name), "bold")), plain(value))
    if grid.row_count:
        out.print(grid)


@contextmanager
def progress(
    total: float | None = None, label: str = "", unit: str = "it", console: Console | None = None
) -> Iterator[Callable[..., None]]:
    """Show progress on stderr: ``with progress(total, label, unit) as report: report(advance, loss=0.3)``.

    A bar with rate and time left on a terminal, else plain lines. Fields keep their last value; ``total=`` in a report
    replaces the total, ``note=`` prints a message at once. In a distributed run only ``RANK`` 0 prints. The first
    report with an advance counts as earlier work, so a resumed run shows the rate of this process.
    """
    console = console or err
    meter = _Meter(total, unit)
    if os.environ.get("RANK", "0") != "0":
        yield meter.add
    elif console.is_terminal and not console.is_jupyter:
        yield from _bar(meter, label, console)
    else:
        yield from _lines(meter, label, console)


@contextmanager
def late_progress(label: str, unit: str) -> Iterator[Callable[..., None]]:
    """Show progress of work that reports its total: ``as report: report(done, total, left_out)``.

    The bar appears with the first report, when all processes have been forked.
    """
    with ExitStack() as stack:
        step = None

        def report(_: int, total: int, left_out: int = 0) -> None:
            nonlocal step
            step = step or stack.enter_context(progress(total, label, unit))
            step(1, **({"left_out": left_out} if left_out else {}))

        yield report


class _Meter:
    """Amount of work done, its rate, and the latest fields."""

    def __init__(self, total: float | None, unit: str) -> None:
        self.total, self.unit, self.done = total, unit, 0.0
        self.fields: dict[str, Any] = {}
        self._first: tuple[float, float] | None = None

    def add(self, advance: float = 1, *, total: float | None = None, **fields: Any) -> None:
        self.done += advance
        self.total = total or self.total
        self.fields.update(fields)
        if advance:  # a note does not start the clock
            self._first = self._first or (time.monotonic(), self.done)

    @property
    def facts(self) -> str:
        """``312.5 clips/s, ETA 12 s, loss=3.21`` as far as known."""
        parts = [f"{name}={_number(value)}" for name, value in self.fields.items()]
        if self._first and self.done > self._first[1] and (seconds := time.monotonic() - self._first[0]) > 0:
            rate = (self.done - self._first[1]) / seconds
            if self.total and self.done < self.total:
                parts.insert(0, f"ETA {duration((self.total - self.done) / rate)}")
            parts.insert(0, f"{_number(rate)} {self.unit}/s")
        return ", ".join(parts)


def _bar(meter: _Meter, label: str, console: Console) -> Iterator[Callable[..., None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    name, facts = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[facts]}"))
    columns = name, BarColumn(), MofNCompleteColumn(), facts
    with Progress(*columns, console=console, refresh_per_second=4) as bar:
        task = bar.add_task(plain(label), total=meter.total, facts="")

        def report(advance: float = 1, note: str | None = None, **fields: Any) -> None:
            meter.add(advance, **fields)
            if note:
                console.print(styled((plain(note), "bold yellow")))
            bar.update(task, completed=meter.done, total=meter.total, facts=plain(meter.facts))

        yield report


def _lines(meter: _Meter, label: str, console: Console) -> Iterator[Callable[..., None]]:
    """Print a progress line at intervals."""
    last_time, last_done = time.monotonic(), 0.0
    prefix = f"{plain(label)}: " if label else ""

    def show() -> None:
        nonlocal last_time, last_done
        last_time, last_done = time.monotonic(), meter.done
        count = f"{_number(meter.done)}/{_number(meter.total)}" if meter.total else _number(meter.done)
        percent = f" ({100 * meter.done / meter.total:.0f} %)" if meter.total else ""
        console.print(prefix + plain(", ".join(filter(None, (f"{count} {meter.unit}{percent}", meter.facts)))))

    def report(advance: float = 1, note: str | None = None, **fields: Any) -> None:
        meter.add(advance, **fields)
        if note:
            console.print(styled((prefix + plain(note), "bold yellow")))
        if time.monotonic() - last_time >= INTERVAL_S:
            show()

    yield report
    if meter.done != last_done:
        show()


def duration(seconds: float) -> str:
    """``7 s``, ``13 min``, ``1 h 05 min``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def _number(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
