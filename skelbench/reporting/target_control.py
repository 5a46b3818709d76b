"""``compare --table target-control``: one method, several targets of masked prediction, and how each trained."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from skelbench.plugin import TableSpec, hookimpl
from skelbench.records.errors import if_whole
from skelbench.records.metrics import read_metrics
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore
from skelbench.reporting import study_rows
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.seeds import spread
from skelbench.reporting.study_rows import PAPER_COLUMNS, Row, StudyTable
from skelbench.reporting.table import Cell, Column, Table

if TYPE_CHECKING:
    from pandas import DataFrame, Series

NAME = "target-control"
START, END = 0.02, 0.05
"""Fractions of the logged values whose means are "start" and "end" of a curve: at first a loss falls fast, and ranks
are logged only every tenth time."""
_LOGGED = ("mfp", "rank_masked", "rank_pooled")
"""Loss of masked prediction, effective ranks at masked positions and of the encoder: names in metrics.jsonl."""

CURVES = (
    Column("loss_start", "MFP loss, start", ".3g"),
    Column("loss_end", "MFP loss, end", ".3g"),
    Column("loss_fall", "Fall, times", ",.1f"),
    Column("rank_start", "Rank, start", ".2f", shown=False),
    Column("rank_end", "Rank, end", ".2f"),
    Column("rank_encoder", "Rank of encoder", ".2f"),
    Column("collapse", "Collapse", shown=False),
)
NOTE = (
    f"Start, end: means of the first {100 * START:.0f} % and last {100 * END:.0f} % of what was logged. Losses "
    "have different units: compare the falls of squared errors. Rank: effective rank of the outputs at masked "
    "positions, 1 = one direction; of encoder: of its pooled features, at the end."
)
COLLAPSED = "a collapse was recorded in training, of these features or others: `--format json`, column `collapse`"


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "one method with several prediction targets: accuracy, fall of the loss, effective rank"
    return [TableSpec(name="target-control", target=":table", summary=summary, probe="linear")]


def table(inputs: TableInputs) -> Table:
    """The rows that plugins announce, one per target of a method, in every block of runs that has any of them; see
    :func:`skelbench.reporting.study_rows.build`. Announced rows have the labels ``target``, ``loss`` and ``module``."""
    rows = rows_of(inputs)
    own = {row.labels.get("target", "") for row in rows if row.against is None}
    study = StudyTable(
        name=NAME,
        title="Targets of masked prediction: linear accuracy in percent, loss and effective rank",
        rows=rows,
        labels=(
            Column("target", "Target", leads=True),
            Column("loss", "Loss", shown=False),
            Column("module", "Module", shown=False),
        ),
        against=f"Over {own.pop()}" if len(own) == 1 else "Over the own target",
        paper=[
            *(replace(PAPER_COLUMNS[key], shown=False) for key in ("paper_xsub", "paper_xview")),
            PAPER_COLUMNS["paper_mean"],
        ],
        extra=CURVES,
        measure=curves,
        notes=(NOTE,),
        footnotes={"collapse": COLLAPSED},
        shown=("title",) if len({row.method for row in rows}) > 1 else (),
    )
    return study(inputs)


def rows_of(inputs: TableInputs) -> list[Row]:
    """The announced rows of the methods with runs; all announced rows if there are no runs."""
    announced = study_rows.announced(inputs, NAME)
    methods = set(inputs.compared["method"])
    rows: list[Row] = []
    for group in [group for group in announced if methods & {row.method for row in group}] or announced:
        start = len(rows)
        rows += [row if row.against is None else replace(row, against=start + row.against) for row in group]
    return rows


def curves(runs: DataFrame, store: ResultStore) -> dict[str, Cell]:
    """Masked-prediction loss and effective ranks at start and end, means over seeds (at the end with a t interval),
    empty if a seed lacks them; and the anomalies of each seed."""
    seeds = []
    for name in runs["run"]:
        metrics = if_whole(partial(read_metrics, RunDir(store.root / name)))
        loss, masked, pooled = (
            ends(metrics[key]) if metrics is not None and key in metrics else (np.nan, np.nan) for key in _LOGGED
        )
        start = {"loss_start": loss[0], "rank_start": masked[0]}
        seeds.append(start | {"loss_end": loss[1], "rank_end": masked[1], "rank_encoder": pooled[1]})
    mean = {key: float(np.mean([seed[key] for seed in seeds])) for key in seeds[0]}
    at_end = {key: spread([seed[key] for seed in seeds]) for key in ("loss_end", "rank_end", "rank_encoder")}
    collapsed = runs[runs["collapse"].notna()]
    notes = [f"seed {seed}: {text}" for seed, text in zip(collapsed["seed"], collapsed["collapse"], strict=True)]
    return {key: at_end.get(key, Cell(value)) for key, value in mean.items()} | {
        "loss_fall": Cell(mean["loss_start"] / mean["loss_end"] if mean["loss_end"] > 0 else None),
        "rank_end": replace(at_end["rank_end"], footnotes=("collapse",) if notes else ()),
        "collapse": Cell("; ".join(notes) or None),
    }


def ends(curve: Series) -> tuple[float, float]:
    """Means of the first :data:`START` and the last :data:`END` of the logged values, one at least; NaN without."""
    logged = curve.dropna().to_numpy(dtype=float)
    if not len(logged):
        return np.nan, np.nan
    first, last = (max(1, round(share * len(logged))) for share in (START, END))
    return float(logged[:first].mean()), float(logged[-last:].mean())
