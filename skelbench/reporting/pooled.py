"""``compare --table pooled``: methods over many datasets and splits together, if there are enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.evaluation.stats.aggregate import SEEDS, TASKS, Pooled, Scores, iqm, probability_of_improvement
from skelbench.plugin import TableSpec, hookimpl
from skelbench.reporting.builder import Filled, Layout, build, probed, setting
from skelbench.reporting.controls import CONTROLS, controls_beside
from skelbench.reporting.seeds import OLDER, newest
from skelbench.reporting.table import Cell, Column, Table

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

NAME = "pooled"
TASK = ("dataset", "split", "data")
BLOCK = ("setting", "preset", "changed", "encoder", "tokens", "stream", "protocol")
"""Columns in which pooled rows agree."""
_JOINTS = r"x\d+"
"""Number of joints in a token grid, ``8x25+1``: it differs between datasets."""
LAYOUT = Layout(
    "Methods over all tasks: linear accuracy in percent",
    f"nothing to pool yet: it takes linear probes of {SEEDS} seeds on {TASKS} datasets and splits",
    (
        *(setting(key, leads=True) for key in BLOCK),
        Column("title", "Method", leads=True),
        Column("tasks", "Tasks", "d"),
        Column("seeds", "Seeds of a task"),
        Column("iqm", "IQM", ".1f", best="max"),
        Column("over_next", "Better than the next row", ".0%"),
        Column("over_untrained", "Better than untrained", ".0%"),
    ),
    BLOCK,
    (
        "IQM: mean of the middle half of all seeds of all tasks (a task: dataset and split). Better: the probability "
        "that a seed of the row has a higher accuracy than one of the other, mean over tasks; ties count half. "
        "Definitions: Agarwal et al. 2021. Brackets: 95 % over seeds; they apply to these tasks only.",
    ),
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "methods over all datasets and splits: interquartile mean, probability of improvement"
    return [TableSpec(name=NAME, target=":table", summary=summary, probe="linear", reference=True)]


def table(inputs: TableInputs) -> Table:
    """A row per method with at least ``SEEDS`` seeds on each of at least ``TASKS`` shared tasks
    (:mod:`skelbench.evaluation.stats.aggregate`)."""
    frame = controls_beside(probed(inputs.frame, checkpoint="last"))
    frame = frame.assign(tokens=frame["tokens"].astype(str).str.replace(_JOINTS, "", regex=True))
    rows: list[Filled] = []
    notes: list[str] = []
    for _, block in frame.groupby(list(BLOCK), sort=False):
        pooled, reasons = _block(block)
        rows += map(Filled, pooled)
        notes += reasons
    if not rows and notes:
        return replace(build(LAYOUT, ()), notes=tuple(dict.fromkeys(notes)))
    return build(LAYOUT, rows, notes=list(dict.fromkeys(notes)))


def _block(block: DataFrame) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of one block, or why there are none."""
    scores: dict[str, dict[tuple[str, ...], np.ndarray]] = {}
    older: list[str] = []
    for (title, *task), runs in block.groupby(["title", *TASK], sort=False):
        group = newest(runs, older)
        if group is not None and group["seed"].is_unique and len(group) >= SEEDS:
            scores.setdefault(str(title), {})[tuple(map(str, task))] = group["accuracy"].to_numpy(dtype=float)
    where = ", ".join(f"{key} {block[key].iloc[0]}" for key in ("preset", "tokens", "protocol"))
    titles = {str(title) for title in block["title"]} - {"raw"}
    enough = {title: tasks for title, tasks in scores.items() if len(tasks) >= TASKS}
    shared = sorted(set.intersection(*map(set, enough.values()))) if enough else []
    if len(shared) < TASKS or not set(enough) - {*CONTROLS}:
        most = max((len(tasks) for tasks in scores.values()), default=0)
        had = f"{len(shared)} in common" if enough else f"{most} at most"
        return [], [f"{where}: not pooled, as that takes {TASKS} tasks of {SEEDS} seeds each, and there are {had}."]
    pooled = {title: [tasks[task] for task in shared] for title, tasks in enough.items()}
    fewer = sorted(titles - set(enough))
    notes = {f"skipped, with fewer than {TASKS} tasks of {SEEDS} seeds:": fewer, OLDER: older}
    messages = [f"{where}: {note} {', '.join(names)}." for note, names in notes.items() if names]
    return list(_rows(block.iloc[0], pooled)), messages


def _rows(first: Mapping[str, Any], pooled: Mapping[str, Scores]) -> Iterator[dict[str, Any]]:
    means = {title: iqm(scores) for title, scores in pooled.items()}
    order = sorted(pooled, key=lambda title: -means[title].value)
    for title, after in zip(order, [*order[1:], None]):
        scores = pooled[title]
        counts = sorted({len(task) for task in scores})
        mean = means[title]
        untrained = pooled.get("untrained") if title not in CONTROLS else None
        yield {key: str(first[key]) for key in BLOCK} | {
            "title": title,
            "tasks": len(scores),
            "seeds": str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}",
            "iqm": _cell(mean, 100),
            "over_next": _cell(probability_of_improvement(scores, pooled[after])) if after else Cell(),
            "over_untrained": _cell(probability_of_improvement(scores, untrained)) if untrained else Cell(),
        }


def _cell(pooled: Pooled, times: float = 1) -> Cell:
    low, high = pooled.interval
    return Cell(times * pooled.value, interval=(times * low, times * high), interval_over="seeds within tasks")
