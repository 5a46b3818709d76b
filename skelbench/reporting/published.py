"""Numbers printed in papers, as data with provenance. They never take the place of measured numbers.

Plugins announce them (hook ``skelbench_published``), a CSV file per published table. Columns: ``method``; ``variant``
(token grid, label share, ablation row ...); ``dataset``, ``split`` and ``protocol`` as this package names them,
``protocol`` is what the authors did, even if the caption says something else; ``metric``; ``value`` and ``std``
(accuracies in percent, costs in GFLOPs); ``source`` ("PAPER, Table 3 ..."); and ``note`` for what a reader must know
before comparing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import isfinite
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.descriptors import PublishedSpec
from skelbench.plugin.host import Host
from skelbench.reporting.table import Cell

COLUMNS = ("method", "variant", "dataset", "split", "protocol", "metric", "value", "std", "source", "note")

SIZES = ("paper", "ablation", "release")
"""Presets of the size that papers have."""

Figure = Mapping[str, Any]
"""One published number: ``value`` is a float, ``std`` a float or ``None``, everything else text."""


def load(host: Host, name: str, **filters: Any) -> list[Figure]:
    """Rows of published table ``name`` whose columns equal ``filters``, in the paper's order.

    Raises:
        SkelbenchError: unknown table, or a file that cannot be read.
    """
    descriptor = host.get("published", name)
    assert isinstance(descriptor, PublishedSpec)
    rows = _read(descriptor.file)
    return [row for row in rows if all(row[column] == value for column, value in filters.items())]


def tables(host: Host) -> dict[str, list[Figure]]:
    """Every published table by name."""
    return {name: load(host, name) for name in host.names("published")}


def notes(host: Host, shown_by: str) -> Iterator[str]:
    """Notes on published results in the table or figure ``shown_by``."""
    for descriptor in host.all("published"):
        if isinstance(descriptor, PublishedSpec) and shown_by in descriptor.notes:
            yield descriptor.notes[shown_by]


def cell(one: Figure, *footnotes: str) -> Cell:
    """The cell of a published number, with its note as a footnote behind ``footnotes``."""
    note = (f"note: {one['note']}",) if one["note"] else ()
    return Cell(one["value"], one["std"], published=True, footnotes=(*footnotes, *note))


def footnotes(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The footnotes of :func:`cell` that cells of ``rows`` have, in their order."""
    keys = [key for row in rows for cell in row.values() for key in getattr(cell, "footnotes", ())]
    return {key: key.removeprefix("note: ") for key in keys if key.startswith("note: ")}


@cache
def _read(file: str) -> tuple[Figure, ...]:
    try:
        with open(file, newline="", encoding="utf-8") as lines:
            rows = [{column: row[column] for column in COLUMNS} for row in csv.DictReader(lines, restval="")]
        figures: list[dict[str, Any]] = [
            row | {name: float(row[name]) if row[name] else None for name in ("value", "std")} for row in rows
        ]
        if not all(row["value"] is not None and isfinite(row["value"]) for row in figures):
            raise ValueError("a value is not a finite number")
        return tuple(figures)
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise SkelbenchError(f"published results in {file} cannot be read: {error}") from error


def slug(method: str) -> str:
    """``S-JEPA`` and ``sjepa`` are one method."""
    return re.sub(r"[^a-z0-9]", "", method.lower())
