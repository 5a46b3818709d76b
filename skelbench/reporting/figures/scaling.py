"""``plot scaling``: accuracy over clips seen and over whole training FLOPs, from snapshots and finished trainings."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.panels import Heading, panel_grid
from skelbench.reporting.figures.style import (
    COLOURS,
    GUIDE,
    MARKERS,
    PALE,
    SHADES,
    house,
    log_axis,
    look_of,
    number,
    places,
    span,
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
    "Filled: finished trainings, whose learning rate has run its whole course; those of several lengths are "
    "joined by a solid line. Hollow, dashed: snapshots (RUN@EPOCH) on the way of one training, whose learning rate had "
    "not come down yet: they say how it went, not what a shorter training would reach. "
    "Points: mean over the seeds of each; a dashed way is of the same seeds from its first snapshot to its end, which "
    f"is beside the filled point where that has more. {FLOPS}."
)
DASHES: tuple[Any, ...] = (":", (0, (5, 3)), "-.", (0, (1, 5)))
"""Of the untrained encoder, by token grid; dashes of trainings have a colour."""
NO_SNAPSHOTS = "No snapshot was evaluated yet: skelbench runs show RUN lists them, skelbench eval RUN@EPOCH does."


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "accuracy over clips seen and over training FLOPs, from snapshots and finished trainings (--protocol)"
    return [FigureSpec(name="scaling", target=":draw", summary=summary)]


@dataclass(frozen=True)
class Stage:
    """A training that has come so far. Accuracies in percent."""

    clips: float
    pflops: float | None
    """10¹⁵ operations; None where a step was not counted."""
    accuracy: float
    finished: bool


class Line(NamedTuple):
    """What is one line, in the order of the legend."""

    title: str
    tokens: int
    changed: str = ""
    """Settings that are not the preset's and say more than how long it trained."""

    @property
    def label(self) -> str:
        """``SLiM, 8 tokens (train.lr=1)``."""
        return f"{self.title}, {self.tokens} tokens" + (f" ({self.changed})" if self.changed else "")


@dataclass
class Course:
    """The trainings of a line."""

    ends: list[Stage] = field(default_factory=list)
    """Finished ones, over all their seeds."""
    ways: list[list[Stage]] = field(default_factory=list)
    """Snapshots of each with its end, ordered by clips and all of the same seeds."""

    @property
    def stages(self) -> list[Stage]:
        """All that is drawn."""
        return [*self.ends, *chain.from_iterable(self.ways)]


@dataclass
class Panel:
    """Trainings of one data set, split, preset and hardware."""

    heading: Heading
    lines: dict[Line, Course]
    untrained: dict[str, float] = field(default_factory=dict)
    """By token grid."""


def draw(inputs: TableInputs) -> Figure:
    """Accuracy over training, a row of two panels per data set, split, preset and hardware.

    Raises:
        NothingToDraw: no trained run was evaluated by the protocol.
    """
    panels = measured(inputs)
    if not panels:
        raise NothingToDraw(HOW.format(protocol=inputs.protocol, root=inputs.store.root))
    with house():
        return _figure(panels, inputs.protocol)


# ------------------------------------------------------------------------------------------------ what is drawn
def measured(inputs: TableInputs) -> list[Panel]:
    """Panels of what ``inputs.protocol`` evaluated of trained methods."""
    runs = {run.name: run for run in inputs.stored}
    frame = trainings(inputs)
    frame = frame[frame["protocol"] == inputs.protocol]
    spelt = {title: inputs.host.spelling(title) for title in frame["title"].unique()}
    frame = frame.assign(of_preset=frame["preset"].str.removesuffix("+"), title=frame["title"].map(spelt))
    panels = []
    for (dataset, split, preset, setting, encoder, stream, hardware, _), rows in frame.groupby(PANEL, sort=False):
        unusual = unusual_of(setting, encoder, stream)
        counted = (
            span([len(own) for own in seeds_of(rows, ["checkpoint"])], "seed", "seeds"),
            span(rows["n_test"], "test clip", "test clips"),
        )
        note = ", ".join([f"preset {preset}", *unusual, *counted, hardware])
        panels.append(Panel(Heading(f"{dataset}, {split}", note), _lines(rows, runs), _untrained(rows)))
    return sorted(panels, key=lambda panel: (panel.heading.name, panel.heading.note))


def _untrained(rows: DataFrame) -> dict[str, float]:
    """Accuracy of the untrained encoder by token grid: each of them once, however many runs stand above it."""
    controls = rows[rows["control_accuracy"].notna()].drop_duplicates(["tokens", "control_run"])
    return {str(grid): 100 * float(own.mean()) for grid, own in controls.groupby("tokens")["control_accuracy"]}


def _lines(rows: DataFrame, runs: dict[str, ReadRun]) -> dict[Line, Course]:
    lines: dict[Line, Course] = {}

    def course(own: DataFrame) -> Course:
        first = own.iloc[0]
        line = Line(str(first["title"]), runs[first["run"]].spec.tokens, str(first["others"]))
        return lines.setdefault(line, Course())

    for own in seeds_of(rows[rows["checkpoint"] == "last"], ["checkpoint"]):
        course(own).ends.append(_stage(own))
    for own in ways_of(rows):
        stages = (_stage(some) for _, some in own.groupby("checkpoint"))
        course(own).ways.append(sorted(stages, key=lambda stage: stage.clips))
    return dict(sorted(lines.items()))


