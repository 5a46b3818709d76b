"""What was logged while runs trained, drawn over the clips seen; ``plot curves`` shows it for every run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from skelbench.plugin import FigureSpec, hookimpl
from skelbench.records.errors import if_whole
from skelbench.records.metrics import read_metrics
from skelbench.records.run_dir import RunDir
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.panels import Heading, panel_grid
from skelbench.reporting.figures.style import (
    COLOURS,
    DOTTED,
    PALE,
    PLAIN,
    colour_at,
    house,
    log_axis,
    look_of,
    number,
    span,
    thousands_axis,
)
from skelbench.reporting.frame import DEFAULTS, but_for_seed

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

DASHES = ("-", (0, (4, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1, 1.5)))
"""Token grids of one method."""
MARKED = 8
"""Points of a line that have its marker, about."""
RANKS = {"rank_pooled": "pooled features", "rank_cls": "class token", "rank_masked": "masked positions"}
HOW = "no trained run is in {root} yet; start with: skelbench run METHOD --tokens 8"
CAPTION = (
    "Thick: geometric mean over seeds, of a loss with negative values the mean; thin: single seeds. Losses of "
    "different methods have different units."
)
NEGATIVE = 0.1
"""Where a larger share than this of a line is below 0, its panel has no log axis: a loss like that of SimSiam."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "loss and effective ranks over clips seen, every trained run"
    return [FigureSpec(name="curves", target=":draw", summary=summary)]


@dataclass
class Setting:
    """The runs of one setting: what each logged, by seed, and how they are drawn."""

    label: str = ""
    colour: str = COLOURS[0]
    dash: Any = "-"
    marker: str = ""
    """On few points of the line; "" = none, where colour and dash are enough to know it by."""
    seeds: dict[int, DataFrame] = field(default_factory=dict)
    finished: float = 0.0
    """When the last of them was."""

    @property
    def look(self) -> dict[str, Any]:
        """Of its line, and in the legend."""
        return {"color": self.colour, "linestyle": self.dash, "marker": self.marker, "markersize": 4}

    def add(self, run: RunDir, metrics: DataFrame) -> None:
        """One more seed."""
        self.seeds[run.spec.seed] = metrics
        self.finished = max(self.finished, run.info.get("finished") or 0.0)


@dataclass(frozen=True)
class Measure:
    """A row of panels, on a log axis if its values have logarithms: the column ``key`` of the metrics and, dotted, that
    of column ``faint``."""

    key: str
    label: str
    faint: str = ""
    rank: bool = False
    """An effective rank: a line shows 1, the least there is."""


@dataclass
class Column:
    """What runs of one column of panels have in common, and their settings by what tells them apart."""

    title: str
    facts: tuple[str, ...]
    exact: bool = True
    """The settings of a preset, unchanged."""
    settings: dict[tuple[Any, ...], Setting] = field(default_factory=dict)

    @property
    def clips(self) -> list[float]:
        """Clips that each run has seen."""
        return [frame["clips_seen"].max() for setting in self.settings.values() for frame in setting.seeds.values()]

    @property
    def heading(self) -> Heading:
        """Data set and split; then method or preset, seeds, clips seen, hardware."""
        *facts, hardware = self.facts
        seeds = [len(setting.seeds) for setting in self.settings.values()]
        counted = span(seeds, "seed", "seeds"), span(self.clips, "clip seen", "clips seen")
        return Heading(self.title, ", ".join([*facts, *counted, hardware]))


def trained(inputs: TableInputs) -> Iterator[tuple[RunDir, DataFrame]]:
    """Runs that may fill a figure, and what they logged: done, and with the exact settings of their preset if only
    such are wanted."""
    for run in inputs.runs:
        wanted = inputs.only is None or run.name in inputs.only
        if wanted and run.outcome == "done" and inputs.admits(run):
            metrics = if_whole(partial(read_metrics, run))
            if metrics is not None and len(metrics):
                yield run, metrics


def column_of(columns: dict[tuple[str, ...], Column], run: RunDir, *facts: str) -> Column:
    """The column of ``run``: runs on the same data (also their version) and split with the same preset, encoder,
    hardware and ``facts``."""
    spec, info = run.spec, run.info
    native = " (native)" if info.get("setting") == "native" else ""
    preset = f"preset {info['preset']}{native}{'+' if info['modified'] else ''}"
    title = f"{spec.data.title}, {spec.data.split}"
    encoder = () if spec.encoder == DEFAULTS["encoder"] else (f"encoder {spec.encoder}",)
    facts = (*facts, preset, *encoder, run.hardware)
    return columns.setdefault((title, spec.data.fingerprint, *facts), Column(title, facts, not info["modified"]))


