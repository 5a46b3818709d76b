"""Tables of the page: cells as text, values to sort by, and the runs of every row."""

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
from skelbench.reporting.table import Cell, Column, Table, is_number

FIRST = "linear"


@dataclass(frozen=True)
class PageTable:
    """One table of the page. A row is a pair: a dict per shown column, and the places of its runs in the page's list.

    ``own``: some number in it was measured here.
    """

    name: str
    title: str
    columns: list[Column]
    sections: list[tuple[str, list[tuple[list[dict[str, Any]], list[int]]]]]
    table: Table
    own: bool

    @property
    def rows(self) -> list[tuple[list[dict[str, Any]], list[int]]]:
        return [row for _, rows in self.sections for row in rows]


@dataclass
class Built:
    """The tables of the host, and the error of each table that could not be made."""

    tables: dict[str, Table] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    also_shown: dict[str, set[str]] = field(default_factory=dict)
    """Runs with changed settings that a table shows nevertheless, by table."""


def build(inputs: TableInputs, names: Iterable[str] | None = None) -> Built:
    """Every table of the host that has rows, ``linear`` first, except the tables that count models; ``names``: these
    tables only. A table that fails takes no other with it."""
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
    """Names of the tables that count models of every method, which takes minutes: they are made only when named."""
    return sorted(one.name for one in host.all("tables") if _counts(one))


def _counts(descriptor: Any) -> bool:
    return isinstance(descriptor, TableSpec) and descriptor.counts


def _build(inputs: TableInputs, descriptor: Any, built: Built) -> None:
    host = inputs.host
    name = descriptor.name
    significance, also_shown = inputs.significance, inputs.also_shown
    try:
        make = host.load(descriptor)
        # Paired tests for each of its columns take minutes, and the page does not show their letters.
        inputs.significance = significance and not isinstance(make, ColumnTable)
        table = host.checked(descriptor, make(inputs), Table, "skelbench.reporting.table.Table")
        table = inputs.filters.narrowed(table, name)
    except Exception as error:  # a plugin's code or a damaged record: the other tables are shown
        built.failed[name] = plain(one_line(error))
        return
    finally:
        more = set(inputs.also_shown) - set(also_shown)
        inputs.significance, inputs.also_shown = significance, also_shown
    if table.rows:
        built.tables[name] = table
        if more:
            built.also_shown[name] = more


def lay_out(name: str, table: Table, index: Mapping[str, int], printed: PrintedNumbers) -> PageTable:
    """``table``, which the host calls ``name``; ``index``: place of every run of the page by its name."""
    columns = [column for column in table.shown if column.key != "run"]

    def cell(row: Mapping[str, Cell], column: Column) -> dict[str, Any]:
        found = row[column.key]
        value = found.value
        return {
            "text": column.text(value) or "–",
            "spread": column.spread(found),
            "sort": "" if value is None else value,
            "mark": found.mark or "",
            "letters": table.markers(found.footnotes),
            "published": found.published and value is not None,
            "source": printed.source(name, row, found) if found.published else "",
        }

    sections = [
        (text, [([cell(row, column) for column in columns], runs_of(row, index)) for row in rows])
        for text, rows in table.sections
    ]
    measured = any(is_number(cell.value) and not cell.published for row in table.rows for cell in row.values())
    own = measured or any(runs_of(row, index) for row in table.rows)
    return PageTable(name, table.title, columns, sections, table, own)


def runs_of(row: Mapping[str, Cell], index: Mapping[str, int]) -> list[int]:
    """Places of the runs that the cell ``run`` of a row names, several with commas between."""
    names = str(row["run"].value or "").split(", ") if "run" in row else []
    return [index[name] for name in names if name in index]


class PrintedNumbers:
    """Published numbers by value, to say where the number of a cell is printed."""

    def __init__(self, host: Host) -> None:
        self._found: dict[float, list[tuple[str, published.Figure]]] = {}
        for name, numbers in published.tables(host).items():
            for number in numbers:
                self._found.setdefault(number["value"], []).append((name, number))

    def fitting(self, table: str, row: Mapping[str, Cell], cell: Cell) -> list[published.Figure]:
        """The numbers that a published cell of ``row`` may show: equal to its value and printed for a method that the
        row names, or in the published table of the same name."""
        if not is_number(cell.value):
            return []
        texts = (str(other.value).partition(":")[0] for other in row.values() if isinstance(other.value, str))
        methods = {published.slug(text) for text in texts}
        return [
            number
            for name, number in self._found.get(float(cell.value or 0), [])
            if published.slug(number["method"]) in methods or name.replace("_", "-").endswith(table)
        ]

    def source(self, table: str, row: Mapping[str, Cell], cell: Cell) -> str:
        """Sources of these numbers with their notes."""
        found = self.fitting(table, row, cell)
        lines = (": ".join(filter(None, (number["source"], number["note"]))) for number in found)
        return "; ".join([*dict.fromkeys(filter(None, lines))][:3])

    def data(self, table: str, row: Mapping[str, Cell], cell: Cell) -> list[tuple[str, str]]:
        """(data set, split) that these numbers are printed for."""
        return [*dict.fromkeys((number["dataset"], number["split"]) for number in self.fitting(table, row, cell))]
