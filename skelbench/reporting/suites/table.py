"""The table of a suite: one row per method, split, token grid and preset; one column per protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skelbench.evaluation.cost import BODIES
from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.reporting.builder import mean_of
from skelbench.reporting.columns import BLOCK, ColumnTable, measured
from skelbench.reporting.filters import Filters
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.suites.suite import Suite
from skelbench.reporting.table import Column, Table

HEADINGS = {
    "linear": ("Linear", ""),
    "knn": ("1-NN", ""),
    "retrieval": ("mAP", "map"),
    "semi@1": ("1 % labels", ""),
    "semi@10": ("10 % labels", ""),
    "robustness": ("32 % missing", "accuracy_missing_0.32"),
}
"""Protocol -> (heading of its column, metric that the column shows; "" = accuracy)."""
NOTE = (
    "Every row has the encoder and training budget of the suite. Best and second are marked among rows with the same "
    "number of seeds."
)


def suite_inputs(suite: Suite, host: Host, store: ResultStore, progress: Callable[..., Any]) -> TableInputs:
    """Inputs of a table with the runs, protocols and evaluation data of ``suite`` alone."""
    rows = {run.name for run in store.read() if not suite.mismatch(run)}
    filters = Filters(protocol=suite.protocols, dataset=[*suite.evaluated], split=[*suite.evaluated.values()])
    return TableInputs(host, store, only=rows, filters=filters, progress=progress)


def skipped(suite: Suite, store: ResultStore) -> dict[str, str]:
    """Run -> reason why it is not a row of ``suite``."""
    return {run.name: reason for run in store.read() if (reason := suite.mismatch(run))}


def leaderboard(suite: Suite, inputs: TableInputs) -> Table:
    """Mean over seeds of every protocol, for every method, dataset, split, token grid and preset of the suite."""
    measures = []
    for name in suite.protocols:
        header, metric = HEADINGS.get(name, (name, ""))
        measures.append(measured(name, header, (name,), metric))
    table = ColumnTable(
        suite.name,
        f"{suite.name}: {suite.summary}",
        lambda frame: measures,
        f"No run is a row of this suite yet. Make one: skelbench suite run METHOD --suite {suite.name}",
        notes=(NOTE,),
        block=(*BLOCK, "tokens", "seeds"),
        extra=(
            mean_of(Column("gflops", "GFLOPs, 1 body", ".2f"), "gflops"),
            mean_of(Column("step_gflops", f"Step GFLOPs, {BODIES} bodies", ".3g"), "step_gflops", BODIES),
        ),
    )(inputs)
    return replace(table, notes=(*table.notes, *inputs.added_notes)) if table.rows else table
