"""``compare --table scaling``: accuracy over the cost of training, for trainings with different numbers of steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skelbench.core.spec import listed
from skelbench.evaluation.cost import BODIES
from skelbench.pipeline.budget import KINDS
from skelbench.plugin import TableSpec, hookimpl
from skelbench.reporting import builder
from skelbench.reporting.seeds import INTERVALS, percent, seeds_of, with_other_protocols
from skelbench.reporting.table import Column, Table

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

NAME = "scaling"
LENGTH = frozenset({"train.epochs", "train.iters_per_epoch", *(f"budget {kind}" for kind in KINDS)})
"""Settings that change only the training length."""
BLOCK = ("dataset", "split", "tokens", "preset", "setting", "encoder", "stream", "protocol", "data")
"""Columns in which compared rows agree."""
FLOPS = (
    f"Training FLOPs: all views, teacher, heads, forward and backward, of clips with {BODIES} bodies, matrix products"
)
LAYOUT = builder.Layout(
    "Accuracy in percent over training length",
    "nothing to compare yet: `skelbench study scaling` trains methods for different numbers of clips",
    (
        *(builder.setting(key, leads=True, heads=True) for key in BLOCK),
        Column("title", "Method", leads=True),
        Column("others", "Changed settings", leads=True, shown="filled"),
        builder.mean_of(Column("clips_seen", "Clips seen", ",.0f", leads=True), "clips_seen"),
        builder.mean_of(Column("training", f"Training TFLOPs, {BODIES} bodies", ".3g"), "train_flops", 1e-12),
        builder.SEEDS,
        builder.LINEAR,
        builder.KNN,
        replace(builder.OVER_UNTRAINED, cell=lambda group: percent(group["difference"])),
        builder.P_VALUE,
        builder.OVER_RAW,
        builder.HARDWARE,
        builder.Measure(Column("run", "Run", shown=False), builder.RUN.cell),
    ),
    BLOCK,
    (
        INTERVALS,
        "Every row is a separate training with a whole learning rate schedule; another training length than the "
        f"preset's does not count as a changed setting here. {FLOPS}. p: against the untrained encoder, the largest "
        "over seeds, Holm-adjusted over the rows of a heading.",
    ),
    order=lambda row: (*(str(row[key]) for key in BLOCK), row["title"], row["others"], row["clips_seen"]),
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "accuracy against clips seen and training FLOPs, for different training lengths"
    return [TableSpec(name=NAME, target=":table", summary=summary, probe="linear", reference=True)]


def table(inputs: TableInputs) -> Table:
    """A row per method and training length, over its seeds."""
    frame = with_other_protocols(trainings(inputs))
    frame = frame.assign(preset=frame["preset"].str.removesuffix("+"))
    probed = builder.probed(frame, checkpoint="last", source="")
    rows = builder.over_seeds(LAYOUT.columns, seeds_of(probed, ["title", *BLOCK, "others", "clips_seen"]))
    return builder.build(LAYOUT, rows)


def trainings(inputs: TableInputs) -> DataFrame:
    """The evaluations of trained runs, with the column ``others``: changed settings other than the training length.
    Without ``--all`` only runs that differ in nothing else, and their snapshots."""
    frame = inputs.every
    frame = frame[frame["clips_seen"].astype(float) > 0]
    own = {run.name: {k: v for k, v in run.info["modified"].items() if k not in LENGTH} for run in inputs.stored}
    trained = {run.name: (run.about["changed"], listed(own[run.name])) for run in inputs.stored}
    pairs = zip(frame["run"], frame["changed"])
    changes = [changed.replace(*trained[run], 1) if trained[run][0] else changed for run, changed in pairs]
    frame = frame.assign(others=[text.removeprefix(", ") for text in changes])
    if inputs.exact_only:
        usual = (frame["others"] == "") & frame["standard"].astype(bool)
        frame = frame[usual | (frame["checkpoint"].ne("last") & frame["group"].isin(set(frame["group"][usual])))]
        inputs.also_shown = {*inputs.also_shown, *frame["run"]}
    return frame
