"""A table in the order, and with the columns, that its reader asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.reporting.table import Column, Table, Value


def column_named(table: Table, name: str, option: str) -> Column:
    """The column that is called ``name``, by its key or what readers see above it.

    Raises:
        SkelbenchError: there is none; says the nearest.
    """
    asked = name.lower()
    for column in table.columns:
        if asked in (column.key.lower(), column.header.lower()):
            return column
    raise SkelbenchError(f"{option}: {did_you_mean(name, [column.key for column in table.columns], 'column')}")


def sorted_by(table: Table, name: str) -> Table:
    """``table`` by one column, ascending, or descending where the name is led by ``-``; rows without a value last.

    Headings between rows become a column, as rows that share one need not stay together.

    >>> columns = (Column("name", "Method"), Column("accuracy", "Accuracy", ".1%"))
    >>> table = Table("Made up", columns, ({"name": "a", "accuracy": 0.5}, {"name": "b", "accuracy": 0.75}))
    >>> sorted_by(table, "-accuracy").values("name")
    ['b', 'a']
    """
    key = column_named(table, name.removeprefix("-"), "--sort").key

    def order(value: Value) -> tuple[bool, float, str]:
        """Numbers before words; words by the number that they begin with, as ``8x25`` and ``30x25`` do."""
        if isinstance(value, str):
            digits = value[: len(value) - len(value.lstrip("0123456789"))]
            return True, float(digits) if digits else float("inf"), value
        return False, float(value or 0), ""

    filled = [row for row in table.rows if row[key].value is not None]
    empty = [row for row in table.rows if row[key].value is None]
    filled.sort(key=lambda row: order(row[key].value), reverse=name.startswith("-"))
    columns = tuple(replace(column, heads=False) for column in table.columns)
    return replace(table, columns=columns, rows=(*filled, *empty))


def with_columns(table: Table, names: Sequence[str]) -> Table:
    """``table`` with these columns alone, in this order, in every format.

    Raises:
        SkelbenchError: there is no such column; says the nearest.
    """
    chosen = {column.key: column for column in (column_named(table, name, "--columns") for name in names)}
    unheaded = replace(table, columns=tuple(replace(column, heads=False) for column in table.columns))
    return unheaded.narrowed([replace(column, shown=True, heads=False) for column in chosen.values()])
