"""Terminal output: two rich consoles, one-sentence failures, tables that survive a pipe, progress.

Words from files (classes, clips, runs, plugins, errors) are shown as they stand: a console takes no string for markup
or emoji, and no character of it steers the terminal. What is to be coloured is put together by :func:`styled`.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from html import escape
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from skelbench.core.text import plain, printable

styled = Text.assemble
"""Text of strings and pairs of string and style: ``styled(("error:", "bold red"), " it stopped")``."""


class WordConsole(Console):
    """A console to which strings are words: no markup, no emoji, nothing that steers the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class PipeConsole(WordConsole):
    """A console that neither cuts nor folds what goes to a file or a pipe: text stays on its line, tables get the
    width they need."""

    def page(self, text: str) -> None:
        """Show ``text``, with ANSI styles, in the terminal's pager (``PAGER``).

        less scrolls long lines sideways, and ends by itself where one screen is enough.
        """
        os.environ.setdefault("LESS", "-FRSX")
        with self.pager(styles=True):
            self.print(Text.from_ansi(text), soft_wrap=True)

    def print(self, *objects: Any, **options: Any) -> None:
        if self.is_terminal or "width" in options:
            super().print(*objects, **options)
        elif all(isinstance(item, str | Text) for item in objects):
            super().print(*objects, **{"soft_wrap": True, **options})
        else:
            endless = self.options.update(width=10_000, max_width=10_000)
            measured = [item for item in objects if hasattr(item, "__rich_measure__") and not isinstance(item, Text)]
            widths = [Measurement.get(self, endless, item).maximum for item in measured]
            wide = WordConsole(file=self.file, width=max(100, self.width, *widths))
            wide.print(*objects, **options)


out = PipeConsole()
"""Results."""
err = PipeConsole(stderr=True)
"""Progress, notes and errors."""


@contextmanager
def results_alone() -> Iterator[None]:
    """What is printed past :data:`out`, by a plugin, goes to stderr: a program reads what is on stdout."""
    before, out.file = out._file, sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        out._file = before


INTERVAL_S = 10.0
"""Without a terminal: a progress line at least this often ..."""
SHARE = 0.1
"""... and whenever this share of the work is done, but not more than once in MIN_INTERVAL_S."""
MIN_INTERVAL_S = 1.0

AGAIN = " (run again with --debug for the traceback)"
"""Behind what was raised."""

NOTEBOOK_INTERVAL_S = 0.25
LEFT_OUT = 3
"""Exit code: done, but something was left out, or is wrong, that should not be."""


def fail(message: str, code: int = 2) -> int:
    """Print ``error: message`` on stderr, on one line, unwrapped, and return ``code`` for the exit."""
    err.print(styled(("error:", "bold red"), f" {plain(message)}"))
    return code


