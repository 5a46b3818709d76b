"""Tables as the page lays them out: text for readers, raw values to sort by, runs behind every row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skelbench.core.text import plain
from skelbench.plugin.descriptors import TableSpec
from skelbench.plugin.host import Host
from skelbench.plugin.status import one_line
from skelbench.reporting import published
from skelbench.reporting.columns import ColumnTable
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.page.provenance import Provenance
from skelbench.reporting.table import Cell, Column, Table, is_number

FIRST = "linear"


@dataclass(frozen=True)
class LaidCell:
    """One cell of the page."""

    text: str
    extra: str
    """Spread and interval."""
    sort: float | str | None
    mark: str
    letters: str
    published: bool
    origin: str
    """Which recorded figure it is, or where it is printed."""
    data: str = ""
    """Of a published figure the data it is printed for."""


@dataclass(frozen=True)
class LaidRow:
    """One row of the page."""

    cells: list[LaidCell]
    runs: list[int]
    """Places of its runs in the page's list."""


@dataclass(frozen=True)
class LaidTable:
    """One table of the page."""

    name: str
    title: str
    columns: list[dict[str, Any]]
    sections: list[tuple[str, list[LaidRow]]]
    footnotes: list[tuple[str, str]]
    """(mark, text)."""
    notes: list[str]
    own: bool
    """Some number in it was measured here."""

    @property
    def rows(self) -> int:
        return sum(len(rows) for _, rows in self.sections)


@dataclass
class Built:
    """The tables of the host, and those that could not be made with the reason."""

    tables: dict[str, Table] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    also_shown: dict[str, set[str]] = field(default_factory=dict)
    """Of tables that show runs with changed settings, which."""


def build(inputs: TableInputs, names: Iterable[str] | None = None) -> Built:
    """Every table of the host that has rows, ``linear`` first, but those that count models; ``names``: these alone. A
    plugin's table that fails takes nothing with it."""
    host, built = inputs.host, Built()
    wanted = sorted(host.names("tables") if names is None else names, key=lambda name: (name != FIRST, name))
    found = [host.get("tables", name) for name in wanted]
    found = [one for one in found if names is not None or not _counts(one)]
    with inputs.track(total=len(found), label="tables", unit="tables") as report:
        for descriptor in found:
            _build(inputs, descriptor, built)
            report(1)
    return built


def uncounted(host: Host) -> list[str]:
    """Names of the tables that count models of every method, which takes minutes: they have to be asked for."""
    return sorted(host.name(one) for one in host.all("tables") if _counts(one))


def _counts(descriptor: Any) -> bool:
    return isinstance(descriptor, TableSpec) and descriptor.counts


def _build(inputs: TableInputs, descriptor: Any, built: Built) -> None:
    host = inputs.host
    name = host.name(descriptor)
    asked, also_shown = inputs.significance, inputs.also_shown
    try:
        make = host.load(descriptor)
        # Tests of all pairs for each of its columns take minutes, and the page has no room for their letters.
        inputs.significance = asked and not isinstance(make, ColumnTable)
        table = host.checked(descriptor, make(inputs), Table, "skelbench.reporting.table.Table")
        table = inputs.filters.narrowed(table, name)
    except Exception as error:  # a stranger's code, or a damaged record: the rest of the page is as ever
        built.failed[name] = plain(one_line(error))
        return
    finally:
        more = set(inputs.also_shown) - set(also_shown)
        inputs.significance, inputs.also_shown = asked, also_shown  # the next table does not show them
    if table.rows:
        built.tables[name] = table
        if more:
            built.also_shown[name] = more


class Layout:
    """Lays tables out for the page."""

    def __init__(self, known: Provenance, host: Host) -> None:
        self._known, self._printed = known, _Printed(host)

    def __call__(self, name: str, table: Table) -> LaidTable:
        """``table``, which the host calls ``name``."""
        shown = table.shown
        columns = [
            {
                "key": column.key,
                "header": plain(column.header),
                "letters": table.markers(column.footnotes),
                "numeric": table.numeric(column),
                "published": column.published,
            }
            for column in shown
        ]
        sections = [(plain(text), [self._row(name, table, row) for row in rows]) for text, rows in table.sections]
        footnotes = [(table.markers([key]), plain(text)) for key, text in table.footnotes.items()]
        notes = list(map(plain, table.notes))
        cells = [cell for row in table.rows for cell in row.values()]
        own = any(row.runs for _, rows in sections for row in rows)
        own = own or any(is_number(cell.value) and not cell.published for cell in cells)
        return LaidTable(name, plain(table.title), columns, sections, footnotes, notes, own)

    def _row(self, name: str, table: Table, row: Mapping[str, Cell]) -> LaidRow:
        runs = self._known.places(row["run"].value) if "run" in row else []

        def origin(key: str, cell: Cell) -> tuple[str, str]:
            if cell.published:
                return self._printed.where(name, row, cell)
            return self._known.origin(runs, key, cell), ""

        cells = [_cell(table, column, row[column.key], *origin(column.key, row[column.key])) for column in table.shown]
        return LaidRow(cells, runs)


def _cell(table: Table, column: Column, cell: Cell, origin: str, data: str) -> LaidCell:
    value = cell.value
    return LaidCell(
        text=plain(column.text(value)) or "–",
        extra=column.spread(cell),
        sort=float(value) if isinstance(value, int | float) else None if value is None else plain(value),
        mark=cell.mark or "",
        letters=table.markers(cell.footnotes),
        published=cell.published and value is not None,
        origin=origin,
        data=data,
    )


class _Printed:
    """Published figures by value, to say where a cell is printed."""

    def __init__(self, host: Host) -> None:
        self._found: dict[float, list[tuple[str, published.Figure]]] = {}
        for name, figures in published.tables(host).items():
            for figure in figures:
                self._found.setdefault(figure["value"], []).append((name, figure))

    def where(self, table: str, row: Mapping[str, Cell], cell: Cell) -> tuple[str, str]:
        """Sources with their notes, and data sets with their splits, of the figures that a cell of ``row`` may be: of
        its value and its row's method, or of the published table of the same name."""
        if not is_number(cell.value):
            return "", ""
        words = (str(other.value).partition(":")[0] for other in row.values() if isinstance(other.value, str))
        said = {published.slug(word) for word in words}
        fitting = [
            figure
            for name, figure in self._found.get(float(cell.value or 0), [])
            if published.slug(figure["method"]) in said or name.replace("_", "-").endswith(table)
        ]
        lines = (": ".join(filter(None, (figure["source"], figure["note"]))) for figure in fitting)
        places = (" ".join(filter(None, (figure["dataset"], figure["split"]))) for figure in fitting)
        sources = [*dict.fromkeys(filter(None, lines))][:3]
        return plain("; ".join(sources)), plain(", ".join(dict.fromkeys(filter(None, places))))
