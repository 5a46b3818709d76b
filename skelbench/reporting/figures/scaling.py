"""``plot scaling``: accuracy over clips seen and over whole training FLOPs, from snapshots and finished trainings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pandas import DataFrame

from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import (
    PALE,
    accuracy_axis,
    finish,
    hollow,
    log_axis,
    look_of,
    looks_of,
    number,
    panel_grid,
    span,
    styled,
    thousands,
)
from skelbench.reporting.scaling import FLOPS, trainings
from skelbench.reporting.seeds import seeds_of, unusual_of, ways_of

if TYPE_CHECKING:
    from skelbench.reporting.inputs import TableInputs

PANEL = ["dataset", "split", "of_preset", "setting", "encoder", "stream", "hardware", "data"]
HOW = "no trained run was evaluated by {protocol} in {root} yet; start with: skelbench run METHOD --tokens 8"
CAPTION = (
    "Filled: finished trainings, after the whole learning rate schedule; several training lengths are joined by a "
    "solid line. Hollow, dashed: snapshots (RUN@EPOCH) of one training before its learning rate had come down: they "
    "do not tell what a shorter training would reach. Points: mean over seeds; a dashed line has the same seeds from "
    f"its first snapshot to its end, which is next to the filled point if that has more. {FLOPS}."
)
DASHES: tuple[Any, ...] = (":", (0, (5, 3)), "-.", (0, (1, 5)))
"""Line styles of the untrained encoders, by token grid."""
NO_SNAPSHOTS = "No snapshot was evaluated yet: skelbench runs show RUN lists them, skelbench eval RUN@EPOCH does."


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "accuracy against clips seen and training FLOPs (--protocol)"
    return [FigureSpec(name="scaling", target=":draw", summary=summary)]


@dataclass
class Line:
    """The trainings of a method at one token grid. Columns: clips, flops (10¹⁵, NaN = not counted), accuracy (percent)
    and finished."""

    ends: DataFrame
    """Finished trainings, over all their seeds."""
    ways: list[DataFrame]
    """Snapshots of each training with its end, ordered by clips and all of the same seeds."""


@dataclass
class Panel:
    """Trainings of one data set, split, preset and hardware."""

    heading: tuple[str, str]
    lines: dict[str, Line]
    """By label, ``SLiM, 8 tokens (train.lr=1)``."""
    untrained: dict[str, float]
    """Accuracy by token grid."""

    @property
    def stages(self) -> DataFrame:
        """All points of all lines."""
        return pandas.concat([stages for line in self.lines.values() for stages in (line.ends, *line.ways)])


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return accuracy over training, a row of two panels per data set, split, preset and hardware.

    Raises:
        NothingToDraw: no trained run was evaluated by the protocol.
    """
    panels = measured(inputs)
    if not panels:
        raise NothingToDraw(HOW.format(protocol=inputs.protocol, root=inputs.store.root))
    looks = looks_of([], sorted({label for panel in panels for label in panel.lines}, key=_natural))
    stages = pandas.concat([panel.stages for panel in panels])
    large = stages["flops"].max() >= 1
    grids = sorted({grid for panel in panels for grid in panel.untrained}, key=_natural)
    figure, axes = panel_grid([heading for panel in panels for heading in (panel.heading, ("", ""))], 2)
    for panel, over_clips, over_flops in zip(panels, axes[::2], axes[1::2]):
        for panel_axes, over, scale in ((over_clips, "clips", 1), (over_flops, "flops", 1 if large else 1000)):
            _panel(panel_axes, panel, looks, over, scale)
            for grid, level in panel.untrained.items():
                label = f"untrained encoder, {grid}" if len(grids) > 1 else "untrained encoder"
                dash = DASHES[grids.index(grid) % len(DASHES)]
                panel_axes.axhline(level, color=PALE, linestyle=dash, linewidth=1, zorder=1, label=label)
        accuracy_axis(over_clips, f"Accuracy of {inputs.protocol}, %")
        accuracy_axis(over_flops, "")
        over_clips.set_xlabel("Clips seen")
        over_flops.set(xlabel="Training PFLOPs" if large else "Training TFLOPs", ylim=over_clips.get_ylim())
    captions, legend = [CAPTION, NO_SNAPSHOTS], []
    if not stages["finished"].all():
        dashed = hollow(look_of(0) | {"color": PALE}) | {"linestyle": "--", "linewidth": 0.9}
        captions, legend = [CAPTION], [(Line2D([], [], **dashed), "snapshots of one training")]
    return finish(figure, "Accuracy over the course of training", captions, legend)


