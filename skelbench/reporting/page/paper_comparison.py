"""Ours beside what is printed, and why the two differ: said from what was recorded, not guessed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from skelbench.core.text import plain
from skelbench.data.store.splits import full_name
from skelbench.plugin.host import Host
from skelbench.reporting import published
from skelbench.reporting.page.provenance import Provenance
from skelbench.reporting.page.summary import PAPER
from skelbench.reporting.page.tables import LaidCell, LaidTable
from skelbench.reporting.table import Cell, Table, is_number

BESIDE = {"paper_gflops": "gflops"}
"""Column of published figures -> ours of the same kind; every other ``paper`` column stands beside the accuracy."""
CONVENTIONS = (
    "Headlines are those of the probe's last epoch; many papers print the best test epoch.",
    "Absent bodies are never computed and never averaged in, unless a row is marked native.",
    "Cost counts matrix products alone, 2 FLOPs per multiply-accumulate; papers mix conventions, as their notes say.",
)


class Difference(NamedTuple):
    """One pair of figures."""

    table: str
    row: str
    what: str
    ours: str
    printed: str
    difference: str
    why: list[str]
    runs: list[int]


def differences(tables: Mapping[str, Table], laid: Mapping[str, LaidTable], known: Provenance) -> list[Difference]:
    """Every figure of ours that a published one stands beside, once."""
    found: dict[tuple[Any, ...], Difference] = {}
    for name, table in tables.items():
        rows = [row for _, some in laid[name].sections for row in some]
        places = [column.key for column in table.shown]
        for row, shown in zip(table.rows, rows, strict=True):
            if not shown.runs:
                continue
            for column in table.shown:
                ours, printed = row.get(BESIDE.get(column.key, "accuracy")), row[column.key]
                if column.key.startswith("paper") and _both(ours, printed):
                    assert ours is not None
                    cell = shown.cells[places.index(column.key)]
                    one = _difference(table, row, column.key, ours, printed, shown.runs, cell, known)
                    found.setdefault((one.what, one.ours, one.printed, *shown.runs), one)
    return list(found.values())


def _both(ours: Cell | None, printed: Cell) -> bool:
    pair = [cell.value for cell in (ours, printed) if cell]
    return len(pair) == 2 and all(map(is_number, pair))


def _difference(
    table: Table, row: Mapping[str, Cell], key: str, ours: Cell, printed: Cell, runs: list[int], cell: LaidCell,
    known: Provenance,
) -> Difference:  # fmt: skip
    columns = {column.key: column for column in table.columns}
    own = columns[BESIDE.get(key, "accuracy")]
    delta = float(ours.value or 0) - float(printed.value or 0)
    return Difference(
        table=plain(table.title),
        row=known.runs[runs[0]]["title"] + (f" ({row['tokens'].value})" if "tokens" in row else ""),
        what=plain(columns[key].header),
        ours=plain(own.text(ours.value)),
        printed=plain(columns[key].text(printed.value)),
        difference=f"{delta:+.2f}" if abs(delta) < 0.095 else f"{delta:+.1f}",
        why=[
            *_reasons([known.runs[place] for place in runs], key, cell.data),
            *([f"of the printed figure: {cell.origin}"] if cell.origin else []),
        ],
        runs=runs,
    )


def _reasons(runs: list[dict[str, Any]], key: str, data: str) -> Iterator[str]:
    first = runs[0]
    own, split = first["spec"]["data"]["name"], full_name(first["spec"]["data"]["split"])
    printed = [place.partition(" ")[::2] for place in data.split(", ") if place]
    splits = [published.splits_of(named) for name, named in printed if name == own]
    if printed and not splits:
        yield f"other data, so not to be compared: printed for {data}, ours is of {plain(own)}"
    elif printed and {split} not in splits and frozenset([""]) not in splits:
        yield f"another split, so not to be compared: printed for {data}, ours is of {plain(f'{own} {split}')}"
    if key in BESIDE:
        small = "" if first["preset"].startswith((PAPER, "release")) else f", that of preset {plain(first['preset'])}"
        yield f"counted on the encoder that was run{small}, by this package's one convention"
        return
    if not first["preset"].startswith((PAPER, "release")):
        seen = f", {first['clips_seen']:,.0f} clips seen" if first["clips_seen"] else ""
        yield f"preset {plain(first['preset'])}{seen}: not the paper's training"
    if first["modified"]:
        yield "settings were changed from the preset"
    if first["setting"] in (None, "shared"):
        yield "shared setting: encoder, budget and bodies are the same for all methods, not this method's own"
    if len(runs) == 1:
        yield "one seed"


def notes(host: Host, names: Mapping[str, Any]) -> list[str]:
    """What must be known of published figures in the tables ``names``."""
    return [*dict.fromkeys(plain(note) for name in names for note in published.notes(host, name))]
