"""One table object for every output format: cells with raw numbers, marks and footnotes; columns know the digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.text import plain

Value = float | int | str | bool | None
Mark = Literal["best", "second"]
T_OF_TWO = 12.706204736432095
"""Half a 95 % t interval of two values / half their distance."""


@dataclass(frozen=True)
class Cell:
    """One value. ``None`` = not available."""

    value: Value = None
    plus_minus: float | None = None
    """Half of an interval around the value, in the value's unit; a note of the table names the kind of interval."""
    interval: tuple[float, float] | None = None
    """Lower and upper limit in the value's unit."""
    plus_minus_over: str = ""
    """Source of variation in ``plus_minus``: ``3 seeds``, ``5 label subsets``. In CSV and JSON."""
    interval_over: str = ""
    """Source of variation in ``interval``: ``400 clips``, ``20 subjects``. In CSV and JSON."""
    mark: Mark | None = None
    footnotes: tuple[str, ...] = ()
    """Keys of the table's ``footnotes``."""
    published: bool = False
    """Taken from a paper, not measured here."""

    def __post_init__(self) -> None:
        for name in ("value", "plus_minus"):
            object.__setattr__(self, name, _plain(getattr(self, name)))
        if self.interval is not None:
            object.__setattr__(self, "interval", tuple(_plain(limit) for limit in self.interval))


@dataclass(frozen=True)
class Column:
    """``key`` names the column in data formats, ``header`` for readers, ``format`` is a format spec of numbers."""

    key: str
    header: str
    format: str = ""
    best: Literal["max", "min"] | None = None
    """Whether high or low values are better; ``None`` = no ranking."""
    published: bool = False
    """Every cell of the column is a published result."""
    shown: bool | Literal["varies", "filled"] = True
    """False: in CSV and JSON only. The table builder shows a ``varies`` column if rows differ in it, else a note has
    the common value; a ``filled`` column if a cell has a value."""
    footnotes: tuple[str, ...] = ()
    leads: bool = False
    """Whether it only identifies rows: a narrow terminal hides it after most others."""
    beside: tuple[Literal["pm", "interval", "published"], ...] = ()
    """Parts of a cell that always have a column in CSV; other parts have one if some cell has the part."""
    minor: bool = False
    """A narrow terminal hides it first."""
    asked: bool = False
    """An option asked for it: a narrow terminal hides it after all but the first leading column and the headline."""
    heads: bool = False
    """Its values are printed as headings above the rows that share them; a column in CSV and JSON only."""
    headed: str = ""
    """Text before a value in such a heading: ``"preset "``."""
    bare: bool = False
    """Whether readers see only the values; CSV and JSON also have spread and interval."""
    names: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Value -> text for readers: ``slim`` -> ``SLiM``."""

    def text(self, value: Value) -> str:
        """``value`` as readers see it; "" for ``None``."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str):
            return self.names.get(value, value)
        long = self.format.endswith("g") and abs(value) >= 999.5  # which "g" gives an exponent
        text = format(value, ",.0f" if long else self.format)
        if not text.strip("-0.,%"):  # no sign if it rounds to zero
            text = text.replace("-", "+" if "+" in self.format else "")
        return text

    def spread(self, cell: Cell) -> str:
        """Interval as text, printed behind the value of ``cell``: `` ± 1.2`` over seeds, `` (0.4, 3.1)`` for two seeds,
        `` [0.4, 3.1]`` over clips or subjects; "" = none."""
        if self.bare or (cell.plus_minus is None and cell.interval is None):
            return ""
        if cell.plus_minus is None or not isinstance(cell.value, int | float):
            return " [{}, {}]".format(*map(self.text, cell.interval or ()))
        if cell.plus_minus_over == "2 seeds":
            half = cell.plus_minus / T_OF_TWO
            return f" ({self.text(cell.value - half)}, {self.text(cell.value + half)})"
        return f" ± {self.text(cell.plus_minus).lstrip('+')}"


