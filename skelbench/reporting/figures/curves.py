"""``plot curves`` and ``plot target-control``: metrics that were logged during training, over the clips seen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pandas import DataFrame, Series

from skelbench.core.spec import listed
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.records.errors import if_whole
from skelbench.records.metrics import read_metrics
from skelbench.records.run_dir import RunDir
from skelbench.reporting import published
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import (
    DASHES,
    PALE,
    finish,
    linear_axis,
    log_axis,
    look_of,
    method_look,
    most_of,
    panel_grid,
    span,
    styled,
    thousands,
)
from skelbench.reporting.frame import DEFAULTS, but_for_seed
from skelbench.reporting.scaling import LENGTH
from skelbench.reporting.target_control import NAME, rows_of

if TYPE_CHECKING:
    from skelbench.reporting.inputs import TableInputs

WIDE = 4
"""Largest number of columns of panels."""
RANKS = {"rank_pooled": "pooled features", "rank_cls": "class token", "rank_masked": "masked positions"}
HOW = "no trained run with logged metrics is in {root}; start with: skelbench run METHOD --tokens 8"
CAPTION = (
    "Thick lines are geometric means over seeds (arithmetic if values are negative), thin lines are single seeds. The "
    "line style shows the number of temporal tokens. Losses of different methods have different units."
)
FEWER = "Drawn: the {shown} of {count} datasets, splits and presets with the most methods (--dataset, --preset)."
HOW_TARGETS = (
    "no run with another target of masked prediction is in {root} yet; start with: skelbench study target-control"
)
CAPTION_TARGETS = (
    "Thick lines are geometric means over seeds, thin lines are single seeds. Effective rank: features at masked "
    "positions; dotted lines: pooled features of the encoder; 1 = one direction. Losses have different units: compare "
    "how far squared errors fall."
)
NEGATIVE = 0.1
"""A panel with a line that has a larger fraction of values below 0 (SimSiam's loss) has no log axis."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    every = "loss and effective ranks during training"
    targets = "masked-prediction loss and effective rank during training, one line per prediction target"
    return [
        FigureSpec(name="curves", target=":draw", summary=every),
        FigureSpec(name=NAME, target=":draw_targets", summary=targets),
    ]


@dataclass
class Line:
    """The runs of one setting: the metrics of each seed, and the look of their line."""

    label: str = ""
    setting: str = ""
    """Hash that the runs share."""
    look: dict[str, Any] = field(default_factory=dict)
    seeds: list[DataFrame] = field(default_factory=list)


@dataclass(frozen=True)
class Measure:
    """A row of panels: column ``key`` of the metrics, and dotted column ``faint``."""

    key: str
    label: str
    faint: str = ""
    rank: bool = False
    """An effective rank: a line shows its minimum 1."""


@dataclass
class Column:
    """A column of panels: runs on the same data."""

    title: str
    facts: tuple[str, ...]
    """Method or preset first."""
    hardware: set[str] = field(default_factory=set)
    lines: dict[Any, Line] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    """Note on lines that are not drawn."""

    @property
    def clips(self) -> list[float]:
        """Clips that each run has seen."""
        return [frame["clips_seen"].max() for line in self.lines.values() for frame in line.seeds]

    @property
    def heading(self) -> tuple[str, str]:
        """Dataset and split; method or preset, seeds, clips seen, hardware."""
        seeds = [len(line.seeds) for line in self.lines.values()]
        counted = span(seeds, "seed", "seeds"), span(self.clips, "clip seen", "clips seen")
        return self.title, ", ".join([*self.facts, *counted, *sorted(self.hardware), *self.hidden])


Columns = dict[tuple[str, ...], Column]


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return loss and effective ranks of every trained run, a column of panels per dataset, split and preset.

    Raises:
        NothingToDraw: there is no trained run.
    """
    columns: Columns = {}
    for run, metrics in sorted(_trained(inputs, LENGTH), key=lambda pair: (pair[0].title, pair[0].spec.tokens)):
        usual = not LENGTH & set(run.info["modified"])
        line = _line(columns, run, (usual, but_for_seed(run)))
        line.seeds.append(metrics)
        length = "" if usual else f", {thousands(metrics['clips_seen'].max())} clips"
        line.label = f"{inputs.host.spelling(run.title)}, {run.spec.tokens} tokens{length}"
        line.look = method_look(inputs.host, run.title) | {"linestyle": DASHES[run.spec.tokens % len(DASHES)]}
    if not columns:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    frame = inputs.every[inputs.every["protocol"] == inputs.protocol]
    best = frame.groupby("training")["accuracy"].max()
    for column in columns.values():
        ranks = {(usual, setting): usual + best.get(setting, 0.0) for usual, setting in column.lines}
        shown, column.hidden = most_of(ranks, "lines, the most accurate")
        column.lines = {key: line for key, line in column.lines.items() if key in shown}
    drawn = sorted(columns.values(), key=lambda column: -len(column.lines))[:WIDE]
    captions = [CAPTION, *([FEWER.format(shown=WIDE, count=len(columns))] if len(columns) > WIDE else [])]
    logged = {key for column in drawn for line in column.lines.values() for frame in line.seeds for key in frame}
    measures = [Measure("loss", "Loss")]
    measures += [Measure(key, f"Rank, {label}", rank=True) for key, label in RANKS.items() if key in logged]
    return finish(_draw_columns(drawn, measures), "Training curves", captions)


@styled
def draw_targets(inputs: TableInputs) -> Figure:
    """Return loss over rank, a column per method, dataset, split, token grid and preset with a changed target.

    Lines and their order are the rows of the table of the same name.

    Raises:
        NothingToDraw: no run has another target than its method.
    """
    rows = {row.title: row for row in rows_of(inputs)}
    names = {title: str(row.labels.get("target", inputs.host.spelling(title))) for title, row in rows.items()}
    columns: Columns = {}
    controlled: dict[int, Column] = {}
    for run, metrics in sorted(_trained(inputs), key=lambda pair: pair[0].info.get("finished") or 0.0):
        if row := rows.get(run.title):
            changes = listed(run.info["modified"])
            label = names[run.title] + (f" ({changes})" if changes else "")
            facts = inputs.host.spelling(run.spec.method), f"{run.spec.tokens} tokens"
            line = _line(columns, run, label, *facts)
            if line.setting != but_for_seed(run):
                line.setting, line.seeds, line.label = but_for_seed(run), [], label
            line.seeds.append(metrics)
            if row.against is not None:
                column = _column(columns, run, *facts)
                controlled[id(column)] = column
    if not controlled:
        raise NothingToDraw(HOW_TARGETS.format(root=inputs.store.root))
    labels = [line.label for column in controlled.values() for line in column.lines.values()]
    looks = {label: look_of(place) for place, label in enumerate(dict.fromkeys([*names.values(), *sorted(labels)]))}
    for column in controlled.values():
        column.lines = {label: column.lines[label] for label in looks if label in column.lines}
        for line in column.lines.values():
            line.look = looks[line.label] | {"marker": "", "linestyle": "-"}
    measures = [
        Measure("mfp", "Masked-prediction loss"),
        Measure("rank_masked", "Effective rank", faint="rank_pooled", rank=True),
    ]
    figure = _draw_columns(list(controlled.values()), measures)
    dotted = Line2D([], [], color=PALE, linestyle=":", linewidth=1), "pooled features of the encoder"
    captions = [CAPTION_TARGETS, *published.notes(inputs.host, NAME)]
    return finish(figure, "Training by prediction target of masked tokens", captions, [dotted])


# ------------------------------------------------------------------------------------------------ data
def _trained(inputs: TableInputs, free: Collection[str] = ()) -> Iterator[tuple[RunDir, DataFrame]]:
    """Finished runs that may be shown, with their metrics; ``free``: settings that may differ from the preset."""
    for run in inputs.runs:
        selected = inputs.only is None or run.name in inputs.only
        if selected and run.outcome == "done" and (inputs.admits(run) or set(run.info["modified"]) <= set(free)):
            inputs.also_shown = {*inputs.also_shown, run.name}
            metrics = if_whole(partial(read_metrics, run))
            if metrics is not None and len(metrics):
                yield run, metrics


def _column(columns: Columns, run: RunDir, *facts: str) -> Column:
    """The column of ``run``: runs on the same data (also their version) and split with the same preset, encoder
    and ``facts``."""
    spec, info = run.spec, run.info
    native = " (native)" if info.get("setting") == "native" else ""
    preset = f"preset {info['preset']}{native}{'+' if set(info['modified']) - LENGTH else ''}"
    title = f"{spec.data.title}, {spec.data.split}"
    encoder = () if spec.encoder == DEFAULTS["encoder"] else (f"encoder {spec.encoder}",)
    facts = (*facts, preset, *encoder)
    column = columns.setdefault((title, spec.data.fingerprint, *facts), Column(title, facts))
    column.hardware.add(run.hardware)
    return column


def _line(columns: Columns, run: RunDir, key: Any, *facts: str) -> Line:
    return _column(columns, run, *facts).lines.setdefault(key, Line())


def series(frame: DataFrame, key: str) -> Series:
    """Values of ``key`` by clips seen at the steps that logged it; NaN for values that are not finite."""
    if key not in frame:
        return Series(dtype=float)
    values = frame.set_index("clips_seen")[key].dropna().astype(float)
    return values.where(np.isfinite(values))


def mean(seeds: Sequence[Series], signed: bool = False) -> Series:
    """Mean over seeds at the clips that all of them logged: the geometric mean, NaN if a value is not positive, or if
    ``signed`` the arithmetic mean."""
    rows = pandas.concat(seeds, axis=1, join="inner")
    if signed:
        return rows.mean(axis=1, skipna=False)
    return np.exp(np.log(rows.where(rows > 0)).mean(axis=1, skipna=False))


# ------------------------------------------------------------------------------------------------ drawing
def _draw_columns(columns: Sequence[Column], measures: Sequence[Measure]) -> Figure:
    """Draw the ``columns``, by their titles, with a panel for each of ``measures``."""
    columns = sorted(columns, key=lambda column: (column.title, column.facts))
    count = len(columns)
    headings = [*(column.heading for column in columns), *[("", "")] * count * (len(measures) - 1)]
    figure, grid = panel_grid(headings, count, height=1.5)
    for place, axes in enumerate(grid):
        measure, column, last = measures[place // count], columns[place % count], place >= len(grid) - count
        _panel(axes, column, measure)
        axes.tick_params(labelbottom=last)
        axes.set(xlabel="Clips seen" if last else "", ylabel="" if place % count else measure.label)
    return figure


def _panel(axes: Axes, column: Column, measure: Measure) -> None:
    def logged(line: Line, key: str) -> list[Series]:
        return [values for frame in line.seeds if len(values := series(frame, key))]

    drawn = [(line, logged(line, measure.key), logged(line, measure.faint)) for line in column.lines.values()]
    signed = any((values < 0).mean() > NEGATIVE for _, seeds, _ in drawn for values in seeds)

    def plot(values: Series, label: str, **look: Any) -> None:
        axes.plot(values if signed else values.where(values > 0), label=label, **look)

    for line, seeds, faint in drawn:
        plain = {"color": line.look["color"]}
        for drawn_seed in seeds if len(seeds) > 1 else ():
            plot(drawn_seed, "_seed", **plain, linestyle=line.look["linestyle"], linewidth=0.6, alpha=0.5, zorder=2)
        if seeds:
            values = mean(seeds, signed)
            plot(values, line.label, **line.look, markevery=max(1, len(values) // 8), zorder=4)
        if faint:
            plot(mean(faint, signed), "_faint", **plain, linestyle=":", linewidth=1, zorder=3)
    linear_axis(axes.xaxis, thousands)
    axes.set_xlim(0, 1.02 * max(column.clips))
    heights = np.concatenate([np.empty(0), *(np.asarray(line.get_ydata(), float) for line in axes.lines)])
    heights = heights[np.isfinite(heights)]
    if not len(heights):
        axes.set_yticks([])
        why = "nothing above 0" if axes.lines else "not logged"
        axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", color=PALE)
    elif signed:
        linear_axis(axes.yaxis)
    else:
        if measure.rank:
            axes.axhline(1, color=PALE, linewidth=0.7, zorder=1, label="_one")
            heights = np.append(heights, [1.0, 2.0])
        log_axis(axes, "y", heights)