def _stage(own: DataFrame) -> Stage:
    clips, flops = (float(own[key].astype(float).mean()) for key in ("clips_seen", "train_flops"))
    pflops = None if math.isnan(flops) else 1e-15 * flops
    return Stage(clips, pflops, 100 * float(own["accuracy"].mean()), own.iloc[0]["checkpoint"] == "last")


# ------------------------------------------------------------------------------------------------ drawing
def _figure(panels: Sequence[Panel], protocol: str) -> Figure:
    looks = _looks({line for panel in panels for line in panel.lines})
    legend = [(Line2D([], [], **look), line.label) for line, look in looks.items()]
    stages = [stage for panel in panels for course in panel.lines.values() for stage in course.stages]
    large = max((stage.pflops or 0 for stage in stages), default=0) >= 1
    snapshots = any(not stage.finished for stage in stages)
    if snapshots:
        hollow: dict[str, Any] = {
            "marker": "o",
            "markerfacecolor": "white",
            "markersize": 4.5,
            "linestyle": "--",
            "linewidth": 0.9,
        }
        legend.append((Line2D([], [], color=PALE, **hollow), "snapshots of one training"))
    grids = sorted({grid for panel in panels for grid in panel.untrained}, key=_counted)
    dashes = {grid: DASHES[place % len(DASHES)] for place, grid in enumerate(grids)}
    for grid, look in dashes.items():
        name = f"untrained encoder, {grid}" if len(grids) > 1 else "untrained encoder"
        legend.append((Line2D([], [], color=PALE, linestyle=look, linewidth=1), name))
    headings = [heading for panel in panels for heading in (panel.heading, Heading())]
    caption = [CAPTION, *([] if snapshots else [NO_SNAPSHOTS])]
    figure, grid = panel_grid("Accuracy over the course of training", headings, 2, legend, caption)
    for panel, over_clips, over_flops in zip(panels, grid[::2], grid[1::2]):
        _panel(over_clips, panel, looks, dashes, "clips")
        _panel(over_flops, panel, looks, dashes, "pflops", 1 if large else 1000)
        over_clips.set(xlabel="Clips seen", ylabel=f"Accuracy of {protocol}, %")
        over_flops.set(xlabel="Training PFLOPs" if large else "Training TFLOPs")
        over_clips.xaxis.set_major_formatter(FuncFormatter(thousands))
        over_flops.set_ylim(over_clips.get_ylim())
    return figure


def _looks(lines: Collection[Line]) -> dict[Line, dict[str, Any]]:
    """A look for each method with its settings; where token grids differ, markers are theirs, and others where colours
    come again."""
    places_of = places(f"{line.title} {line.changed}" for line in lines)
    grids = sorted({line.tokens for line in lines})
    looks = {}
    for line in sorted(lines):
        place = places_of[f"{line.title} {line.changed}"]
        looks[line] = look_of(place)
        if len(grids) > 1:
            again = place // (SHADES * len(COLOURS))
            looks[line]["marker"] = MARKERS[(again * len(grids) + grids.index(line.tokens)) % len(MARKERS)]
    return looks


def _counted(grid: str) -> list[int]:
    """``8x25+1`` before ``15x25+1``."""
    return [int(number) for number in re.findall(r"\d+", grid)]


def _panel(
    axes: Axes, panel: Panel, looks: Mapping[Line, dict[str, Any]], dashes: Mapping[str, Any], over: str, times: int = 1
) -> None:
    shown: list[float] = []
    for line, course in panel.lines.items():
        look = looks[line]
        ends = sorted(_places(course.ends, over, times))
        axes.plot(*_columns(ends), **look, linestyle="-" if len({x for x, _ in ends}) == len(ends) else "", zorder=4,
                  label=line.label)  # fmt: skip
        for stages in course.ways:
            way = list(_places(stages, over, times))
            if len(stages) > 1:
                axes.plot(*_columns(way), color=look["color"], linestyle="--", linewidth=0.9, zorder=2, label="_way")
            hollow = look | {"markerfacecolor": "white", "markeredgecolor": look["color"], "markersize": 4.5}
            some = list(_places([stage for stage in stages if not stage.finished], over, times))
            axes.plot(*_columns(some), **hollow, linestyle="", zorder=3, label=f"_{line.label}, snapshots")
        shown += [x for x, _ in _places(course.stages, over, times)]
    for grid, level in panel.untrained.items():
        axes.axhline(level, color=PALE, linestyle=dashes[grid], linewidth=1, zorder=1, label="_untrained")
    if not shown:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "not counted", transform=axes.transAxes, ha="center", color=PALE)
        return
    low, high = min(shown), max(shown)
    room = max(1.25, (high / low) ** 0.06)
    axes.set_xscale("log")
    axes.set_xlim(low / room, high * room)
    axes.margins(y=0.12)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(number))
    log_axis(axes.xaxis, low / room, high * room)
    axes.grid(axis="y", color=GUIDE, linewidth=0.6)
    axes.set_axisbelow(True)


def _places(stages: Sequence[Stage], over: str, times: int) -> Iterator[tuple[float, float]]:
    for stage in stages:
        at = getattr(stage, over)
        if at is not None:
            yield times * at, stage.accuracy


def _columns(places: Sequence[tuple[float, float]]) -> tuple[Any, Any]:
    return [x for x, _ in places], [y for _, y in places]
