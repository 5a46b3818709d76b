"""``compare --table efficiency``: accuracy beside what it cost, from pre-training to one clip at inference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, Any

from skelbench.evaluation.cost import BODIES
from skelbench.plugin import TableSpec, hookimpl
from skelbench.records.errors import if_whole
from skelbench.records.run_dir import RunDir
from skelbench.reporting.seeds import INTERVALS, accuracy, alike, footnotes, seeds_of, subjects_note
from skelbench.reporting.table import Cell, Column, Table, footnotes_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.records.store import ResultStore
    from skelbench.reporting.inputs import TableInputs

NAME = "efficiency"
TITLE = "Accuracy in percent, and what it cost"
HOW = (
    "nothing to compare yet: `skelbench run METHOD --tokens 8` trains and evaluates a method, counts what a step costs "
    "and times its encoder"
)
_SETTING = [
    "title", "dataset", "split", "data", "tokens", "preset", "changed", "setting", "encoder", "hardware", "protocol",
    "stream",
]  # fmt: skip
_SHOWN = {
    "dataset": "Data set", "split": "Split", "preset": "Preset", "changed": "Changed settings", "setting": "Setting",
    "encoder": "Encoder", "hardware": "Hardware", "timed": "Timed on", "memory_how": "Memory is", "protocol": "Probe",
    "stream": "Stream",
}  # fmt: skip
_BLOCK = (
    "dataset", "split", "data", "setting", "preset", "protocol", "stream", "hardware", "timed", "memory_how", "bodies",
)  # fmt: skip
"""What rows that compete have in common: times and memory mean something on one machine alone."""
_NUMBERS = ("clip_gflops", "step_gflops", "train_flops", "clips_seen", "train_seconds")


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "accuracy against whole pre-training FLOPs, clips per second, latency, memory, parameters"
    return [TableSpec(name=NAME, target=":table", summary=summary)]


def table(inputs: TableInputs) -> Table:
    """One row per setting that was probed after its last epoch, on the data that it was trained on, over its seeds."""
    import pandas

    frame = inputs.frame
    frame = frame[
        frame["protocol"].astype(str).str.startswith("linear")
        & (frame["checkpoint"] == "last")
        & (frame["source"] == "")
        & (frame["method"] != "raw")
    ]
    if frame.empty:
        return Table(TITLE, _columns(set()), notes=(HOW,))
    frame = frame.assign(**{name: pandas.to_numeric(frame[name]) for name in _NUMBERS})
    rows = [_row(group, inputs.store) for group in seeds_of(frame, _SETTING)]
    rows.sort(key=_place)
    varying, constant = alike(rows, [*(key for key in _SHOWN if any(row[key] for row in rows)), "data"])
    used = footnotes_of(rows, {"costless": COSTLESS, **footnotes(frame)})
    alike_in = ", ".join(constant).replace("timed ", "timed on ").replace("memory how ", "memory is ")
    notes = (*([f"All rows: {alike_in}."] if constant else []), *_notes(frame))
    return Table(TITLE, _columns(varying), tuple(rows), notes, used).ranked(within=_BLOCK)


COSTLESS = (
    "no whole cost.json: `skelbench run` of the same settings counts and times it, of trials of tuning nothing does"
)


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Blocks together, in each the cheaper training first; one that nobody counted is last."""
    block = tuple(str(row[key]) for key in _BLOCK)
    cost = row["training"] if row["training"] == row["training"] else float("inf")
    return *block, cost, row["method"].value, row["tokens"], row["run"]


