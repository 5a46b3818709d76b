"""``compare --table efficiency``: accuracy next to its cost, from pre-training to one clip at inference."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, Any

from skelbench.evaluation.cost import BODIES
from skelbench.plugin import TableSpec, hookimpl
from skelbench.records.errors import if_whole
from skelbench.records.run_dir import RunDir
from skelbench.reporting import builder
from skelbench.reporting.seeds import INTERVALS, seeds_of
from skelbench.reporting.table import Cell, Column, Table

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.records.store import ResultStore
    from skelbench.reporting.inputs import TableInputs

NAME = "efficiency"
_SETTING = [
    "title", "dataset", "split", "data", "tokens", "preset", "budget", "changed", "setting", "encoder", "hardware",
    "protocol", "stream",
]  # fmt: skip
_SHOWN = ("preset", "budget", "changed", "setting", "encoder", "hardware", "timed", "memory_how", "protocol", "stream")
_BLOCK = (
    "dataset", "split", "data", "setting", "preset", "budget", "protocol", "stream", "hardware", "timed", "memory_how",
    "bodies",
)  # fmt: skip
"""Columns in which competing rows agree: times and memory are comparable on one machine only."""


GFLOPS = Column("gflops", f"Inference GFLOPs, {BODIES} bodies", ",.2f", best="min", minor=True)


def _trained(group: DataFrame) -> bool:
    return bool(group["clips_seen"].mean(skipna=False) > 0)


def _step(group: DataFrame) -> float | None:
    return BODIES * float(group["step_gflops"].mean(skipna=False)) if _trained(group) else None


def _training(group: DataFrame) -> float:
    clips = group["clips_seen"].mean(skipna=False)
    return 0.0 if clips == 0 else 1e-12 * float(group["train_flops"].mean(skipna=False))


def _speed(group: DataFrame) -> float | None:
    clips, seconds = (group[name].mean(skipna=False) for name in ("clips_seen", "train_seconds"))
    return float(clips / seconds) if _trained(group) and seconds else None


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sort key: block, then cost of training, cheapest first; without counted cost last."""
    block = tuple(str(row[key]) for key in _BLOCK)
    cost = row["training"] if row["training"] == row["training"] else float("inf")
    return *block, cost, row["method"].value, row["tokens"], row["run"]


LAYOUT = builder.Layout(
    "Accuracy in percent, and its cost",
    "nothing to compare yet: `skelbench run METHOD --tokens 8` trains and evaluates a method, counts what a step costs "
    "and times its encoder",
    (
        Column("method", "Method", leads=True),
        Column("tokens", "Tokens", leads=True),
        builder.Measure(
            Column("place", "Dataset and split", shown="varies", heads=True),
            lambda group: f"{group['dataset'].iloc[0]} / {group['split'].iloc[0]}",
        ),
        builder.setting("data"),
        Column("dataset", "Dataset", shown=False),
        Column("split", "Split", shown=False),
        *(builder.setting(key, heads=key in _BLOCK) for key in _SHOWN),
        builder.Measure(Column("seeds", "Seeds", "d", minor=True), len),
        builder.Measure(Column("accuracy", "Linear", ".1f", best="max"), builder.LINEAR.cell),
        builder.mean_of(Column("clips_seen", "Clips seen", ",.0f", minor=True), "clips_seen"),
        builder.Measure(Column("step", f"Step GFLOPs, {BODIES} bodies", ",.2f", best="min", minor=True), _step),
        builder.Measure(Column("training", f"Pre-training TFLOPs, {BODIES} bodies", ".3g"), _training),
        builder.Measure(Column("speed", "Training clips/s", ",.0f", best="max", minor=True), _speed),
        builder.mean_of(GFLOPS, "clip_gflops"),
        Column("latency_1", "Latency of 1 clip, ms", ",.2f", best="min"),
        Column("latency_64", "Latency of 64 clips, ms", ",.1f", best="min", minor=True),
        Column("memory", "Peak memory, MB", ",.0f", best="min", minor=True),
        Column("parameters", "Encoder parameters", ",.0f", best="min", minor=True),
        Column("trainable", "Trained parameters", ",.0f", shown=False),
        Column("bodies", "Bodies timed", ".0f", shown=False),
        builder.Measure(Column("run", "Run", shown=False), builder.RUN.cell),
    ),
    _BLOCK,
    (
        INTERVALS,
        "Pre-training: FLOPs of a training step per clip (all views, teacher, heads, forward and backward) times clips "
        f"seen, {BODIES} bodies, matrix products, 2 per multiply-accumulate: a budget, not ranked. "
        "Clips/s: over all seconds of training. Latency (median) and memory (64 clips): of the frozen encoder on the "
        "run's own machine; ranked only where hardware, device and threads agree.",
    ),
    {
        "costless": "no whole cost.json: `skelbench run` of the same settings counts and times it; trials of tuning "
        "have none"
    },
    order=_order,
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "accuracy against pre-training FLOPs, clips per second, latency, memory and parameters"
    return [TableSpec(name=NAME, target=":table", summary=summary, probe="linear", reference=True)]


def table(inputs: TableInputs) -> Table:
    """One row per setting that was probed after its last epoch, on the data that it was trained on, over its seeds."""
    frame = builder.probed(inputs.compared, checkpoint="last", source="")
    frame = frame[frame["method"] != "raw"]
    rows = builder.over_seeds(LAYOUT.columns, seeds_of(frame, _SETTING))
    for row, group in rows:
        row |= _machine(group, inputs.store)
    return builder.build(LAYOUT, rows)


def _machine(group: DataFrame, store: ResultStore) -> dict[str, Any]:
    """Cells of times and memory measured on the machine, means over seeds; empty unless every run has its cost."""
    import pandas

    costs = [cost for name in group["run"] if (cost := if_whole(partial(RunDir.cost, RunDir(store.root / name))))]
    complete = len(costs) == len(group)
    measured = pandas.json_normalize(costs if complete else []).dropna(axis="columns")

    def over(key: str) -> float | None:
        return mean(measured[key].tolist()) if key in measured else None

    def text(key: str) -> str:
        return ", ".join(dict.fromkeys(map(str, measured[key]))) if key in measured else ""

    device, threads = text("latency.batch 1.device"), text("latency.batch 1.threads")
    memory = over("peak_memory.bytes")
    return {
        "method": Cell(group["title"].iloc[0], footnotes=() if complete else ("costless",)),
        "latency_1": over("latency.batch 1.median_ms"),
        "latency_64": over("latency.batch 64.median_ms"),
        "memory": None if memory is None else memory / 1e6,
        "parameters": over("parameters.encoder"),
        "trainable": over("parameters.trainable"),
        "timed": device + (f" (threads: {threads})" if threads else ""),
        "memory_how": text("peak_memory.how"),
        "bodies": over("bodies_timed"),
    }
