"""``plot scaling``: accuracy over clips seen and over whole training FLOPs, from snapshots and finished trainings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

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
    from pandas import DataFrame

    from skelbench.records.run_dir import ReadRun
    from skelbench.reporting.inputs import TableInputs

PANEL = ["dataset", "split", "of_preset", "setting", "encoder", "stream", "hardware", "data"]
HOW = "no trained run was evaluated by {protocol} in {root} yet; start with: skelbench run METHOD --tokens 8"
CAPTION = (
    "Filled: finished trainings, after the whole learning rate schedule; those of several lengths are joined by a "
    "solid line. Hollow, dashed: snapshots (RUN@EPOCH) of one training before its learning rate had come down: they "
    "do not tell what a shorter training would reach. Points: mean over seeds; a dashed line has the same seeds from "
    f"its first snapshot to its end, which is next to the filled point if that has more. {FLOPS}."
)
DASHES: tuple[Any, ...] = (":", (0, (5, 3)), "-.", (0, (1, 5)))
"""Line styles of the untrained encoders, by token grid."""
NO_SNAPSHOTS = "No snapshot was evaluated yet: skelbench runs show RUN lists them, skelbench eval RUN@EPOCH does."


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "accuracy over clips seen and over training FLOPs, from snapshots and finished trainings (--protocol)"
    return [FigureSpec(name="scaling", target=":draw", summary=summary)]


class Stage(NamedTuple):
    """A training up to some step. Accuracy in percent."""

    clips: float
    flops: float | None
    """10¹⁵ operations; None = not counted."""
    accuracy: float
    finished: bool


class Line(NamedTuple):
    """Identity of a line, in the order of the legend."""

    title: str
    tokens: int
    changed: str = ""
    """Settings that differ from the preset in more than training length."""

    @property
    def label(self) -> str:
        """``SLiM, 8 tokens (train.lr=1)``."""
        return f"{self.title}, {self.tokens} tokens" + (f" ({self.changed})" if self.changed else "")


@dataclass
class Course:
    """The trainings of a line."""

    ends: list[Stage] = field(default_factory=list)
    """Finished trainings, over all their seeds."""
    ways: list[list[Stage]] = field(default_factory=list)
    """Snapshots of each training with its end, ordered by clips and all of the same seeds."""


@dataclass
class Panel:
    """Trainings of one data set, split, preset and hardware."""

    heading: tuple[str, str]
    lines: dict[Line, Course]
    untrained: dict[str, float]
    """Accuracy by token grid."""


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return accuracy over training, a row of two panels per data set, split, preset and hardware.

    Raises:
        NothingToDraw: no trained run was evaluated by the protocol.
    """
    panels = measured(inputs)
    if not panels:
        raise NothingToDraw(HOW.format(protocol=inputs.protocol, root=inputs.store.root))
    lines = sorted({line for panel in panels for line in panel.lines})
    looks = looks_of([], (line.label for line in lines))
    courses = [course for panel in panels for course in panel.lines.values()]
    stages = [stage for course in courses for stage in chain(course.ends, *course.ways)]
    large = max((stage.flops or 0 for stage in stages), default=0) >= 1
    grids = sorted({grid for panel in panels for grid in panel.untrained}, key=_numbers)
    figure, axes = panel_grid([heading for panel in panels for heading in (panel.heading, ("", ""))], 2)
    for panel, over_clips, over_flops in zip(panels, axes[::2], axes[1::2]):
        for shown, over, times in ((over_clips, "clips", 1), (over_flops, "flops", 1 if large else 1000)):
            _panel(shown, panel, looks, over, times)
            for grid, level in panel.untrained.items():
                label = f"untrained encoder, {grid}" if len(grids) > 1 else "untrained encoder"
                dash = DASHES[grids.index(grid) % len(DASHES)]
                shown.axhline(level, color=PALE, linestyle=dash, linewidth=1, zorder=1, label=label)
        accuracy_axis(over_clips, f"Accuracy of {inputs.protocol}, %")
        accuracy_axis(over_flops, "")
        over_clips.set_xlabel("Clips seen")
        over_flops.set(xlabel="Training PFLOPs" if large else "Training TFLOPs", ylim=over_clips.get_ylim())
    snapshots = any(not stage.finished for stage in stages)
    dashed = hollow(look_of(0) | {"color": PALE}) | {"linestyle": "--", "linewidth": 0.9}
    legend = [(Line2D([], [], **dashed), "snapshots of one training")] if snapshots else []
    return finish(
        figure, "Accuracy over the course of training", [CAPTION, *([] if snapshots else [NO_SNAPSHOTS])], legend
    )


