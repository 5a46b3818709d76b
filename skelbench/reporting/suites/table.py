"""The table of a suite: a row for every method on a split, a column for every protocol; and the stamp of the suite on
this table and on any other that is made of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from skelbench.core.hashing import digest
from skelbench.records.run_dir import ReadRun
from skelbench.reporting.controls import CONTROLS, controls_beside
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.seeds import alike as alike_rows
from skelbench.reporting.seeds import all_rows, percent, spread
from skelbench.reporting.suites.match import Recorded
from skelbench.reporting.suites.rows import rows_of
from skelbench.reporting.suites.suite import Suite
from skelbench.reporting.table import Cell, Column, Table, footnotes_of

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN: Mapping[str, tuple[str, str]] = {
    "linear": ("Linear", ""),
    "knn": ("1-NN", ""),
    "retrieval": ("mAP", "map"),
    "semi@1": ("1 % labels", ""),
    "semi@10": ("10 % labels", ""),
    "robustness": ("32 % missing", "accuracy_missing_0.32"),
}
"""Protocol -> heading of its column, and which of its measures stands there ("" = accuracy); others by their names."""
BLOCK = ("dataset", "split", "tokens", "preset", "stream")
"""What rows that compete have in common."""
HEADINGS = {"dataset": "Data set", "split": "Split", "preset": "Preset", "stream": "Stream"}
"""Columns that are shown where rows differ in them."""
HOW = (
    "Means over seeds, ±: 95 % t interval. Every row has the suite's encoder and training budget; best and second are "
    "marked among figures that have all seeds, of rows of one data set, split, token grid, preset and stream."
)
FOOTNOTES = {
    "seeds": "fewer seeds than the suite's: not ranked",
    "added": "with runs that were not made here but added from a file",
}


@dataclass
class SuiteInputs(TableInputs):
    """What tables of a suite are built from: the evaluations that are rows of it."""

    suite: Suite = field(kw_only=True)

    @cached_property
    def _judged(self) -> dict[str, tuple[set[str], list[str]]]:
        recorded = Recorded(self.suite, self.store)
        return {run.name: rows_of(self.suite, recorded, run) for run in self.runs}

    @cached_property
    def every(self) -> DataFrame:
        """Every evaluation that is the suite's."""
        from skelbench.reporting.frame import frame

        every = frame(self.runs)
        ids = set().union(*(evaluations for evaluations, _ in self._judged.values()))
        return every[every["evaluation"].isin(ids)]

    @property
    def reasons(self) -> dict[str, list[str]]:
        """Of every run of which something is left out, why."""
        return {name: reasons for name, (_, reasons) in self._judged.items() if reasons}


def stamped(table: Table, suite: Suite, files: Sequence[str] = ()) -> Table:
    """``table`` with name and hash of the suite: a note for readers, columns in CSV and JSON. ``files``: where rows
    come from that were not made here."""
    columns = (Column("suite", "Suite", shown=False), Column("suite_hash", "Hash", shown=False))
    rows = tuple({**row, "suite": suite.name, "suite_hash": suite.hash} for row in table.rows)
    note = f"Suite {suite.name}, hash {suite.hash}: `skelbench suite {suite.name}` says what it freezes."
    where = (f"Not made here are runs from: {'; '.join(files)}.",) if files else ()
    return replace(table, columns=(*table.columns, *columns), rows=rows, notes=(note, *table.notes, *where))


def leaderboard(inputs: SuiteInputs) -> Table:
    """Mean over seeds of every protocol, for every method, data set, split, token grid and preset of the suite."""
    suite = inputs.suite
    title = f"{suite.name}: accuracy in percent"
    columns = _columns(suite)
    frame = inputs.frame
    if not frame.empty:  # coordinates are of any preset; where they stand beside nothing they have no row
        frame = controls_beside(frame)
        frame = frame[frame["preset"].isin(suite.presets)]
    if frame.empty:
        how = f"No run is a row of it yet: `skelbench suite run METHOD --suite {suite.name}` makes what a row needs."
        return Table(title, columns, notes=(how,))
    alike = {run.name: _alike(run) for run in inputs.runs}
    keys = [*BLOCK, "title", "hardware"]
    groups = frame.assign(alike=frame["run"].map(alike)).groupby([*keys, "alike"], dropna=False, sort=False)
    rows = [_row(suite, group) for _, group in groups]
    rows.sort(key=partial(_place, suite))
    varying, constant = alike_rows(rows, [*HEADINGS, "hardware"])
    columns = tuple(
        replace(one, shown=one.shown and (one.key not in HEADINGS or one.key in varying)) for one in columns
    )
    notes = (*all_rows(constant), HOW)
    return _ranked(Table(title, columns, tuple(rows), notes, footnotes_of(rows, FOOTNOTES)), suite)