def draw(inputs: TableInputs) -> Figure:
    """Loss and effective ranks of every trained run, a column of panels per data set, split and preset.

    Raises:
        NothingToDraw: there is no trained run.
    """
    columns: dict[tuple[str, ...], Column] = {}
    for run, metrics in trained(inputs):
        spec = run.spec
        settings = column_of(columns, run).settings
        settings.setdefault((run.title, spec.tokens, but_for_seed(run)), Setting()).add(run, metrics)
    if not columns and inputs.left_out:
        raise NothingToDraw(f"no run in {inputs.store.root} is exactly of a preset; those with changes: --all")
    if not columns and inputs.only is not None:
        raise NothingToDraw(f"nothing that {', '.join(sorted(inputs.only))} logged is there: no metrics.jsonl to read")
    if not columns:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    every = [(key, setting) for column in columns.values() for key, setting in column.settings.items()]
    names = sorted({name for (name, _, _), _ in every})
    grids = sorted({tokens for (_, tokens, _), _ in every})
    for (name, tokens, _), setting in every:
        setting.label = f"{inputs.host.spelling(name)}, {tokens} tokens"
        place = names.index(name)
        setting.colour, setting.marker = colour_at(place), look_of(place)["marker"] if place >= len(COLOURS) else ""
        setting.dash = DASHES[grids.index(tokens) % len(DASHES)]
    logged = {key for _, setting in every for frame in setting.seeds.values() for key in frame}
    measures = [Measure("loss", "Loss")]
    measures += [Measure(key, f"Rank, {what}", rank=True) for key, what in RANKS.items() if key in logged]
    lines = {key[:2]: setting for key, setting in every}
    legend = [(Line2D([], [], **one.look), one.label) for _, one in sorted(lines.items())]
    with house():
        return grid("Training curves", list(columns.values()), measures, legend, [CAPTION])


# ------------------------------------------------------------------------------------------------ drawing
def grid(
    title: str,
    columns: Sequence[Column],
    measures: Sequence[Measure],
    legend: Sequence[tuple[Line2D, str]],
    caption: Sequence[str],
) -> Figure:
    """The ``columns``, by their titles, with a panel for each of ``measures``."""
    columns = sorted(columns, key=lambda column: (column.title, column.facts))
    count = len(columns)
    headings = [*(column.heading for column in columns), *[Heading()] * count * (len(measures) - 1)]
    figure, grid = panel_grid(title, headings, count, legend, caption, height=1.5)
    for place, axes in enumerate(grid):
        measure, column, last = measures[place // count], columns[place % count], place >= len(grid) - count
        _panel(axes, column, measure)
        axes.tick_params(labelbottom=last)
        axes.set(xlabel="Clips seen" if last else "", ylabel="" if place % count else measure.label)
    return figure


def _panel(axes: Axes, column: Column, measure: Measure) -> None:
    def logged(key: str) -> list[list[tuple[np.ndarray, np.ndarray]]]:
        """Of each setting the lines of its seeds."""
        frames = [setting.seeds.values() for setting in column.settings.values()]
        return [[line for frame in some if (line := series(frame, key))] for some in frames]

    lines = logged(measure.key)
    signed = any(np.mean(values < 0) > NEGATIVE for seeds in lines for _, values in seeds)
    mid = partial(mean, signed=signed)
    drawn: list[np.ndarray] = []

    def line(some: tuple[np.ndarray, np.ndarray], label: str, **look: Any) -> None:
        clips, values = some
        values = values if signed else np.where(values > 0, values, np.nan)
        axes.plot(clips, values, label=label, **look)
        drawn.append(values)

    for setting, seeds, faint in zip(column.settings.values(), lines, logged(measure.faint)):
        if len(seeds) > 1:
            for one in seeds:
                line(one, "_seed", color=setting.colour, linestyle=setting.dash, linewidth=0.6, alpha=0.5, zorder=2)
        if seeds:
            clips, values = mid(seeds)
            every = max(1, len(clips) // MARKED)
            line((clips, values), setting.label, **setting.look, markevery=every, linewidth=1.5, zorder=4)
        if faint:
            line(mid(faint), "_faint", color=setting.colour, linestyle=DOTTED, linewidth=1, zorder=3)
    thousands_axis(axes.xaxis)
    axes.set_xlim(0, 1.02 * max(column.clips))
    seen = np.concatenate([np.empty(0), *drawn])
    seen = seen[np.isfinite(seen)]
    if not len(seen):
        axes.set_yticks([])
        why = "nothing above 0" if drawn else "not logged"
        axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", color=PALE, **PLAIN)
        return
    low, high = float(seen.min()), float(seen.max())
    if signed:
        axes.margins(y=0.06)
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(number))
        return
    if measure.rank:
        axes.axhline(1, color=PALE, linewidth=0.7, zorder=1, label="_one")
        low, high = min(low, 1.0), max(high, 2.0)
    room = max(1.2, (high / low) ** 0.06)
    axes.set_yscale("log")
    axes.set_ylim(low / room, high * room)
    log_axis(axes.yaxis, low / room, high * room)


def series(frame: DataFrame, key: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Clips seen, and the values of ``key`` where it was logged, NaN where they are not finite; None where it never
    was."""
    if key not in frame:
        return None
    logged = frame[["clips_seen", key]].dropna().astype(float)
    clips, values = logged["clips_seen"].to_numpy(), logged[key].to_numpy()
    return (clips, np.where(np.isfinite(values), values, np.nan)) if len(logged) else None


def mean(some: Sequence[tuple[np.ndarray, np.ndarray]], signed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds wherever all of them have logged: the geometric one, which is in the middle on a log axis and NaN
    where a value is not positive, or if ``signed`` the arithmetic one."""
    clips = some[0][0]
    for others, _ in some[1:]:
        clips = np.intersect1d(clips, others)
    rows = np.array([values[np.isin(own, clips)] for own, values in some])
    if signed:
        return clips, rows.mean(axis=0)
    return clips, np.exp(np.mean(np.log(np.where(rows > 0, rows, np.nan)), axis=0))