def _row(group: DataFrame, store: ResultStore) -> dict[str, Any]:
    first = group.iloc[0]
    costs = [cost for name in group["run"] if (cost := if_whole(partial(RunDir.cost, RunDir(store.root / name))))]
    whole = len(costs) == len(group)
    figures = group[[*_NUMBERS]].mean(skipna=False)
    trained = bool(figures["clips_seen"] > 0)
    seconds = figures["train_seconds"] if trained else 0.0
    row: dict[str, Any] = {key: str(first[key]) for key in _SETTING}
    row["method"] = Cell(row.pop("title"), footnotes=() if whole else ("costless",))
    return {
        **row,
        "place": f"{row['dataset']} / {row['split']}",
        "seeds": len(group),
        "accuracy": accuracy(group),
        "clips_seen": figures["clips_seen"],
        "step": BODIES * figures["step_gflops"] if trained else None,
        "training": 0.0 if figures["clips_seen"] == 0 else 1e-12 * figures["train_flops"],
        "speed": figures["clips_seen"] / seconds if seconds else None,
        "gflops": figures["clip_gflops"],
        **(_measured(costs) if whole else {"timed": "", "memory_how": "", "bodies": None}),
        "run": ", ".join(map(str, group["run"])),
    }


def _measured(costs: list[dict[str, Any]]) -> dict[str, Any]:
    """What was timed on the machine, means over seeds; a figure that one of them lacks is empty."""

    def over(*keys: str) -> float | None:
        found = [_within(cost, keys) for cost in costs]
        return mean(found) if all(isinstance(value, int | float) for value in found) else None

    def said(*keys: str) -> str:
        return ", ".join(dict.fromkeys(str(value) for cost in costs if (value := _within(cost, keys)) is not None))

    device, threads = said("latency", "batch 1", "device"), said("latency", "batch 1", "threads")
    memory = over("peak_memory", "bytes")
    return {
        "latency_1": over("latency", "batch 1", "median_ms"),
        "latency_64": over("latency", "batch 64", "median_ms"),
        "memory": None if memory is None else memory / 1e6,
        "parameters": over("parameters", "encoder"),
        "trainable": over("parameters", "trainable"),
        "timed": device + (f" (threads: {threads})" if threads else ""),
        "memory_how": said("peak_memory", "how"),
        "bodies": over("bodies_timed"),
    }


def _within(cost: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    value: Any = cost
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _columns(varying: set[str]) -> tuple[Column, ...]:
    return (
        Column("method", "Method", leads=True),
        Column("tokens", "Tokens", leads=True),
        Column("place", "Data set and split", shown=not {"dataset", "split"}.isdisjoint(varying), heads=True),
        Column("data", "Data version", shown="data" in varying),
        *(Column(key, header, shown=key in varying - {"dataset", "split"}) for key, header in _SHOWN.items()),
        Column("seeds", "Seeds", "d", minor=True),
        Column("accuracy", "Linear", ".1f", best="max"),
        Column("clips_seen", "Clips seen", ",.0f", minor=True),
        Column("step", f"Step GFLOPs, {BODIES} bodies", ",.2f", best="min", minor=True),
        Column("training", f"Pre-training TFLOPs, {BODIES} bodies", ".3g"),
        Column("speed", "Training clips/s", ",.0f", best="max", minor=True),
        Column("gflops", f"Inference GFLOPs, {BODIES} bodies", ",.2f", best="min", minor=True),
        Column("latency_1", "Latency of 1 clip, ms", ",.2f", best="min"),
        Column("latency_64", "Latency of 64 clips, ms", ",.1f", best="min", minor=True),
        Column("memory", "Peak memory, MB", ",.0f", best="min", minor=True),
        Column("parameters", "Encoder parameters", ",.0f", best="min", minor=True),
        Column("trainable", "Trained parameters", ",.0f", shown=False),
        Column("bodies", "Bodies timed", ".0f", shown=False),
        Column("run", "Run", shown=False),
    )


def _notes(frame: DataFrame) -> Iterator[str]:
    yield (
        "Pre-training: FLOPs of a training step per clip (all views, teacher, heads, forward and backward) times clips "
        f"seen, {BODIES} bodies, matrix products, 2 per multiply-accumulate: a budget, of which neither end is better. "
        "Clips/s: over all seconds of training. Latency (median) and memory (64 clips): of the frozen encoder on the "
        "run's own machine; ranked only where hardware, device and threads agree."
    )
    yield INTERVALS
    yield from subjects_note(frame)