@dataclass(frozen=True)
class Table:
    """Rows of cells by column key. Bare values in ``rows`` become cells; missing keys become empty cells."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    """The most important column is first: a narrow terminal hides the last ones."""
    footnotes: Mapping[str, str] = field(default_factory=dict)
    """Key -> text, shown below the table in this order, with the marks a, b, c ..."""
    common: str = ""
    """Settings that all rows share: a terminal shows them above the rows."""
    name: str = ""
    """Name of ``compare --table``; LaTeX labels the table by it, or by its title."""

    def __post_init__(self) -> None:
        keys = [column.key for column in self.columns]
        if len(set(keys)) != len(keys):
            raise ValueError(f"table {self.title!r} has two columns of one key: {keys}")
        keys_known, published = set(keys), {column.key for column in self.columns if column.published}
        self._known(note for column in self.columns for note in column.footnotes)
        rows = []
        for row in self.rows:
            if unknown := sorted(set(row) - keys_known):
                raise ValueError(f"table {self.title!r} has no column {', '.join(unknown)}")
            cells = {key: value if isinstance(value := row.get(key), Cell) else Cell(value) for key in keys}
            for cell in cells.values():
                if cell.footnotes:
                    self._known(cell.footnotes)
            for key in published:
                if not cells[key].published:
                    cells[key] = replace(cells[key], published=True)
            rows.append(cells)
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(rows))
        object.__setattr__(self, "notes", tuple(self.notes))

    def _known(self, notes: Iterable[str]) -> None:
        if missing := [note for note in notes if note not in self.footnotes]:
            raise ValueError(f"table {self.title!r} has no footnote {missing[0]!r}")

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns readers see."""
        return tuple(column for column in self.columns if column.shown and not column.heads)

    @property
    def sections(self) -> list[tuple[str, list[Mapping[str, Cell]]]]:
        """The rows in order, grouped below the heading that readers see; "" = no heading."""
        columns = sorted(
            (column for column in self.columns if column.heads and column.shown), key=lambda c: not c.headed
        )

        def heading(row: Mapping[str, Cell]) -> str:
            texts = ((column, column.text(row[column.key].value).removesuffix("+")) for column in columns)
            return ", ".join(f"{column.headed}{text}" for column, text in texts if text)

        return [(text, list(rows)) for text, rows in groupby(self.rows, heading)]

    def markers(self, notes: Sequence[str]) -> str:
        """The letters readers see for footnotes: "a,c"."""
        return ",".join(_letters(list(self.footnotes).index(key)) for key in notes)

    def values(self, key: str) -> list[Value]:
        """Raw values of a column."""
        if not any(column.key == key for column in self.columns):
            raise SkelbenchError(f"table {self.title!r} has no column {key!r}")
        return [row[key].value for row in self.rows]

    def numeric(self, column: Column) -> bool:
        """Whether ``column`` shows numbers."""
        values = [value for value in self.values(column.key) if value is not None]
        return bool(values) and not any(isinstance(value, str) for value in values)

    def narrowed(self, columns: Sequence[Column]) -> Table:
        """Return the same rows with ``columns`` only, in their order, and the headings; used footnotes start at a."""
        columns_kept = (*(column for column in self.columns if column.heads and column not in columns), *columns)
        rows = tuple({column.key: row[column.key] for column in columns_kept} for row in self.rows)
        used = {note for column in columns for note in column.footnotes} | {*footnotes_of(rows, self.footnotes)}
        footnotes = {key: text for key, text in self.footnotes.items() if key in used}
        return replace(self, columns=columns_kept, rows=rows, footnotes=footnotes)

    def ranked(
        self, within: Sequence[str] | Callable[[Mapping[str, Cell]], Any] = (), keys: Collection[str] | None = None
    ) -> Table:
        """The same table with best and second-best marks in columns with a better end, or only in the columns
        ``keys``. Rows compete if they agree in the columns ``within``, or if the function ``within`` returns the same
        value for them; published cells do not compete. Values that are printed the same share a rank; a single value is
        not ranked."""
        rows = [dict(row) for row in self.rows]
        block = within if callable(within) else lambda row: tuple(row[key].value for key in within)
        groups: dict[Any, list[dict[str, Cell]]] = {}
        for row in rows:
            groups.setdefault(block(row), []).append(row)
        for column in self.columns:
            if column.best is not None and (keys is None or column.key in keys):
                for group in groups.values():
                    _rank(column, group)
        return replace(self, rows=tuple(rows))


