"""The table of a suite: one row per method, split, token grid and preset; one column per protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.reporting.controls import CONTROLS, controls_beside
from skelbench.reporting.filters import Filters
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.seeds import alike, all_rows, percent, spread
from skelbench.reporting.suites.suite import Suite
from skelbench.reporting.table import Cell, Column, Table, footnotes_of

if TYPE_CHECKING:
    from pandas import DataFrame

HEADINGS: Mapping[str, tuple[str, str]] = {
    "linear": ("Linear", ""),
    "knn": ("1-NN", ""),
    "retrieval": ("mAP", "map"),
    "semi@1": ("1 % labels", ""),
    "semi@10": ("10 % labels", ""),
    "robustness": ("32 % missing", "accuracy_missing_0.32"),
}
"""Protocol -> (heading of its column, metric that the column shows; "" = accuracy)."""
BLOCK = ("dataset", "split", "tokens", "preset", "stream")
"""Columns in which competing rows agree."""
NOTE = (
    "Means over seeds in percent, ±: 95 % t interval. Every row has the encoder and training budget of the suite. Best "
    "and second are marked among rows with all seeds."
)
FOOTNOTES = {"seeds": "fewer seeds than the suite has: not ranked", "added": "includes runs added from a file"}


def suite_inputs(suite: Suite, host: Host, store: ResultStore, progress: Callable[..., Any]) -> TableInputs:
    """Inputs of a table with the runs and protocols of ``suite`` alone."""
    rows = {run.name for run in store.read() if not suite.mismatch(run)}
    return TableInputs(host, store, only=rows, filters=Filters(protocol=suite.protocols), progress=progress)


def skipped(suite: Suite, store: ResultStore) -> dict[str, str]:
    """Run -> reason why it is no row of ``suite``."""
    return {run.name: reason for run in store.read() if (reason := suite.mismatch(run))}


def leaderboard(suite: Suite, inputs: TableInputs) -> Table:
    """Mean over seeds of every protocol, for every method, data set, split, token grid and preset of the suite."""
    columns = _columns(suite)
    title = f"{suite.name}: {suite.summary}"
    frame = inputs.frame
    if not frame.empty:
        frame = controls_beside(frame)
        frame = frame[frame["preset"].isin(list(suite.presets))]
    if frame.empty:
        start = f"No run is a row of this suite yet. Make one: skelbench suite run METHOD --suite {suite.name}"
        return Table(title, columns, notes=(start,))
    groups = frame.groupby([*BLOCK, "title", "hardware", "training"], dropna=False, sort=False)
    rows = sorted((_row(suite, group) for _, group in groups), key=lambda row: _order(suite, row))
    varying, constant = alike(rows, [*BLOCK, "hardware"])
    columns = tuple(replace(one, shown=one.shown and (one.key not in BLOCK or one.key in varying)) for one in columns)
    table = Table(title, columns, tuple(rows), (*all_rows(constant), NOTE), footnotes_of(rows, FOOTNOTES))
    for name in suite.protocols:
        table = _ranked(table, name)
    return table


def _columns(suite: Suite) -> tuple[Column, ...]:
    return (
        Column("method", "Method", leads=True),
        Column("dataset", "Data set"),
        Column("split", "Split"),
        Column("tokens", "Tokens"),
        Column("preset", "Preset"),
        Column("stream", "Stream"),
        Column("seeds", "Seeds"),
        *(Column(name, HEADINGS.get(name, (name,))[0], ".1f", best="max") for name in suite.protocols),
        Column("gflops", "GFLOPs, 1 body", ".2f"),
        Column("step_gflops", "GFLOPs a step", ".3g"),
        Column("hardware", "Hardware", shown=False),
        Column("added", "Added from", shown=False),
        Column("run", "Runs", shown=False),
    )


def _row(suite: Suite, group: DataFrame) -> dict[str, Any]:
    first = group.iloc[0]
    wanted = 1 if first["method"] == "raw" else len(suite.seeds)
    seeds = group["seed"].nunique()
    origins = sorted(set(group["added"].dropna()))
    return {
        **{key: str(first[key]) for key in BLOCK},
        "method": Cell(first["title"], footnotes=("added",) if origins else ()),
        "seeds": Cell(f"{seeds}/{wanted}", footnotes=("seeds",) if seeds < wanted else ()),
        **{name: _mean(group[group["protocol"] == name], name, wanted) for name in suite.protocols},
        "gflops": float(group["gflops"].mean()),
        "step_gflops": float(group["step_gflops"].mean()),
        "hardware": first["hardware"],
        "added": "; ".join(origins) or None,
        "run": ", ".join(sorted(set(group["run"]))),
        "control": first["method"] in CONTROLS,
    }


def _mean(evaluations: DataFrame, protocol: str, wanted: int) -> Cell:
    """Mean of a protocol over seeds; empty if a seed lacks the metric."""
    metric = HEADINGS.get(protocol, ("", ""))[1]
    if evaluations.empty or any(metric and metric not in measures for measures in evaluations["measures"]):
        return Cell()
    values = [100 * measures[metric][0] for measures in evaluations["measures"]] if metric else []
    cell = spread(values) if metric else percent(evaluations["accuracy"])
    return cell if evaluations["seed"].nunique() >= wanted else replace(cell, footnotes=("seeds",))


def _order(suite: Suite, row: dict[str, Any]) -> tuple[Any, ...]:
    """Sort key: data set, split and preset as the suite lists them, controls last, then by accuracy."""
    block = [*suite.datasets].index(row["dataset"]), row["split"], [*suite.presets].index(row["preset"])
    return (*block, row.pop("control"), row["tokens"], -(row[suite.protocols[0]].value or 0.0))


def _ranked(table: Table, protocol: str) -> Table:
    """Mark best and second of one protocol, among means over all seeds."""

    def block(row: Mapping[str, Cell]) -> tuple[Any, ...]:
        return *(row[key].value for key in BLOCK), "seeds" in row[protocol].footnotes

    ranked = table.ranked(within=block, keys=(protocol,))
    rows = (
        {**row, protocol: replace(row[protocol], mark=None)} if "seeds" in row[protocol].footnotes else row
        for row in ranked.rows
    )
    return replace(ranked, rows=tuple(rows))
