"""A :class:`~skelbench.reporting.table.Table` on a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from skelbench.core.text import plain
from skelbench.reporting.table import Cell, Column, Table, below, shown_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement
    from rich.table import Table as RichTable
    from rich.text import Text

Layout = Literal["fit", "blocks", "whole"]
"""See :class:`Terminal`."""
BROKEN = 16
"""Letters of a word that may have to be broken for want of room: the name of a variant."""


class Terminal:
    """A rich renderable of a table with its notes. A number is never cut.

    ``layout``: what happens to columns that do not fit beside each other. ``fit``: the least important are left out,
    and a line says which; the headline and the two columns that tell most rows apart stay, then what an option asked
    for, other columns that lead (all of these if need be broken), those in which rows are ranked, the others from the
    left, and what is empty last. Where what was asked for would go, brackets stand below their numbers. ``blocks``: all
    are shown, in blocks below each other, each led by the numbers of the rows and what tells them apart. ``whole``:
    lines are as long as they have to be, for files and pipes. None: ``fit`` on a terminal, else ``whole``.
    """

    def __init__(self, table: Table, layout: Layout | None = None, hint: str = "", stacked: bool = False) -> None:
        """``hint``: how to see the columns that are left out; ``stacked``: brackets stand below their numbers."""
        self.table, self.layout, self.hint, self.stacked = table, layout, hint, stacked

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.constrain import Constrain
        from rich.text import Text

        layout = self._layout(options)
        yield Text(self.table.title, style="bold")
        columns, out, stacked = list(self.table.shown), list[Column](), self.stacked
        if self.table.rows and layout == "fit":
            columns, out, stacked = self._fitted(options.max_width)
        seen = Terminal(self.table.narrowed(columns), stacked=stacked)
        if self.table.rows:
            blocks = [*seen._blocks(options.max_width)] if layout == "blocks" else [columns]
            for columns in blocks:
                yield from seen._grids(columns, options.max_width, numbered=len(blocks) > 1)
        else:
            yield Text()
        if out:
            names = ", ".join(f"`{column.header}`" for column in out)
            yield Text(f"No room for {names}{self.hint and f'; {self.hint}'}.", style="dim")
        for mark, text in below(seen.table):
            yield Constrain(Text(f"({mark}) {text}" if mark else text, style="dim"), max(100, console.width))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        if self._layout(options) != "whole":
            return Measurement(options.max_width, options.max_width)
        width = 1 + sum(self._width(column) + 3 for column in self.table.shown)
        return Measurement(width, width)

    def _layout(self, options: ConsoleOptions) -> Layout:
        return self.layout or ("fit" if options.is_terminal else "whole")

    def _leading(self) -> list[Column]:
        """Those that say so, or the text columns that begin the table."""
        leading = [column for column in self.table.shown if column.leads]
        for column in self.table.shown[:2] if not leading else ():
            if self.table.numeric(column):
                break
            leading.append(column)
        return leading

    def _telling(self) -> list[Column]:
        """Those that lead: the first, and then always the one that tells most rows apart which are alike so far."""
        order, rest = self._leading()[:1], self._leading()[1:]
        while rest:
            apart = [len({tuple(row[c.key].value for c in (*order, one)) for row in self.table.rows}) for one in rest]
            order.append(rest.pop(apart.index(max(apart))))
        return order

    def _fitted(self, room: int) -> tuple[list[Column], list[Column], bool]:
        """The columns for which there is room, the others, and whether brackets stand below their numbers for it."""
        beside = self.columns_for(room)
        if any(column.asked for column in beside[1]):
            below = Terminal(self.table, stacked=True).columns_for(room)
            if sum(column.asked for column in below[1]) < sum(column.asked for column in beside[1]):
                return *below, True
        return *beside, self.stacked

    def columns_for(self, room: int) -> tuple[list[Column], list[Column]]:
        """The columns for which there is room beside each other, and the others."""
        shown, leading, rows = self.table.shown, self._telling(), self.table.rows
        filled = {column.key for column in shown if any(row[column.key].value is not None for row in rows)}
        headline = next((one for one in shown if one.best and one.key in filled), None)

        def importance(column: Column) -> tuple[Any, ...]:
            needed = column in leading[:1] or column is headline
            place = leading.index(column) if column in leading else len(leading)
            return (
                not needed,
                column not in leading[:2],
                not column.asked,
                place,
                column.key not in filled,
                column.minor,
                column.best is None,
                shown.index(column),
            )

        chosen, taken, least = list[Column](), 1, 1
        for column in sorted(shown, key=importance):
            width = self._width(column) + 3
            narrow = self._narrow(column) + 3 if column in leading else width
            # What tells rows apart, the headline and what was asked for is had by breaking what tells rows apart.
            breaks = column in leading or column is headline or column.asked or taken > room
            if taken + width <= room or (breaks and least + narrow <= room) or not chosen:
                chosen.append(column)
                taken, least = taken + width, least + narrow
        return [column for column in shown if column in chosen], [column for column in shown if column not in chosen]

    def _blocks(self, width: int) -> Iterator[list[Column]]:
        leading, shown = self._leading(), self.table.shown
        if 1 + sum(self._width(column) + 3 for column in shown) <= width:
            yield list(shown)
            return
        block, numbers = list(leading), 3 + len(str(len(self.table.rows)))
        for column in (column for column in shown if column not in leading):
            taken = 1 + numbers + sum(self._width(c) + 3 for c in [*block, column])  # padding and separators
            if len(block) > len(leading) and taken > width:
                yield block
                block = list(leading)
            block.append(column)
        yield block

    def _width(self, column: Column) -> int:
        """Least width in which no cell and no word of the header is broken."""
        words = map(len, self._header(column).split())
        cells = (line.cell_len for row in self.table.rows for line in self._cell(column, row[column.key]).split())
        return max(*words, 1, *cells)

    def _narrow(self, column: Column) -> int:
        """Least width in which no word of it is broken, or only longer ones than ``BROKEN``."""
        cells = (self._cell(column, row[column.key]).plain for row in self.table.rows)
        longest = max(1, *(len(word) for text in (self._header(column), *cells) for word in text.split()))
        return min(longest, max(BROKEN, *map(len, self._header(column).split())))

    def _header(self, column: Column) -> str:
        return column.header + (f" ({self.table.markers(column.footnotes)})" if column.footnotes else "")

    def _cell(self, column: Column, cell: Cell) -> Text:
        from rich.text import Text

        style = {"best": "bold", "second": "underline", None: ""}[cell.mark] + (" dim italic" if cell.published else "")
        shown = shown_text(column, cell)
        if self.stacked and cell.interval is not None:
            shown = "\n[".join(shown.rsplit(" [", 1))
        text = Text().append(shown, style=style.strip())
        return text.append(f" ({self.table.markers(cell.footnotes)})") if cell.footnotes else text

    def _grids(self, columns: list[Column], room: int, numbered: bool = False) -> Iterator[RenderableType]:
        """One grid; or the header, and then a heading and a grid of the same widths for every section."""
        from rich.padding import Padding
        from rich.text import Text

        sections = self.table.sections
        if not any(heading for heading, _ in sections):
            yield self._grid(columns, self.table.rows, room, numbered=numbered)
            return
        yield Text()
        yield Padding(self._grid(columns, (), room, edge=False, numbered=numbered), (0, 1))
        first = 1
        for heading, rows in sections:
            yield Text(f" {plain(heading)}", style="italic")
            grid = self._grid(columns, rows, room, edge=False, header=False, numbered=numbered, first=first)
            yield Padding(grid, (0, 1))
            first += len(rows)
        yield Text()

    def _grid(
        self,
        columns: list[Column],
        rows: Iterable[Mapping[str, Cell]],
        room: int,
        edge: bool = True,
        header: bool = True,
        numbered: bool = False,
        first: int = 1,
    ) -> RichTable:
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        grid = RichTable(box=box.SIMPLE_HEAD, show_edge=edge, show_header=header)
        widths = [self._width(column) for column in columns]
        digits = len(str(len(self.table.rows)))
        over = 1 + sum(width + 3 for width in widths) + numbered * (digits + 3) - room
        leading = self._leading() if over > 0 else []
        for place in reversed([i for i, column in enumerate(columns) if column in leading]):  # the first names the row
            spare = min(over, widths[place] - self._narrow(columns[place]))
            widths[place] -= spare
            over -= spare
        if over > 0:  # a list of names, alone in its block: broken at spaces
            widths[-1] = max(10, widths[-1] - over)
        if numbered:
            grid.add_column("#", justify="right", width=digits)
        for column, width in zip(columns, widths):
            justify: Literal["left", "right"] = "right" if self.table.numeric(column) else "left"
            style = "dim italic" if column.published else "bold"
            grid.add_column(
                Text(self._header(column)), justify=justify, header_style=style, width=width, overflow="fold"
            )
        for number, row in enumerate(rows, first):
            cells = [self._cell(column, row[column.key]) for column in columns]
            grid.add_row(*([str(number)] if numbered else []), *cells)
        return grid


def in_lines(table: Table, width: int, layout: Layout) -> str:
    """What a terminal of so many columns shows, without colours."""
    from skelbench.core.console import WordConsole

    out = io.StringIO()
    plain_console = {"color_system": None, "force_terminal": False, "force_jupyter": False}
    WordConsole(file=out, width=width, **plain_console).print(Terminal(table, layout))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
