"""``plot curves`` and ``plot target-control``: metrics that were logged during training, over the clips seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    COLORS,
    PALE,
    finish,
    linear_axis,
    log_axis,
    look_of,
    looks_of,
    panel_grid,
    span,
    styled,
    thousands,
)
from skelbench.reporting.frame import DEFAULTS, but_for_seed
from skelbench.reporting.target_control import NAME, rows_of

if TYPE_CHECKING:
    from skelbench.reporting.inputs import TableInputs

DASHES = ("-", (0, (4, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1, 1.5)))
"""Line styles of the token grids of one method."""
MARKED = 8
"""Approximate number of markers on a line."""
RANKS = {"rank_pooled": "pooled features", "rank_cls": "class token", "rank_masked": "masked positions"}
HOW = "no trained run with logged metrics is in {root}; start with: skelbench run METHOD --tokens 8"
CAPTION = (
    "Thick: geometric mean over seeds, of a loss with negative values the mean; thin: single seeds. Losses of "
    "different methods have different units."
)
HOW_TARGETS = (
    "no run with another target of masked prediction is in {root} yet; start with: skelbench study target-control"
)
CAPTION_TARGETS = (
    "Thick: geometric mean over seeds; thin: single seeds. Effective rank: lines, the projected features at masked "
    "positions; dotted, the inference encoder's pooled features; at 1 all features lie in one direction. Losses have "
    "different units: compare the falls of squared errors; a cross-entropy cannot fall below the entropy of its target."
)
NEGATIVE = 0.1
"""A panel with a line that has a larger fraction of values below 0 (SimSiam's loss) has no log axis."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    every = "loss and effective ranks against clips seen, for every trained run"
    targets = "masked-prediction loss and effective rank against clips seen, for each target"
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
    """Method or preset first, hardware last."""
    lines: dict[Any, Line] = field(default_factory=dict)

    @property
    def clips(self) -> list[float]:
        """Clips that each run has seen."""
        return [frame["clips_seen"].max() for line in self.lines.values() for frame in line.seeds]

    @property
    def heading(self) -> tuple[str, str]:
        """Data set and split; method or preset, seeds, clips seen, hardware."""
        *facts, hardware = self.facts
        seeds = [len(line.seeds) for line in self.lines.values()]
        counted = span(seeds, "seed", "seeds"), span(self.clips, "clip seen", "clips seen")
        return self.title, ", ".join([*facts, *counted, hardware])


Columns = dict[tuple[str, ...], Column]


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return loss and effective ranks of every trained run, a column of panels per data set, split and preset.

    Raises:
        NothingToDraw: there is no trained run.
    """
    columns: Columns = {}
    for run, metrics in sorted(_trained(inputs), key=lambda pair: (pair[0].title, pair[0].spec.tokens)):
        line = _line(columns, run, (run.title, run.spec.tokens, but_for_seed(run)))
        line.seeds.append(metrics)
    if not columns:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    every = [(key, line) for column in columns.values() for key, line in column.lines.items()]
    names, grids = (sorted({key[place] for key, _ in every}) for place in (0, 1))
    for (name, tokens, _), line in every:
        line.label = f"{inputs.host.spelling(name)}, {tokens} tokens"
        look, repeated = look_of(names.index(name)), names.index(name) >= len(COLORS)
        dash = DASHES[grids.index(tokens) % len(DASHES)]
        line.look = look | {"marker": look["marker"] if repeated else "", "linestyle": dash}
    logged = {key for _, line in every for frame in line.seeds for key in frame}
    measures = [Measure("loss", "Loss")]
    measures += [Measure(key, f"Rank, {label}", rank=True) for key, label in RANKS.items() if key in logged]
    return finish(_draw_columns(list(columns.values()), measures), "Training curves", [CAPTION])


@styled
def draw_targets(inputs: TableInputs) -> Figure:
    """Return loss over rank, a column per method, data set, split, token grid and preset with a changed target.

    The lines are the rows of the table of the same name, in its order. Of runs that differ in the method's version the
    last one counts, as in the tables.

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
    looks = looks_of((line.label for column in controlled.values() for line in column.lines.values()), names.values())
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
    return finish(figure, "What hidden tokens are made to predict", captions, [dotted])


# ------------------------------------------------------------------------------------------------ data
def _trained(inputs: TableInputs) -> Iterator[tuple[RunDir, DataFrame]]:
    """Finished runs that may be shown, with their metrics."""
    for run in inputs.runs:
        selected = inputs.only is None or run.name in inputs.only
        if selected and run.outcome == "done" and inputs.admits(run):
            metrics = if_whole(partial(read_metrics, run))
            if metrics is not None and len(metrics):
                yield run, metrics


def _column(columns: Columns, run: RunDir, *facts: str) -> Column:
    """The column of ``run``: runs on the same data (also their version) and split with the same preset, encoder,
    hardware and ``facts``."""
    spec, info = run.spec, run.info
    native = " (native)" if info.get("setting") == "native" else ""
    preset = f"preset {info['preset']}{native}{'+' if info['modified'] else ''}"
    title = f"{spec.data.title}, {spec.data.split}"
    encoder = () if spec.encoder == DEFAULTS["encoder"] else (f"encoder {spec.encoder}",)
    facts = (*facts, preset, *encoder, run.hardware)
    return columns.setdefault((title, spec.data.fingerprint, *facts), Column(title, facts))


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
            plot(values, line.label, **line.look, markevery=max(1, len(values) // MARKED), zorder=4)
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