# ------------------------------------------------------------------------------------------------ data
def measured(inputs: TableInputs) -> list[Panel]:
    """Panels of the evaluations of trained methods by ``inputs.protocol``."""
    tokens = {run.name: run.spec.tokens for run in inputs.stored}
    frame = trainings(inputs)
    frame = frame[frame["protocol"] == inputs.protocol]
    labels = [
        f"{inputs.host.spelling(title)}, {tokens[run]} tokens" + (f" ({changed})" if changed else "")
        for title, run, changed in zip(frame["title"], frame["run"], frame["others"])
    ]
    frame = frame.assign(of_preset=frame["preset"].str.removesuffix("+"), label=labels)
    panels = []
    for (dataset, split, preset, setting, encoder, stream, hardware, _), rows in frame.groupby(PANEL, sort=False):
        counted = (
            span([len(own) for own in seeds_of(rows, ["checkpoint"])], "seed", "seeds"),
            span(rows["n_test"], "test clip", "test clips"),
        )
        note = ", ".join([f"preset {preset}", *unusual_of(setting, encoder, stream), *counted, hardware])
        controls = rows[rows["control_accuracy"].notna()].drop_duplicates(["tokens", "control_run"])
        untrained = {str(grid): 100 * float(x.mean()) for grid, x in controls.groupby("tokens")["control_accuracy"]}
        lines = {
            str(label): Line(
                _stages(seeds_of(own[own["checkpoint"] == "last"], ["checkpoint"])),
                [_stages(some for _, some in branch.groupby("checkpoint")) for branch in ways_of(own)],
            )
            for label, own in rows.groupby("label")
        }
        panels.append(Panel((f"{dataset}, {split}", note), lines, untrained))
    return sorted(panels, key=lambda panel: panel.heading)


def _stages(groups: Iterable[DataFrame]) -> DataFrame:
    """A row for each group of evaluations, the mean over its seeds, ordered by clips."""
    stages = [
        {
            "clips": own["clips_seen"].astype(float).mean(),
            "flops": 1e-15 * own["train_flops"].astype(float).mean(),
            "accuracy": 100 * own["accuracy"].mean(),
            "finished": own["checkpoint"].iloc[0] == "last",
        }
        for own in groups
    ]
    columns = ["clips", "flops", "accuracy", "finished"]
    return DataFrame(stages, columns=columns).astype({"finished": bool}).sort_values(columns)


def _natural(text: str) -> list[str | int]:
    """Sort key by which ``8x25+1`` is before ``15x25+1``."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


# ------------------------------------------------------------------------------------------------ drawing
def _panel(axes: Axes, panel: Panel, looks: Mapping[str, dict[str, Any]], over: str, scale: float) -> None:
    def plot(stages: DataFrame, **look: Any) -> None:
        measured = stages.dropna(subset=[over])
        axes.plot(scale * measured[over], measured["accuracy"], **look)

    for label, line in panel.lines.items():
        look = looks[label]
        joined = line.ends[over].dropna().is_unique
        plot(line.ends, **look, linestyle="-" if joined else "", zorder=4, label=label)
        for branch in line.ways:
            if len(branch) > 1:
                plot(branch, color=look["color"], linestyle="--", linewidth=0.9, zorder=2, label="_way")
            plot(branch[~branch["finished"]], **hollow(look), zorder=3, label=f"_{label}, snapshots")
    heights = scale * panel.stages[over].dropna()
    if len(heights):
        log_axis(axes, "x", heights, thousands if over == "clips" else number)
    else:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "not counted", transform=axes.transAxes, ha="center", color=PALE)