# ------------------------------------------------------------------------------------------------ data
def measured(inputs: TableInputs) -> list[Panel]:
    """Panels of the evaluations of trained methods by ``inputs.protocol``."""
    runs = {run.name: run for run in inputs.stored}
    frame = trainings(inputs)
    frame = frame[frame["protocol"] == inputs.protocol]
    spelled = {title: inputs.host.spelling(title) for title in frame["title"].unique()}
    frame = frame.assign(of_preset=frame["preset"].str.removesuffix("+"), title=frame["title"].map(spelled))
    panels = []
    for (dataset, split, preset, setting, encoder, stream, hardware, _), rows in frame.groupby(PANEL, sort=False):
        counted = (
            span([len(own) for own in seeds_of(rows, ["checkpoint"])], "seed", "seeds"),
            span(rows["n_test"], "test clip", "test clips"),
        )
        note = ", ".join([f"preset {preset}", *unusual_of(setting, encoder, stream), *counted, hardware])
        controls = rows[rows["control_accuracy"].notna()].drop_duplicates(["tokens", "control_run"])
        untrained = {str(grid): 100 * float(x.mean()) for grid, x in controls.groupby("tokens")["control_accuracy"]}
        panels.append(Panel((f"{dataset}, {split}", note), _lines(rows, runs), untrained))
    return sorted(panels, key=lambda panel: panel.heading)


def _lines(rows: DataFrame, runs: Mapping[str, ReadRun]) -> dict[Line, Course]:
    lines: dict[Line, Course] = {}

    def course(own: DataFrame) -> Course:
        first = own.iloc[0]
        line = Line(str(first["title"]), runs[first["run"]].spec.tokens, str(first["others"]))
        return lines.setdefault(line, Course())

    for own in seeds_of(rows[rows["checkpoint"] == "last"], ["checkpoint"]):
        course(own).ends.append(_stage(own))
    for own in ways_of(rows):
        course(own).ways.append(sorted(_stage(some) for _, some in own.groupby("checkpoint")))
    return dict(sorted(lines.items()))


def _stage(own: DataFrame) -> Stage:
    clips, flops = (float(own[key].astype(float).mean()) for key in ("clips_seen", "train_flops"))
    finished = own.iloc[0]["checkpoint"] == "last"
    return Stage(clips, None if math.isnan(flops) else 1e-15 * flops, 100 * float(own["accuracy"].mean()), finished)


def _numbers(grid: str) -> list[int]:
    """``[8, 25, 1]`` for ``8x25+1``, so that it is before ``15x25+1``."""
    return [int(digits) for digits in re.findall(r"\d+", grid)]


# ------------------------------------------------------------------------------------------------ drawing
def _panel(axes: Axes, panel: Panel, looks: Mapping[str, dict[str, Any]], over: str, times: float) -> None:
    for line, course in panel.lines.items():
        look = looks[line.label]
        ends = _points(course.ends, over, times)
        joined = len({x for x, _ in ends}) == len(ends)
        axes.plot(*_columns(sorted(ends)), **look, linestyle="-" if joined else "", zorder=4, label=line.label)
        for stages in course.ways:
            if len(stages) > 1:
                way = _columns(_points(stages, over, times))
                axes.plot(*way, color=look["color"], linestyle="--", linewidth=0.9, zorder=2, label="_way")
            snapshots = _columns(_points([stage for stage in stages if not stage.finished], over, times))
            axes.plot(*snapshots, **hollow(look), zorder=3, label=f"_{line.label}, snapshots")
    stages = [stage for course in panel.lines.values() for stage in chain(course.ends, *course.ways)]
    shown = [x for x, _ in _points(stages, over, times)]
    if shown:
        log_axis(axes, "x", shown, thousands if over == "clips" else number)
    else:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "not counted", transform=axes.transAxes, ha="center", color=PALE)


def _points(stages: Sequence[Stage], over: str, times: float) -> list[tuple[float, float]]:
    """(clips or FLOPs, accuracy) of the stages for which the former is known."""
    return [(times * x, stage.accuracy) for stage in stages if (x := getattr(stage, over)) is not None]


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
