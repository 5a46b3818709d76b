"""``compare --table scaling``: accuracy over what training spent, of finished trainings of different lengths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skelbench.core.spec import listed
from skelbench.evaluation.cost import BODIES
from skelbench.pipeline.budget import KINDS
from skelbench.plugin import TableSpec, hookimpl
from skelbench.reporting.seeds import (
    INTERVALS,
    accuracy,
    adjust,
    alike,
    all_rows,
    every_seed,
    footnotes,
    nearest,
    over_raw,
    percent,
    seeds_of,
    subjects_note,
)
from skelbench.reporting.table import Column, Table, footnotes_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.records.run_dir import ReadRun
    from skelbench.reporting.inputs import TableInputs

NAME = "scaling"
TITLE = "Accuracy in percent over the length of training"
LENGTH = frozenset({"train.epochs", "train.iters_per_epoch", *(f"budget {kind}" for kind in KINDS)})
"""Settings by which only the length of a training differs."""
HOW = "nothing to compare yet: `skelbench study scaling` trains methods for different numbers of clips"
_BLOCK = {
    "dataset": "Data set", "split": "Split", "tokens": "Tokens", "preset": "Preset", "setting": "Setting",
    "encoder": "Encoder", "stream": "Stream", "hardware": "Hardware", "protocol": "Probe",
    "data": "Data version",
}  # fmt: skip
"""What rows that are compared have in common, and its headers."""
FLOPS = (
    f"Training FLOPs: all views, teacher, heads, forward and backward, of clips with {BODIES} bodies, matrix products"
)
_NUMBERS = ("accuracy", "difference", "p_value", "raw_difference", "raw_p_value", "n_test", "train_flops", "clips_seen")


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "accuracy over clips seen and training FLOPs, of trainings that differ in length"
    return [TableSpec(name=NAME, target=":table", summary=summary)]


def trainings(inputs: TableInputs) -> DataFrame:
    """The evaluations of trained runs, with the column ``others``: settings of the training or the probe that are not
    their preset's and say more than how long it trained. Without ``--all`` those that differ in nothing else, and their
    snapshots."""
    frame = inputs.every
    frame = frame[frame["clips_seen"].astype(float) > 0]
    trained = {run.name: (run.about["changed"], _other_settings(run)) for run in inputs.stored}
    others = [
        changed.replace(*trained[run], 1) if trained[run][0] else changed
        for run, changed in zip(frame["run"], frame["changed"])
    ]
    frame = frame.assign(others=[text.removeprefix(", ") for text in others])
    if inputs.exact_only:
        alone = (frame["others"] == "") & frame["standard"].astype(bool)
        frame = frame[alone | (frame["checkpoint"].ne("last") & frame["group"].isin(set(frame["group"][alone])))]
        inputs.also_shown = {*inputs.also_shown, *frame["run"]}
    return frame


def _other_settings(run: ReadRun) -> str:
    return listed({key: value for key, value in run.info["modified"].items() if key not in LENGTH})


def table(inputs: TableInputs) -> Table:
    """A row per method and length, over its seeds."""
    import pandas

    frame = trainings(inputs)
    frame = frame[(frame["checkpoint"] == "last") & (frame["source"] == "")]
    frame = frame.assign(preset=frame["preset"].str.removesuffix("+"))
    frame = frame.assign(**{name: pandas.to_numeric(frame[name]) for name in _NUMBERS})
    shown = frame[frame["protocol"].astype(str).str.startswith("linear")]
    knn = nearest(frame)
    rows = [_row(group, percent(knn(group))) for group in seeds_of(shown, ["title", *_BLOCK, "others", "clips_seen"])]
    if not rows:
        return Table(TITLE, _columns(set()), notes=(HOW,))
    adjust(rows, within=lambda row: tuple(row[key] for key in _BLOCK))
    rows.sort(key=lambda row: (*(str(row[key]) for key in _BLOCK), row["title"], row["others"], row["clips_seen"]))
    varying, constant = alike(rows, list(_BLOCK))
    notes = (*all_rows(constant), *_notes(shown))
    used = footnotes_of(rows, footnotes(frame))
    columns = _columns(varying | ({"others"} if any(row["others"] for row in rows) else set()))
    return Table(TITLE, columns, tuple(rows), notes, used).ranked(within=list(_BLOCK))


def _row(group: DataFrame, knn: Any) -> dict[str, Any]:
    first = group.iloc[0]
    return {
        **{key: str(first[key]) for key in ("title", *_BLOCK, "others")},
        "clips_seen": float(first["clips_seen"]),
        "training": 1e-12 * group["train_flops"].mean(skipna=False),
        "seeds": len(group),
        "accuracy": accuracy(group),
        "knn": knn,
        "difference": percent(group["difference"]),
        "p_value": every_seed(group),
        "raw": over_raw(group),
        "run": ", ".join(map(str, group["run"])),
    }


def _columns(varying: set[str]) -> tuple[Column, ...]:
    return (
        *(Column(key, header, shown=key in varying, leads=True) for key, header in _BLOCK.items()),
        Column("title", "Method", leads=True),
        Column("others", "Changed settings", leads=True, shown="others" in varying),
        Column("clips_seen", "Clips seen", ",.0f", leads=True),
        Column("training", f"Training TFLOPs, {BODIES} bodies", ".3g"),
        Column("seeds", "Seeds", "d"),
        Column("accuracy", "Linear", ".1f", best="max", beside=("pm", "interval")),
        Column("knn", "1-NN", ".1f", best="max", beside=("pm",)),
        Column("difference", "Over untrained", "+.1f", beside=("pm",)),
        Column("p_value", "p (Holm)", ".2g"),
        Column("raw", "Over raw", "+.1f", beside=("pm",)),
        Column("run", "Run", shown=False),
    )


def _notes(frame: DataFrame) -> Iterator[str]:
    yield (
        "Every row is a training of its own, whose learning rate has run its whole course; to have another length "
        f"than the preset is no changed setting here. {FLOPS}. p: against the untrained encoder, the largest over "
        f"seeds, Holm-adjusted over the rows beside it. {INTERVALS}"
    )
    yield from subjects_note(frame)
