"""``plot scaling``: accuracy over clips seen and over whole training FLOPs, from snapshots and finished trainings."""

from __future__ import annotations

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
    DASHES,
    NOTE,
    PALE,
    accuracy_axis,
    finish,
    hollow,
    log_axis,
    look_of,
    method_look,
    most_of,
    number,
    panel_grid,
    span,
    styled,
    thousands,
)
from skelbench.reporting.scaling import FLOPS, trainings
from skelbench.reporting.seeds import chance, hardware, seeds_of, unusual_of, ways_of

if TYPE_CHECKING:
    from skelbench.reporting.inputs import TableInputs

PANEL = ["dataset", "split", "of_preset", "setting", "encoder", "stream", "data"]
HOW = "no trained run was evaluated by {protocol} in {root} yet; start with: skelbench run METHOD --tokens 8"
CAPTION = (
    "Filled markers are finished trainings; a solid line joins trainings of different lengths. Hollow markers are "
    "snapshots (RUN@EPOCH) of one training, taken before its learning rate had decayed. Markers are means over seeds; "
    "a dashed line has the same seeds everywhere. A number next to a marker is the number of temporal tokens, if "
    f"it is not the smallest of the panel. {FLOPS}."
)
SINGLE = "Panels with one training length per method are not drawn: {count}."


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "accuracy against clips seen and training FLOPs, for snapshots and finished trainings (--protocol)"
    return [FigureSpec(name="scaling", target=":draw", summary=summary)]


@dataclass
class Line:
    """The trainings of a method at one token grid. Columns: clips, flops (10¹², NaN = not counted), accuracy (percent)
    and finished."""

    ends: DataFrame
    """Finished trainings, over all their seeds."""
    ways: list[DataFrame]
    """Snapshots of each training with its end, ordered by clips and all of the same seeds."""


