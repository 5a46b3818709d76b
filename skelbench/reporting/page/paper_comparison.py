"""Our numbers next to the published ones, with the recorded reasons why the two differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from skelbench.data.store.splits import full_name
from skelbench.plugin.host import Host
from skelbench.records.run_dir import ReadRun
from skelbench.reporting import published
from skelbench.reporting.page.summary import PAPER
from skelbench.reporting.page.tables import PageTable, PrintedNumbers
from skelbench.reporting.table import Table, is_number

BESIDE = {"paper_gflops": "gflops"}
"""Column of published numbers -> our column of the same kind; for other ``paper`` columns it is the accuracy."""
CONVENTIONS = (
    "Headlines are measured after the probe's last epoch; many papers print the best test epoch.",
    "Absent bodies are never computed and never averaged in, unless a row is marked native.",
    "Cost counts matrix products only, 2 FLOPs per multiply-accumulate; papers mix conventions, as their notes say.",
)


class Difference(NamedTuple):
    """One pair of numbers; ``runs``: places in the page's list."""

    table: str
    row: str
    column: str
    ours: str
    printed: str
    difference: str
    reasons: list[str]
    runs: list[int]


def differences(
    tables: Mapping[str, Table], laid: Mapping[str, PageTable], runs: Sequence[ReadRun], printed: PrintedNumbers
) -> list[Difference]:
    """Every number of ours that has a published one next to it, once."""
    found: dict[tuple[Any, ...], Difference] = {}
    for name, table in tables.items():
        columns = {column.key: column for column in table.columns}
        compared = [column for column in table.shown if column.key.startswith("paper")]
        for row, (_, places) in zip(table.rows, laid[name].rows, strict=True):
            for column in compared if places else ():
                own, cell = columns.get(BESIDE.get(column.key, "accuracy")), row[column.key]
                if own is None or not (is_number(row[own.key].value) and is_number(cell.value)):
                    continue
                delta = float(row[own.key].value or 0) - float(cell.value or 0)
                source = printed.source(name, row, cell)
                behind = [runs[place] for place in places]
                reasons = [*_reasons(behind, column.key, printed.data(name, row, cell))]
                one = Difference(
                    table=table.title,
                    row=behind[0].title + (f" ({row['tokens'].value})" if "tokens" in row else ""),
                    column=column.header,
                    ours=own.text(row[own.key].value),
                    printed=column.text(cell.value),
                    difference=f"{delta:+.2f}" if abs(delta) < 0.095 else f"{delta:+.1f}",
                    reasons=[*reasons, *([f"printed number: {source}"] if source else [])],
                    runs=places,
                )
                found.setdefault((one.column, one.ours, one.printed, *places), one)
    return list(found.values())


def _reasons(runs: Sequence[ReadRun], key: str, printed: Sequence[tuple[str, str]]) -> Iterator[str]:
    first = runs[0]
    own, split, preset = first.spec.data.name, full_name(first.spec.data.split), first.info["preset"]
    splits = [published.splits_of(named) for name, named in printed if name == own]
    place = ", ".join(" ".join(filter(None, pair)) for pair in printed)
    if printed and not splits:
        yield f"other data, not comparable: printed for {place}, ours is of {own}"
    elif printed and {split} not in splits and frozenset([""]) not in splits:
        yield f"another split, not comparable: printed for {place}, ours is of {own} {split}"
    small = not preset.startswith((PAPER, "release"))
    if key in BESIDE:
        yield f"counted by one convention on the encoder that was run{f' (preset {preset})' if small else ''}"
        return
    if small:
        clips = first.info.get("clips_seen")
        yield f"preset {preset}{f', {clips:,.0f} clips seen' if clips else ''}: not the paper's training"
    if first.info["modified"]:
        yield "settings were changed from the preset"
    if first.info.get("setting") in (None, "shared"):
        yield "shared setting: encoder, budget and bodies are the same for all methods, not this method's own"
    if len(runs) == 1:
        yield "one seed"


def notes(host: Host, names: Mapping[str, Any]) -> list[str]:
    """Notes on the published numbers in the tables ``names``."""
    return [*dict.fromkeys(note for name in names for note in published.notes(host, name))]
