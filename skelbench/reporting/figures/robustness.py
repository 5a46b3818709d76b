"""``plot robustness``: accuracy over the severity of what is done to test clips, a line per method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from skelbench.data.store.splits import full_name
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.plugin.host import Host
from skelbench.reporting import published
from skelbench.reporting.downstream import KINDS
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.panels import Heading, panel_grid
from skelbench.reporting.figures.style import GUIDE, PALE, house, look_of, number, places, span
from skelbench.reporting.seeds import seeds_of, unusual_of
from skelbench.reporting.study_rows import announced

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

PROTOCOLS = ("robustness", "missing-representation")
BLOCK = ["dataset", "split", "preset", "setting", "encoder", "stream", "hardware", "data"]
AXES = {
    "missing": "Joints declared missing, %",
    "noise": "Noise, mean bone lengths",
    "parent-fill": "Joints at their parents, %",
    "zero-fill": "Joints at the origin, %",
}
"""Kind of degradation -> what its axis says."""
COLUMNS = 2
"""Panels on a line."""
HOW = "no run was measured on degraded clips in {root} yet; start with: skelbench eval RUN --protocol robustness"
CAPTION = (
    "A linear probe of clean training clips, on degraded test clips; 0 is the clean test set. Lines: means over draws "
    "and seeds. Bands: one standard deviation over draws of the degradation (mean over seeds; not over trainings)."
)
PUBLISHED = "Dashed grey: as printed, on another data set or at another size than ours unless the panel says the same."


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "accuracy over shares of missing joints and over noise, a line per method; published ones dashed"
    return [FigureSpec(name="robustness", target=":draw", summary=summary)]


@dataclass(frozen=True)
class Level:
    """Accuracy at one severity, percent; ``sd`` over draws, None where there is none."""

    severity: float
    accuracy: float
    sd: float | None = None


Lines = dict[str, dict[str, list[Level]]]
"""Kind of degradation -> line -> levels, the mildest first."""


@dataclass
class Block:
    """What was measured on one data set and split, under one preset and on one hardware."""

    heading: Heading
    where: tuple[str, str]
    """Data set and full name of the split."""
    lines: Lines = field(default_factory=dict)


def draw(inputs: TableInputs) -> Figure:
    """A row of panels, one per kind of degradation, for every data set, split, preset and hardware; published figures
    in the panels of their data set and split, else in a row of their own.

    Raises:
        NothingToDraw: no run was measured on degraded clips.
    """
    blocks = measured(inputs.frame, inputs.host)
    if not blocks:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    papers = printed(inputs)
    captions = [CAPTION, *([PUBLISHED] if papers else []), *published.notes(inputs.host, "robustness")]
    with house():
        return _figure(blocks, papers, captions)


# ------------------------------------------------------------------------------------------------ what is drawn
def measured(frame: DataFrame, host: Host) -> list[Block]:
    """Of the evaluations in ``frame`` (columns: ``skelbench.reporting.frame``) those on degraded test clips."""
    frame = frame[frame["protocol"].isin(PROTOCOLS) & (frame["checkpoint"] == "last")]
    blocks = []
    for (dataset, split, preset, setting, encoder, stream, hardware, _), rows in frame.groupby(BLOCK, sort=False):
        unusual = unusual_of(setting, encoder, stream)
        several = rows["tokens"].nunique() > 1
        block = Block(Heading(f"{dataset}, {split}"), (str(dataset), full_name(str(split))))
        seeds = []
        for own in sorted(seeds_of(rows, ["title", "tokens", "changed", "protocol"]), key=_weight, reverse=True):
            first = own.iloc[0]
            label = host.spelling(first["title"]) + (f" {first['tokens']}" if several else "")
            label += f" ({first['changed']})" if first["changed"] else ""
            seeds.append(len(own))
            for kind, levels in _levels(own).items():
                block.lines.setdefault(kind, {}).setdefault(label, levels)
        counted = span(seeds, "seed", "seeds"), span(rows["n_test"], "test clip", "test clips")
        note = ", ".join([f"preset {preset}", *unusual, *counted, hardware])
        block.heading = Heading(block.heading.name, note)
        blocks.append(block)
    return [block for block in blocks if block.lines]


def _weight(own: DataFrame) -> tuple[float, ...]:
    """Of evaluations with one label those that count: of the method's newest version, with the most seeds, and the
    last."""
    return float(own["version"].max()), len(own), float(own["finished"].astype(float).fillna(0).max())


def _levels(own: DataFrame) -> dict[str, list[Level]]:
    """By kind of degradation, from the figures that every seed has; clean clips are its mildest level."""
    clean = Level(0.0, 100 * float(own["accuracy"].mean()))
    found: dict[str, list[Level]] = {}
    for metric in own.iloc[0]["measures"]:
        name = metric.removeprefix("accuracy_")
        kind, _, amount = name.partition("_")
        if name == metric or kind not in KINDS or name.endswith("_sd"):
            continue
        if any(metric not in measures for measures in own["measures"]):
            continue
        shares = [measures[metric][0] for measures in own["measures"]]
        sds = [measures[f"{metric}_sd"][0] for measures in own["measures"] if f"{metric}_sd" in measures]
        sd = 100 * sum(sds) / len(sds) if sds else None
        level = Level(float(amount), 100 * sum(shares) / len(shares), sd)
        found.setdefault(kind, [clean]).append(level)
    return {kind: sorted(levels, key=lambda level: level.severity) for kind, levels in found.items()}


def printed(inputs: TableInputs) -> list[Block]:
    """What papers print, by data set and split, from the rows that plugins announce for the tables of the protocols."""
    found: dict[tuple[str, str], Block] = {}
    clean: dict[tuple[tuple[str, str], str], Level] = {}
    every = [row for name in PROTOCOLS for row in chain.from_iterable(announced(inputs, name)) if row.printed]
    for row in every:
        assert row.printed is not None
        kind, _, amount = str(row.labels.get("column", "")).partition("_")
        asked = {"method": row.printed.method, "variant": row.printed.variant, "metric": "accuracy"}
        for figure in published.load(inputs.host, row.printed.table, **asked):
            where = figure["dataset"], full_name(figure["split"])
            source = figure["source"].partition(" (")[0]
            heading = Heading("Published, not measured here", f"{figure['dataset']}, {figure['split']}; {source}")
            block = found.setdefault(where, Block(heading, where))
            method = figure["method"]
            if kind == "clean":
                clean[where, method] = Level(0.0, figure["value"])
            elif kind in KINDS:
                levels = block.lines.setdefault(kind, {}).setdefault(method, [])
                level = Level(float(amount), figure["value"], figure["std"])
                levels += [level] if all(level.severity != other.severity for other in levels) else []
    for where, block in found.items():
        for lines in block.lines.values():
            for method, levels in lines.items():
                levels += [clean[where, method]] if (where, method) in clean else []
                levels.sort(key=lambda level: level.severity)
    return list(found.values())


# ------------------------------------------------------------------------------------------------ drawing
def _figure(blocks: Sequence[Block], papers: Sequence[Block], captions: list[str]) -> Figure:
    order = places(label for block in blocks for lines in block.lines.values() for label in lines)
    beside = {block.where: block for block in papers}
    pairs = [(block, beside.get(block.where)) for block in blocks]
    kinds = {kind for block in blocks for kind in block.lines}
    told = {block.where for block in blocks}
    pairs += [(paper, None) for paper in papers if paper.where not in told and kinds & set(paper.lines)]
    legend = [(Line2D([], [], **look_of(place)), label) for label, place in order.items()]
    methods = sorted({method for paper in papers for lines in paper.lines.values() for method in lines})
    legend += [(Line2D([], [], color=PALE, linestyle="--", linewidth=1), f"{method}, published") for method in methods]
    shown = [[kind for kind in KINDS if kind in kinds and kind in block.lines] for block, _ in pairs]
    headings: list[Heading | None] = []
    for (block, _), own in zip(pairs, shown):  # a block begins a row of its own
        gaps = -len(own) % COLUMNS
        headings += [block.heading, *[Heading()] * (len(own) - 1), *[None] * gaps]
    figure, grid = panel_grid("Accuracy on degraded test clips", headings, COLUMNS, legend, captions)
    panels = iter(grid)
    for (block, paper), own in zip(pairs, shown):
        drawn = list(zip(own, panels))
        for kind, axes in drawn:
            if block in papers:
                _lines(axes, {}, block.lines[kind], order)
            else:
                _lines(axes, block.lines[kind], paper.lines.get(kind, {}) if paper else {}, order)
            axes.set_xlabel(AXES[kind])
            _ticks(axes, kind)
        limits = [limit for _, axes in drawn for limit in axes.get_ylim()]
        for _, axes in drawn:  # one scale: falls are compared
            axes.set_ylim(min(limits), max(limits))
    for axes in grid:
        axes.set_ylabel("Accuracy, %")
    return figure


def _lines(
    axes: Axes, ours: Mapping[str, list[Level]], theirs: Mapping[str, list[Level]], order: Mapping[str, int]
) -> None:
    for label, levels in ours.items():
        look = look_of(order[label])
        axes.plot(*_places(levels), **look, zorder=4, label=label)
        _band(axes, levels, str(look["color"]), 0.2)
    for method, levels in theirs.items():
        axes.plot(*_places(levels), color=PALE, linestyle="--", linewidth=1, zorder=3, label=f"{method}, published")
        _band(axes, levels, PALE, 0.15)
    axes.margins(y=0.12)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(number))
    axes.grid(axis="y", color=GUIDE, linewidth=0.6)
    axes.set_axisbelow(True)


def _places(levels: Sequence[Level]) -> tuple[list[float], list[float]]:
    return [level.severity for level in levels], [level.accuracy for level in levels]


def _band(axes: Axes, levels: Sequence[Level], colour: str, alpha: float) -> None:
    """Around every level by as much as its standard deviation; none at clean clips."""
    low, high = zip(*_edges(levels))
    at = [level.severity for level in levels]
    axes.fill_between(at, low, high, color=colour, alpha=alpha, linewidth=0, zorder=1)


def _edges(levels: Sequence[Level]) -> Iterator[tuple[float, float]]:
    for level in levels:
        yield level.accuracy - (level.sd or 0), level.accuracy + (level.sd or 0)


def _ticks(axes: Axes, kind: str) -> None:
    """Shares of joints are read in percent."""
    ticks = sorted({float(x) for line in axes.lines for x in np.asarray(line.get_xdata(), float)})
    percent = kind != "noise"
    axes.set_xticks(ticks, [number(100 * tick if percent else tick) for tick in ticks])