def _letters(number: int) -> str:
    """a to z, then aa, ab ..."""
    return (_letters(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def footnotes_of(rows: Iterable[Mapping[str, Any]], texts: Mapping[str, str]) -> dict[str, str]:
    """The footnotes among ``texts`` that cells of ``rows`` have."""
    used = {note for row in rows for cell in row.values() if isinstance(cell, Cell) for note in cell.footnotes}
    return {note: text for note, text in texts.items() if note in used}


def _rank(column: Column, rows: Iterable[dict[str, Cell]]) -> None:
    own = [row for row in rows if not row[column.key].published and is_number(row[column.key].value)]
    texts: dict[str, Any] = {column.text(row[column.key].value): row[column.key].value for row in own}
    if len(texts) < 2:
        return
    order = sorted(texts, key=texts.__getitem__, reverse=column.best == "max")
    marks: dict[str, Mark] = {order[0]: "best", order[1]: "second"}
    for row in own:
        row[column.key] = replace(row[column.key], mark=marks.get(column.text(row[column.key].value)))


def is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: Any) -> Value:
    """A Python scalar; numpy's scalars are unpacked, NaN and NaT become ``None``."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    raise TypeError(f"a cell holds a number, a text, a bool or None, not {type(value).__name__}")


def shown_text(column: Column, cell: Cell) -> str:
    """Value with spread and interval, without marks."""
    return (plain(column.text(cell.value)) or "–") + column.spread(cell)


def below(table: Table) -> list[tuple[str, str]]:
    """(mark or "", text) of everything below the table."""
    footnotes = [(table.markers([key]), text) for key, text in table.footnotes.items()]
    notes = [note for note in (table.common, *table.notes) if note]
    return (footnotes if table.rows else []) + [("", note) for note in notes]


def column_named(table: Table, name: str, option: str) -> Column:
    """The column with this key or header; SkelbenchError with the nearest key if there is none."""
    for column in table.columns:
        if name.lower() in (column.key.lower(), column.header.lower()):
            return column
    raise SkelbenchError(f"{option}: {did_you_mean(name, [column.key for column in table.columns], 'column')}")


def sorted_by(table: Table, name: str) -> Table:
    """Sort ``table`` by one column, ascending, or descending with ``-`` before the name; rows without a value are last.
    Headings become a column, because sorting separates rows that share one."""
    key = column_named(table, name.removeprefix("-"), "--sort").key

    def order(row: Mapping[str, Cell]) -> tuple[bool, float, str]:
        """Sort key: numbers before text; text by the number at its beginning, as in ``8x25`` and ``30x25``."""
        value = row[key].value
        if isinstance(value, str):
            digits = value[: len(value) - len(value.lstrip("0123456789"))]
            return True, float(digits) if digits else float("inf"), value
        return False, float(value or 0), ""

    filled = sorted((row for row in table.rows if row[key].value is not None), key=order, reverse=name.startswith("-"))
    empty = [row for row in table.rows if row[key].value is None]
    columns = tuple(replace(column, heads=False) for column in table.columns)
    return replace(table, columns=columns, rows=(*filled, *empty))


def with_columns(table: Table, names: Sequence[str]) -> Table:
    """Return ``table`` with only these columns, in this order, in every format; if all names begin with ``+``, they are
    added to the shown columns."""
    named = (column_named(table, name.removeprefix("+"), "--columns") for name in names)
    chosen = {column.key: column for column in named}
    if all(name.startswith("+") for name in names):
        more = (
            replace(column, shown=True, asked=True, heads=False) if column.key in chosen else column
            for column in table.columns
        )
        return replace(table, columns=tuple(more))
    unheaded = replace(table, columns=tuple(replace(column, heads=False) for column in table.columns))
    return unheaded.narrowed([replace(column, shown=True, heads=False) for column in chosen.values()])
