"""Metrics that were logged during training, drawn over the clips seen; ``plot curves`` shows them for every run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skelbench.plugin import FigureSpec, hookimpl
from skelbench.records.errors import if_whole
from skelbench.records.metrics import read_metrics
from skelbench.records.run_dir import RunDir
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import (
    COLORS,
    PALE,
    finish,
    linear_axis,
    log_axis,
    look_of,
    panel_grid,
    span,
    styled,
    thousands,
)
from skelbench.reporting.frame import DEFAULTS, but_for_seed

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

DASHES = ("-", (0, (4, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1, 1.5)))
"""Line styles of the token grids of one method."""
MARKED = 8
"""Approximate number of markers on a line."""
RANKS = {"rank_pooled": "pooled features", "rank_cls": "class token", "rank_masked": "masked positions"}
HOW = "no trained run is in {root} yet; start with: skelbench run METHOD --tokens 8"
CAPTION = (
    "Thick: geometric mean over seeds, of a loss with negative values the mean; thin: single seeds. Losses of "
    "different methods have different units."
)
NEGATIVE = 0.1
"""A panel with a line that has a larger fraction of values below 0 (SimSiam's loss) has no log axis."""
Series = tuple[np.ndarray, np.ndarray]
"""Clips seen, and the values logged there."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "loss and effective ranks over clips seen, every trained run"
    return [FigureSpec(name="curves", target=":draw", summary=summary)]


@dataclass
class Setting:
    """The runs of one setting: the metrics of each seed, and the look of their line."""

    label: str = ""
    look: dict[str, Any] = field(default_factory=dict)
    seeds: dict[int, DataFrame] = field(default_factory=dict)
    finished: float = 0.0
    """Time at which the last run finished."""

    def add(self, run: RunDir, metrics: DataFrame) -> None:
        """Add one more seed."""
        self.seeds[run.spec.seed] = metrics
        self.finished = max(self.finished, run.info.get("finished") or 0.0)


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
    """A column of panels: runs on the same data, by the key of their setting."""

    title: str
    facts: tuple[str, ...]
    """Method or preset first, hardware last."""
    exact: bool = True
    """The settings of a preset, unchanged."""
    settings: dict[tuple[Any, ...], Setting] = field(default_factory=dict)

    @property
    def clips(self) -> list[float]:
        """Clips that each run has seen."""
        return [frame["clips_seen"].max() for setting in self.settings.values() for frame in setting.seeds.values()]

    @property
    def heading(self) -> tuple[str, str]:
        """Data set and split; method or preset, seeds, clips seen, hardware."""
        *facts, hardware = self.facts
        seeds = [len(setting.seeds) for setting in self.settings.values()]
        counted = span(seeds, "seed", "seeds"), span(self.clips, "clip seen", "clips seen")
        return self.title, ", ".join([*facts, *counted, hardware])


def trained(inputs: TableInputs) -> Iterator[tuple[RunDir, DataFrame]]:
    """Finished runs that may be shown, with their metrics."""
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


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return loss and effective ranks of every trained run, a column of panels per data set, split and preset.

    Raises:
        NothingToDraw: there is no trained run.
    """
    columns: dict[tuple[str, ...], Column] = {}
    for run, metrics in trained(inputs):
        key = (run.title, run.spec.tokens, but_for_seed(run))
        column_of(columns, run).settings.setdefault(key, Setting()).add(run, metrics)
    if not columns and inputs.left_out:
        raise NothingToDraw(f"no run in {inputs.store.root} is exactly of a preset; those with changes: --all")
    if not columns and inputs.only is not None:
        raise NothingToDraw(f"nothing that {', '.join(sorted(inputs.only))} logged is there: no metrics.jsonl to read")
    if not columns:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    every = [(key, setting) for column in columns.values() for key, setting in column.settings.items()]
    names, grids = (sorted({key[place] for key, _ in every}) for place in (0, 1))
    for (name, tokens, _), setting in every:
        setting.label = f"{inputs.host.spelling(name)}, {tokens} tokens"
        look, repeated = look_of(names.index(name)), names.index(name) >= len(COLORS)
        dash = DASHES[grids.index(tokens) % len(DASHES)]
        setting.look = look | {"marker": look["marker"] if repeated else "", "linestyle": dash}
    for column in columns.values():
        column.settings = dict(sorted(column.settings.items(), key=lambda item: item[0][:2]))
    logged = {key for _, setting in every for frame in setting.seeds.values() for key in frame}
    measures = [Measure("loss", "Loss")]
    measures += [Measure(key, f"Rank, {what}", rank=True) for key, what in RANKS.items() if key in logged]
    return finish(draw_columns(list(columns.values()), measures), "Training curves", [CAPTION])


# ------------------------------------------------------------------------------------------------ drawing
def draw_columns(columns: Sequence[Column], measures: Sequence[Measure]) -> Figure:
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
    settings = list(column.settings.values())
    lines, faint = (
        [[logged for frame in setting.seeds.values() if (logged := series(frame, key))] for setting in settings]
        for key in (measure.key, measure.faint)
    )
    signed = any(np.mean(values < 0) > NEGATIVE for seeds in lines for _, values in seeds)

    def line(some: Series, label: str, **look: Any) -> None:
        axes.plot(some[0], some[1] if signed else np.where(some[1] > 0, some[1], np.nan), label=label, **look)

    for setting, seeds, pooled in zip(settings, lines, faint):
        plain = {"color": setting.look["color"]}
        for one in seeds if len(seeds) > 1 else ():
            line(one, "_seed", **plain, linestyle=setting.look["linestyle"], linewidth=0.6, alpha=0.5, zorder=2)
        if seeds:
            clips, values = mean(seeds, signed)
            line((clips, values), setting.label, **setting.look, markevery=max(1, len(clips) // MARKED), zorder=4)
        if pooled:
            line(mean(pooled, signed), "_faint", **plain, linestyle=":", linewidth=1, zorder=3)
    linear_axis(axes.xaxis, thousands)
    axes.set_xlim(0, 1.02 * max(column.clips))
    shown = np.concatenate([np.empty(0), *(np.asarray(drawn.get_ydata(), float) for drawn in axes.lines)])
    shown = shown[np.isfinite(shown)]
    if not len(shown):
        axes.set_yticks([])
        why = "nothing above 0" if axes.lines else "not logged"
        axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", color=PALE)
    elif signed:
        linear_axis(axes.yaxis)
    else:
        if measure.rank:
            axes.axhline(1, color=PALE, linewidth=0.7, zorder=1, label="_one")
            shown = np.append(shown, [1.0, 2.0])
        log_axis(axes, "y", shown)


def series(frame: DataFrame, key: str) -> Series | None:
    """Clips seen and values of ``key`` at the steps that logged it, NaN for values that are not finite; None = never
    logged."""
    if key not in frame:
        return None
    logged = frame[["clips_seen", key]].dropna().astype(float)
    clips, values = logged["clips_seen"].to_numpy(), logged[key].to_numpy()
    return (clips, np.where(np.isfinite(values), values, np.nan)) if len(logged) else None


def mean(some: Sequence[Series], signed: bool = False) -> Series:
    """Mean over seeds at the clips that all of them logged: the geometric mean, NaN if a value is not positive, or if
    ``signed`` the arithmetic mean."""
    clips = some[0][0]
    for others, _ in some[1:]:
        clips = np.intersect1d(clips, others)
    rows = np.array([values[np.isin(own, clips)] for own, values in some])
    if signed:
        return clips, rows.mean(axis=0)
    return clips, np.exp(np.mean(np.log(np.where(rows > 0, rows, np.nan)), axis=0))
