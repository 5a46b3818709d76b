"""A :class:`~skelbench.reporting.table.Table` on a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skelbench.core.text import plain
from skelbench.reporting.table import Cell, Column, Table, below, shown_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as RichTable
    from rich.text import Text


LINES = 4
"""Lines below a table."""


class Terminal:
    """A rich renderable of a table. The least important columns are hidden until the others fit the console, unless
    ``whole``; no number is cut. At most :data:`LINES` lines of notes are below it; with ``notes`` all notes."""

    def __init__(self, table: Table, whole: bool = False, notes: bool = True, hint: str = "") -> None:
        """``hint``: option that shows hidden columns, ``--wide``."""
        self.table, self.whole, self.notes, self.hint = table, whole, notes, hint

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.padding import Padding
        from rich.text import Text

        width, table = options.max_width, self.table
        fit = table.rows and not self.whole
        columns, hidden = self.columns_for(width) if fit else (list(table.shown), [])
        narrowed = Terminal(table.narrowed(columns))
        yield Text(table.title, style="bold")
        if table.common:
            yield Text(table.common, style="dim")
        yield Text()
        if table.rows:
            yield Padding(narrowed._grid((), header=True), (0, 0, 0, 1), expand=False)
            for heading, rows in narrowed.table.sections:
                if heading:
                    yield Text(f" {plain(heading)}", style="italic")
                yield Padding(narrowed._grid(rows, header=False), (0, 0, 0, 1), expand=False)
            yield Text()
        texts = [f"({mark}) {text}" if mark else text for mark, text in below(replace(narrowed.table, common=""))]
        left, more = LINES - 1, ""
        for text in texts:
            lines = len(Text(text).wrap(console, width))
            if self.notes or lines <= left:
                left -= lines
                yield Text(text, style="dim")
            else:
                more = f"More notes: {self.hint.removesuffix('--wide')}--notes."
        names = [column.header for column in hidden]
        for count in range(len(names), 0, -1):
            rest = f" and {len(names) - count} more" if count < len(names) else ""
            line = (
                f"Hidden{self.hint and f' ({self.hint} shows all)'}: {', '.join(names[:count])}{rest}. {more}".strip()
            )
            if len(line) <= width:
                break
        if hidden or more:
            yield Text(line if hidden else more, style="dim")

    def columns_for(self, room: int) -> tuple[list[Column], list[Column]]:
        """The columns that fit next to each other, and the others: first method and headline, then what an option asked
        for, other leading columns, the rest from the left. A column may fit without its intervals."""
        columns = self.table.shown
        leading = [column for column in columns if column.leads] or list(columns[:1])
        filled = {column.key for column in columns if any(row[column.key].value is not None for row in self.table.rows)}
        headline = next((column for column in columns if column.best and column.key in filled), None)

        def importance(column: Column) -> tuple[Any, ...]:
            named = column is leading[0] or column is headline
            last = column.key not in filled, column.minor, columns.index(column)
            return not named, not column.asked, column not in leading, *last

        chosen, width_used = dict[str, Column](), 0
        for column in sorted(columns, key=importance):
            for candidate in (column, replace(column, bare=True)):
                width = 2 + self._width(candidate)
                if not chosen or column is headline or width_used + width <= room:
                    chosen[column.key] = candidate
                    width_used += width
                    break
        keys = [column.key for column in columns if column.key in chosen]
        return [chosen[key] for key in keys], [column for column in columns if column.key not in chosen]

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

        grid = RichTable(box=box.SIMPLE_HEAD, show_edge=False, show_header=header, padding=(0, 1, 0, 0))
        for column in self.table.shown:
            style = "dim italic" if column.published else "bold"
            header_text, width = Text(self._header(column)), self._width(column)
            grid.add_column(header_text, header_style=style, width=width, overflow="fold")
            grid.columns[-1].justify = "right" if self.table.numeric(column) else "left"
        for row in rows:
            grid.add_row(*(self._cell(column, row[column.key]) for column in self.table.shown))
        return grid


def in_lines(table: Table, width: int, whole: bool = False) -> str:
    """The text for a terminal of this width; ``whole``: with all columns."""
    from skelbench.core.console import WordConsole

    terminal, out = Terminal(table, whole), io.StringIO()
    full = sum(terminal._width(column) + 2 for column in table.shown) if whole else 0
    WordConsole(file=out, width=max(width, full), force_jupyter=False).print(terminal)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
