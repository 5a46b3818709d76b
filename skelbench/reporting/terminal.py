"""A :class:`~skelbench.reporting.table.Table` on a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from skelbench.core.text import plain
from skelbench.reporting.table import Cell, Column, Table, below, shown_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement
    from rich.table import Table as RichTable
    from rich.text import Text


class Terminal:
    """A rich renderable of a table with its notes. A number is never cut.

    On a terminal the least important columns are hidden until the others fit, and a line names them. Files and pipes
    get all columns in lines as long as necessary, as does a terminal with ``whole``.
    """

    def __init__(self, table: Table, whole: bool = False, hint: str = "") -> None:
        """``hint``: how to see hidden columns."""
        self.table, self.whole, self.hint = table, whole, hint

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.constrain import Constrain
        from rich.padding import Padding
        from rich.text import Text

        room = None if self.whole or not options.is_terminal else options.max_width
        columns, hidden = self.columns_for(room) if room and self.table.rows else (list(self.table.shown), [])
        narrowed = Terminal(self.table.narrowed(columns))
        yield Text(self.table.title, style="bold")
        yield Text()
        if self.table.rows:
            yield Padding(narrowed._grid((), header=True), (0, 1))
            for heading, rows in narrowed.table.sections:
                if heading:
                    yield Text(f" {plain(heading)}", style="italic")
                yield Padding(narrowed._grid(rows, header=False), (0, 1))
            yield Text()
        if hidden:
            names = ", ".join(column.header for column in hidden)
            yield Text(f"Hidden (terminal too narrow): {names}.{self.hint and f' {self.hint}'}", style="dim")
        for mark, text in below(narrowed.table):
            yield Constrain(Text(f"({mark}) {text}" if mark else text, style="dim"), max(100, console.width))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        if options.is_terminal and not self.whole:
            return Measurement(options.max_width, options.max_width)
        width = 1 + sum(self._width(column) + 3 for column in self.table.shown)
        return Measurement(width, width)

    def columns_for(self, room: int) -> tuple[list[Column], list[Column]]:
        """The columns that fit next to each other, and the others.

        The first leading column and the headline are kept first, then what an option asked for, other leading columns,
        and the rest from the left; minor and empty columns go first.
        """
        columns = self.table.shown
        leading = [column for column in columns if column.leads] or list(columns[:1])
        filled = {column.key for column in columns if any(row[column.key].value is not None for row in self.table.rows)}
        headline = next((column for column in columns if column.best and column.key in filled), None)

        def importance(column: Column) -> tuple[Any, ...]:
            named = column is leading[0] or column is headline
            last = column.key not in filled, column.minor, column.best is None, columns.index(column)
            return not named, not column.asked, column not in leading, *last

        chosen, width_used = list[Column](), 1
        for column in sorted(columns, key=importance):
            width = 3 + self._width(column)
            if not chosen or column is headline or width_used + width <= room:
                chosen.append(column)
                width_used += width
        return [column for column in columns if column in chosen], [
            column for column in columns if column not in chosen
        ]

    def _width(self, column: Column) -> int:
        """Least width in which no cell and no word of the header is broken."""
        words = map(len, self._header(column).split())
        return max(1, *words, *(self._cell(column, row[column.key]).cell_len for row in self.table.rows))

    def _header(self, column: Column) -> str:
        return column.header + (f" ({self.table.markers(column.footnotes)})" if column.footnotes else "")

    def _cell(self, column: Column, cell: Cell) -> Text:
        from rich.text import Text

        style = {"best": "bold", "second": "underline", None: ""}[cell.mark] + (" dim italic" if cell.published else "")
        text = Text().append(shown_text(column, cell), style=style.strip())
        return text.append(f" ({self.table.markers(cell.footnotes)})") if cell.footnotes else text

    def _grid(self, rows: Iterable[Mapping[str, Cell]], header: bool) -> RichTable:
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        grid = RichTable(box=box.SIMPLE_HEAD, show_edge=False, show_header=header)
        for column in self.table.shown:
            style = "dim italic" if column.published else "bold"
            header_text, width = Text(self._header(column)), self._width(column)
            grid.add_column(header_text, header_style=style, width=width, overflow="fold")
            grid.columns[-1].justify = "right" if self.table.numeric(column) else "left"
        for row in rows:
            grid.add_row(*(self._cell(column, row[column.key]) for column in self.table.shown))
        return grid


def in_lines(table: Table, width: int, whole: bool = False, styled: bool = False) -> str:
    """The text that a terminal of this width shows; ``whole``: with all columns, ``styled``: with ANSI styles."""
    from skelbench.core.console import WordConsole

    terminal, out = Terminal(table, whole), io.StringIO()
    colors = {"color_system": "standard" if styled else None, "force_terminal": True, "force_jupyter": False}
    console = WordConsole(file=out, width=width, **colors)
    if whole:
        console.width = max(width, terminal.__rich_measure__(console, console.options).maximum)
    console.print(terminal)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