class _Terminal(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        err.print(plain(self.format(record)))


def log_to_terminal() -> None:
    """Warnings of this package's loggers are notes on stderr, in words that a terminal can show."""
    logger = logging.getLogger("skelbench")
    if not any(isinstance(handler, _Terminal) for handler in logger.handlers):
        logger.addHandler(_Terminal(logging.WARNING))


def _wide(cell: str) -> int:
    return len(cell) if cell.isascii() else cell_len(cell)


class WordTable(Table):
    """A table of strings, laid out line by line where all of it fits: cell by cell, a thousand runs take seconds."""

    _found: tuple[int, list[int] | None] = (-1, None)

    def _widths(self) -> list[int] | None:
        """Of the columns, for as many rows as there are by now; None where rich has to look at every cell."""
        if self._found[0] != len(self.rows):
            self._found = len(self.rows), self._widths_now()
        return self._found[1]

    def _widths_now(self) -> list[int] | None:
        cells = [[column.header, *column.cells] for column in self.columns]
        if not self.rows or not all(isinstance(cell, str) and "\t" not in cell for held in cells for cell in held):
            return None
        return [max(map(_wide, held)) for held in cells]  # type: ignore[arg-type]

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        if (widths := self._widths()) is None:
            return super().__rich_measure__(console, options)
        width = sum(widths) + 3 * len(widths) - 1
        return Measurement(width, width).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths()
        width = sum(widths) + 3 * len(widths) - 1 if widths else 0
        if widths is None or width > options.max_width or options.ascii_only or self.title:
            yield from super().__rich_console__(console, options)
            return
        right = [column.justify == "right" for column in self.columns]

        def line(cells: Sequence[Any]) -> str:
            filled = (
                " " * (wide - _wide(cell)) + cell if flush else cell + " " * (wide - _wide(cell))
                for cell, wide, flush in zip(cells, widths, right, strict=True)
            )
            return f" {'   '.join(filled)} "

        blank = Segment(" " * width + "\n")
        yield blank
        yield Segment(line([column.header for column in self.columns]), console.get_style("table.header"))
        yield Segment(f"\n {'─' * (width - 2)} \n")
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            yield Segment(line(cells) + "\n")
        yield blank


def make_table(columns: Sequence[str], rows: Sequence[Sequence[Any]] = (), title: str | None = None) -> Table:
    """A table in the house style; numbers are right-aligned."""
    table = WordTable(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        held = [row[index] for row in rows if row[index] not in ("", None)]
        right = bool(held) and all(isinstance(value, int | float) for value in held)
        table.add_column(plain(column), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*("" if value is None else plain(value) for value in row))
    return table


def print_facts(facts: Sequence[tuple[str, Any]], title: str | None = None) -> None:
    """Names and values, one pair per line; empty values are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.title, grid.title_justify = title, "left"
    for name, value in facts:
        if value not in (None, "", (), [], {}):
            grid.add_row(styled((plain(name), "bold")), plain(value))
    out.print(grid)


@contextmanager
def progress(
    total: float | None = None, label: str = "", unit: str = "it", console: Console | None = None
) -> Iterator[Callable[..., None]]:
    """Show progress on stderr: ``with progress(total, label, unit) as report: report(advance, loss=0.3)``.

    A bar with rate and time left on a terminal, else plain lines. Fields keep their last value; ``total=`` in a report
    replaces the total, ``note=`` says a sentence at once. Of several processes of one run (``RANK``) the first speaks.
    The first report of any counts as work done before, so that the rate of a resumed run is that of this process.
    """
    console = console or err
    meter = _Meter(total, unit)
    if os.environ.get("RANK", "0") != "0":
        yield meter.add
    elif console.is_jupyter:
        yield from _notebook(meter, label)
    elif console.is_terminal:
        yield from _bar(meter, label, console)
    else:
        yield from _lines(meter, label, console)


@contextmanager
def late_progress(label: str, unit: str) -> Iterator[Callable[..., None]]:
    """Progress of work that says its total as it goes: ``with late_progress(...) as report: report(done, total)``.

    One report per unit, with what was left out so far as a third number if that is known. The bar appears with the
    first: what has to be found out before has been by then, and processes have been forked.
    """
    with ExitStack() as stack:
        step = None

        def report(_: int, total: int, left_out: int = 0) -> None:
            nonlocal step
            step = step or stack.enter_context(progress(total, label, unit))
            step(1, **({"left_out": left_out} if left_out else {}))

        yield report


class _Meter:
    """How much is done, how fast, and what was last said about it."""

    def __init__(self, total: float | None, unit: str) -> None:
        self.total, self.unit, self.done = total, unit, 0.0
        self.fields: dict[str, Any] = {}
        self._first: tuple[float, float] | None = None

    def add(self, advance: float = 1, *, total: float | None = None, **fields: Any) -> None:
        self.done += advance
        self.total = total or self.total
        self.fields.update(fields)
        if advance:  # a note beforehand says nothing of when what it counts began
            self._first = self._first or (time.monotonic(), self.done)

    @property
    def rate(self) -> float | None:
        """Units per second since the first report of any."""
        if self._first is None or self.done <= self._first[1]:
            return None
        seconds = time.monotonic() - self._first[0]
        return (self.done - self._first[1]) / seconds if seconds > 0 else None

    @property
    def facts(self) -> str:
        """``312.5 clips/s, ETA 0:12, loss=3.21`` as far as known."""
        rate, parts = self.rate, []
        if rate:
            parts.append(f"{_number(rate)} {self.unit}/s")
            if self.total and self.done < self.total:
                parts.append(f"ETA {duration((self.total - self.done) / rate)}")
        parts += [f"{name}={_number(value)}" for name, value in self.fields.items()]
        return ", ".join(parts)


def _bar(meter: _Meter, label: str, console: Console) -> Iterator[Callable[..., None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    what, facts = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[facts]}"))
    columns = what, BarColumn(), MofNCompleteColumn(), facts
    with Progress(*columns, console=console, refresh_per_second=4) as bar:
        task = bar.add_task(plain(label), total=meter.total, facts="")

        def report(advance: float = 1, note: str | None = None, **fields: Any) -> None:
            meter.add(advance, **fields)
            if note:
                _say_note(note, console)
            bar.update(task, completed=meter.done, total=meter.total, facts=plain(meter.facts))

        yield report


def _notebook(meter: _Meter, label: str) -> Iterator[Callable[..., None]]:
    """One output of a notebook's cell that is replaced as work goes on, at most four times a second."""
    from IPython.display import display  # where this is called it is installed

    shown: Any = None
    said_at = 0.0

    def show() -> None:
        nonlocal shown, said_at
        said_at = time.monotonic()
        count = _number(meter.done) + (f"/{_number(meter.total)}" if meter.total else "")
        text = ", ".join(filter(None, (f"{label}: {count} {meter.unit}".removeprefix(": "), meter.facts)))
        state = f' value="{meter.done}" max="{meter.total}"' if meter.total else ""
        both = {"text/plain": plain(text), "text/html": f"<progress{state}></progress> {escape(plain(text))}"}
        if shown is None:
            shown = display(both, raw=True, display_id=True)
        else:
            shown.update(both, raw=True)

    def report(advance: float = 1, note: str | None = None, **fields: Any) -> None:
        meter.add(advance, **fields)
        if note:
            display({"text/plain": plain(note), "text/html": f"<b>{escape(plain(note))}</b>"}, raw=True)
        if time.monotonic() - said_at >= NOTEBOOK_INTERVAL_S:
            show()

    show()
    try:
        yield report
    finally:
        show()


def _lines(meter: _Meter, label: str, console: Console) -> Iterator[Callable[..., None]]:
    said_at, said_done = time.monotonic(), 0.0

    def say() -> None:
        nonlocal said_at, said_done
        said_at, said_done = time.monotonic(), meter.done
        count = _number(meter.done)
        if meter.total:
            count = f"{count}/{_number(meter.total)} {meter.unit} ({100 * meter.done / meter.total:.0f} %)"
        else:
            count = f"{count} {meter.unit}"
        line = ", ".join(filter(None, (count, meter.facts)))
        console.print(plain(f"{label}: {line}" if label else line))

    def report(advance: float = 1, note: str | None = None, **fields: Any) -> None:
        meter.add(advance, **fields)
        if note:
            _say_note(f"{label}: {note}" if label else note, console)
        waited = time.monotonic() - said_at
        enough = meter.total is not None and 0 < SHARE * meter.total <= meter.done - said_done
        if waited >= INTERVAL_S or (enough and waited >= MIN_INTERVAL_S):
            say()

    yield report
    if meter.done != said_done:
        say()


def _say_note(text: str, console: Console) -> None:
    """Something to know at once, above the bar."""
    console.print(styled((plain(text), "bold yellow")))


def duration(seconds: float) -> str:
    """``0:07``, ``12:30``, ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _number(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