@dataclass
class Panel:
    """Trainings of one dataset, split and preset."""

    heading: tuple[str, str]
    lines: dict[tuple[str, int], Line]
    """By label, ``SLiM (train.lr=1)``, and temporal tokens."""
    untrained: dict[str, float]
    """Accuracy by token grid."""

    @property
    def stages(self) -> DataFrame:
        """All points of all lines."""
        return pandas.concat([stages for line in self.lines.values() for stages in (line.ends, *line.ways)])


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return accuracy over training, a row of two panels per dataset, split and preset.

    Raises:
        NothingToDraw: no trained run was evaluated by the protocol.
    """
    every = measured(inputs)
    if not every:
        raise NothingToDraw(HOW.format(protocol=inputs.protocol, root=inputs.store.root))
    panels = [panel for panel in every if any(map(_long, panel.lines.values()))] or every
    labels = {label for panel in panels for label, _ in panel.lines}
    looks = {label: method_look(inputs.host, label.partition(" (")[0]) for label in sorted(labels)}
    stages = pandas.concat([panel.stages for panel in panels])
    grids = sorted({grid for panel in panels for grid in panel.untrained}, key=lambda grid: int(grid.partition("x")[0]))
    figure, axes = panel_grid([heading for panel in panels for heading in (panel.heading, ("", ""))], 2)
    for panel, over_clips, over_flops in zip(panels, axes[::2], axes[1::2]):
        for panel_axes, over in ((over_clips, "clips"), (over_flops, "flops")):
            _panel(panel_axes, panel, looks, over)
            for grid, level in panel.untrained.items():
                look = {"color": PALE, "linestyle": DASHES[1:][grids.index(grid) % 3], "linewidth": 1, "zorder": 1}
                panel_axes.axhline(level, **look, label=f"untrained encoder, {grid}")
        accuracy_axis(over_clips, f"Accuracy of {inputs.protocol}, %")
        accuracy_axis(over_flops, "")
        over_clips.set_xlabel("Clips seen")
        over_flops.set(xlabel="Training TFLOPs", ylim=over_clips.get_ylim())
    captions, legend = [CAPTION], []
    if not stages["finished"].all():
        dashed = hollow(look_of(0) | {"color": PALE}) | {"linestyle": "--", "linewidth": 0.9}
        legend = [(Line2D([], [], **dashed), "snapshots of one training")]
    if len(every) > len(panels):
        captions.append(SINGLE.format(count=len(every) - len(panels)))
    return finish(figure, "Accuracy over the course of training", captions, legend)


# ------------------------------------------------------------------------------------------------ data
def measured(inputs: TableInputs) -> list[Panel]:
    """Panels of the evaluations of trained methods by ``inputs.protocol``."""
    tokens = {run.name: int(run.spec.tokens) for run in inputs.stored}
    frame = trainings(inputs)
    frame = frame[frame["protocol"] == inputs.protocol]
    labels = [
        inputs.host.spelling(title) + (f" ({changed})" if changed else "")
        for title, changed in zip(frame["title"], frame["others"])
    ]
    frame = frame.assign(of_preset=frame["preset"].str.removesuffix("+"), label=labels, times=frame["run"].map(tokens))
    panels = []
    for (dataset, split, preset, setting, encoder, stream, _), rows in frame.groupby(PANEL, sort=False):
        counted = (
            span([len(own) for own in seeds_of(rows, ["checkpoint"])], "seed", "seeds"),
            span(rows["n_test"], "test clip", "test clips"),
        )
        controls = rows[rows["control_accuracy"].notna()].drop_duplicates(["tokens", "control_run"])
        untrained = {str(grid): 100 * float(x.mean()) for grid, x in controls.groupby("tokens")["control_accuracy"]}
        lines = {
            (str(label), int(times)): Line(
                _stages(seeds_of(own[own["checkpoint"] == "last"], ["checkpoint"])),
                [_stages(some for _, some in branch.groupby("checkpoint")) for branch in ways_of(own)],
            )
            for (label, times), own in rows.groupby(["label", "times"])
        }
        several = {label for (label, _), line in lines.items() if _long(line)}
        best = {str(label): own["accuracy"].max() + (label in several) for label, own in rows.groupby("label")}
        shown, hidden = most_of(best, "methods, several lengths first")
        facts = [f"preset {preset}", *unusual_of(setting, encoder, stream), *counted, hardware(rows), chance(rows)]
        note = ", ".join(filter(None, [*facts, *hidden]))
        lines = {key: line for key, line in lines.items() if key[0] in shown}
        panels.append(Panel((f"{dataset}, {split}", note), lines, untrained))
    return sorted(panels, key=lambda panel: panel.heading)


def _long(line: Line) -> bool:
    """Whether the line has several training lengths or snapshots."""
    return len(line.ends) > 1 or any(len(branch) > 1 for branch in line.ways)


def _stages(groups: Iterable[DataFrame]) -> DataFrame:
    """A row for each group of evaluations, the mean over its seeds, ordered by clips."""
    stages = [
        {
            "clips": own["clips_seen"].astype(float).mean(),
            "flops": 1e-12 * own["train_flops"].astype(float).mean(),
            "accuracy": 100 * own["accuracy"].mean(),
            "finished": own["checkpoint"].iloc[0] == "last",
        }
        for own in groups
    ]
    columns = ["clips", "flops", "accuracy", "finished"]
    return DataFrame(stages, columns=columns).astype({"finished": bool}).sort_values(columns)


# ------------------------------------------------------------------------------------------------ drawing
def _panel(axes: Axes, panel: Panel, looks: Mapping[str, dict[str, Any]], over: str) -> None:
    def plot(stages: DataFrame, **look: Any) -> None:
        measured = stages.dropna(subset=[over])
        axes.plot(measured[over], measured["accuracy"], **look)

    least = min(tokens for _, tokens in panel.lines)
    for (label, tokens), line in panel.lines.items():
        look = looks[label]
        joined = line.ends[over].dropna().is_unique
        plot(line.ends, **look, linestyle="-" if joined else "", zorder=4, label=label)
        for branch in line.ways:
            if len(branch) > 1:
                plot(branch, color=look["color"], linestyle="--", linewidth=0.9, zorder=2, label="_way")
            plot(branch[~branch["finished"]], **hollow(look), zorder=3, label=f"_{label}, snapshots")
        if tokens > least and len(last := line.ends.dropna(subset=[over])[-1:]):
            place = last[over].iloc[0], last["accuracy"].iloc[0]
            offset: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": NOTE}
            axes.annotate(str(tokens), place, **offset, color=look["color"])
    heights = panel.stages[over].dropna()
    if len(heights):
        log_axis(axes, "x", heights, thousands if over == "clips" else number)
    else:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "not counted", transform=axes.transAxes, ha="center", color=PALE)
