"""The tables of the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from skelbench.core.text import plain
from skelbench.plugin.descriptors import TableSpec
from skelbench.plugin.host import Host
from skelbench.plugin.status import one_line
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.table import Table

FIRST = "linear"


def build(inputs: TableInputs, names: Iterable[str] | None = None) -> tuple[dict[str, Table], dict[str, str]]:
    """Return every table of the host that has rows, ``linear`` first, and the error of each table that failed.

    ``names``: these tables only; None = all except the tables that count models. Significance, which takes minutes, is
    shown by table ``linear`` only.
    """
    host, significance = inputs.host, inputs.significance
    table_names = sorted(host.names("tables") if names is None else names, key=lambda name: (name != FIRST, name))
    table_names = [name for name in table_names if names is not None or name not in uncounted(host)]
    tables, failed = dict[str, Table](), dict[str, str]()
    with inputs.track(total=len(table_names), label="tables", unit="tables") as report:
        for name in table_names:
            descriptor = host.get("tables", name)
            inputs.significance = significance and name == FIRST
            try:
                built = inputs.built(descriptor)  # a reader may sort it, so settings are columns, not headings
                columns = (replace(column, heads=column.heads and not column.headed) for column in built.columns)
                tables[name] = replace(built, columns=tuple(columns))
            except Exception as error:  # a plugin's code or a damaged record: the other tables are shown
                failed[name] = plain(one_line(error))
            inputs.also_shown = frozenset()
            report(1)
    inputs.significance = significance
    return {name: table for name, table in tables.items() if table.rows}, failed


def uncounted(host: Host) -> list[str]:
    """Names of the tables that count models of every method, which takes minutes: they are made only when named."""
    return sorted(spec.name for spec in host.all("tables") if isinstance(spec, TableSpec) and spec.counts)
