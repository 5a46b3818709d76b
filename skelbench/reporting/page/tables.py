"""The tables of the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from skelbench.core.text import plain
from skelbench.plugin.descriptors import TableSpec
from skelbench.plugin.host import Host
from skelbench.plugin.status import one_line
from skelbench.reporting.columns import ColumnTable
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.table import Table

FIRST = "linear"


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
    return sorted(host.name(one) for one in host.all("tables") if _counts(one))


def _counts(descriptor: Any) -> bool:
    return isinstance(descriptor, TableSpec) and descriptor.counts


def _build(inputs: TableInputs, descriptor: Any, built: Built) -> None:
    host = inputs.host
    name = host.name(descriptor)
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