def _place(suite: Suite, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Where a row stands: by data set, split and preset in the suite's order, controls last, then the most accurate."""
    first = next(iter(suite.protocols))
    order = [*suite.datasets].index(row["dataset"]), row["split"], [*suite.presets].index(row["preset"])
    return (*order, row["control"], row["tokens"], -(row[first].value or 0.0))


def _alike(run: ReadRun) -> str:
    """Of everything that decides a run but its seed."""
    return digest(run.spec.model_dump(mode="json", exclude={"seed"}))


def _columns(suite: Suite) -> tuple[Column, ...]:
    headings = {name: SHOWN.get(name, (name, ""))[0] for name in suite.protocols}
    return (
        Column("method", "Method", leads=True),
        Column("dataset", HEADINGS["dataset"]),
        Column("split", HEADINGS["split"]),
        Column("tokens", "Tokens"),
        Column("preset", HEADINGS["preset"]),
        Column("stream", HEADINGS["stream"]),
        Column("seeds", "Seeds"),
        *(Column(name, heading, ".1f", best="max") for name, heading in headings.items()),
        Column("gflops", "GFLOPs, 1 body", ".2f"),
        Column("step_gflops", "GFLOPs a step", ".3g"),
        Column("clips_seen", "Clips seen", ",d", shown=False),
        Column("hardware", "Hardware", shown=False),
        Column("complete", "All seeds", shown=False),
        Column("control", "Control", shown=False),
        Column("added", "Added from", shown=False),
        Column("run", "Runs", shown=False),
    )


def _row(suite: Suite, group: DataFrame) -> dict[str, Any]:
    first = group.iloc[0]
    seeds = sorted(set(group["seed"]))
    wanted = 1 if first["method"] == "raw" else len(suite.seeds)
    complete = len(seeds) >= wanted
    origins = sorted(set(group["added"].dropna()))
    clips = group["clips_seen"].mean()
    return {
        **{key: str(first[key]) for key in BLOCK},
        "method": Cell(first["title"], footnotes=("added",) if origins else ()),
        "seeds": Cell(f"{len(seeds)}/{wanted}", footnotes=() if complete else ("seeds",)),
        **{name: _figure(group[group["protocol"] == name], name, wanted) for name in suite.protocols},
        "gflops": float(group["gflops"].mean()),
        "step_gflops": float(group["step_gflops"].mean()),
        "clips_seen": round(clips) if clips == clips else None,
        "hardware": first["hardware"],
        "complete": complete,
        "control": first["method"] in CONTROLS,
        "added": "; ".join(origins) or None,
        "run": ", ".join(sorted(set(group["run"]))),
    }


def _figure(of_protocol: DataFrame, name: str, wanted: int) -> Cell:
    """The figure of a protocol over seeds, of which ``wanted`` are all; empty where no seed has it."""
    measure = SHOWN.get(name, ("", ""))[1]
    if of_protocol.empty:
        return Cell()
    found = [each[measure][0] for each in of_protocol["measures"] if measure in each] if measure else []
    if measure and len(found) < len(of_protocol):
        return Cell()
    cell = spread([100 * value for value in found]) if measure else percent(of_protocol["accuracy"])
    return cell if of_protocol["seed"].nunique() >= wanted else replace(cell, footnotes=("seeds",))


def _ranked(table: Table, suite: Suite) -> Table:
    """Best and second of every protocol, among the figures that have all seeds."""
    for name in suite.protocols:

        def block(row: Mapping[str, Cell], name: str = name) -> tuple[Any, ...]:
            return *(row[key].value for key in BLOCK), "seeds" in row[name].footnotes

        rows = table.ranked(within=block, keys=(name,)).rows
        unmarked = ({**row, name: replace(row[name], mark=None)} if block(row)[-1] else row for row in rows)
        table = replace(table, rows=tuple(unmarked))
    return table
