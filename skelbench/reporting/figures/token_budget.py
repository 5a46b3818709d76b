"""``plot token-budget``: accuracy over inference cost, a line per method through its token budgets."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.stats.paired import accuracy_interval
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.plugin.host import Host
from skelbench.reporting import published
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.panels import Heading, panel_grid
from skelbench.reporting.figures.style import (
    GUIDE,
    INK,
    PALE,
    house,
    look_of,
    number,
    places,
    span,
)
from skelbench.reporting.published import slug
from skelbench.reporting.seeds import of_subjects, seeds_of, unusual_of
from skelbench.reporting.study_rows import Printed, announced
from skelbench.reporting.token_budget import NAME
from skelbench.views.skeleton.grid import BUDGETS

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

COLUMNS = 3
"""Panels on a line."""
PANEL = ["dataset", "split", "preset", "encoder", "stream", "hardware", "data"]
"""What runs of one panel have in common; ``data`` is the version of the data set."""
HOW = "no method with a linear probe and a counted cost is in {root} yet; start with: skelbench study token-budget"
CAPTION = (
    "Lines: the linear probe's accuracy after its last epoch, mean over seeds; dots: single seeds; no line: settings "
    "that differ in more than the budget. Hollow: a variant of the method. Numbers: temporal tokens. Dashed: untrained "
    f"encoders of the same shape, data and seeds. GFLOPs: {BODIES} bodies, matrix products, 2 per multiply-accumulate."
)
PUBLISHED = "Published panels: as printed, not measured here."


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "accuracy over GFLOPs of the inference encoder, a line per method; published figures beside"
    return [FigureSpec(name="token-budget", target=":draw", summary=summary)]


@dataclass(frozen=True)
class Point:
    """A method at one budget. Accuracies in percent; GFLOPs of the inference encoder."""

    tokens: int
    gflops: float
    accuracy: float
    seeds: tuple[float, ...] = ()
    variant: bool = False
    """Of a variant of the method."""


@dataclass
class Panel:
    """One data set and split, under one preset and on one hardware. Points are ordered by cost."""

    heading: Heading
    points: dict[str, list[Point]]
    """By method."""
    untrained: list[Point] = field(default_factory=list)
    where: tuple[str, frozenset[str]] = ("", frozenset())
    """Data set and full names of the splits, several where accuracies are means over them."""


def draw(inputs: TableInputs) -> Figure:
    """The accuracy-efficiency figure: a panel per data set, split, preset and hardware, then the published ones.

    Raises:
        NothingToDraw: no run fits.
    """
    rows = [row for row in chain.from_iterable(announced(inputs, NAME)) if row.variant]
    panels = measured(inputs.frame, inputs.host, [row.title for row in rows])
    if not panels:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    papers = list(printed(inputs.host, {row.printed for row in rows}))
    captions = [CAPTION, *([PUBLISHED] if papers else []), *published.notes(inputs.host, NAME)]
    with house():
        return _figure(panels, papers, captions)


# ------------------------------------------------------------------------------------------------ what is drawn
def measured(frame: DataFrame, host: Host, variants: Collection[str] = ()) -> list[Panel]:
    """Panels of the evaluated runs in ``frame`` (columns: ``skelbench.reporting.frame``).

    Taken are linear probes, after the last step, of trained methods in the shared setting, on the grids of the study,
    without a variant but those of the titles ``variants``. A point is the mean over all seeds of one setting. Costs
    are for :data:`~skelbench.evaluation.cost.BODIES` bodies, as in the table of the same name.
    """
    import pandas

    fits = frame[
        (frame["protocol"] == "linear")
        & (frame["checkpoint"] == "last")
        & (frame["setting"] == "shared")
        & ((frame["variant"] == "") | frame["title"].isin(variants))
        & pandas.MultiIndex.from_frame(frame[["frames", "patch"]]).isin(list(BUDGETS.values()))
        & frame["clip_gflops"].notna()
        & (frame["clips_seen"].astype(float) > 0)
    ]
    cost_order = attrgetter("gflops", "accuracy")
    panels = []
    for (dataset, split, preset, encoder, stream, hardware, _), rows in fits.groupby(PANEL):
        rows = newest(rows)
        unusual = unusual_of("shared", encoder, stream)
        heading = Heading(f"{dataset}, {split}", ", ".join([f"preset {preset}", *unusual, *_facts(rows), hardware]))
        points = {
            host.spelling(str(method)): sorted(_points(own), key=cost_order) for method, own in rows.groupby("method")
        }
        where = dataset, published.splits_of(split)
        panels.append(Panel(heading, points, sorted(_untrained(rows), key=cost_order), where))
    return panels


def newest(rows: DataFrame) -> DataFrame:
    """Runs of one exact preset that differ in something else than the seed, a method's version, are not averaged: those
    that finished last count, as in the tables. Runs with changed settings all count."""
    finished = rows["finished"].astype(float).fillna(0)
    latest = finished.groupby(rows["group"]).transform("max")
    newest = latest.groupby([rows["method"], rows["variant"], rows["tokens"]]).transform("max")
    return rows[(latest == newest) | ~rows["exact"].astype(bool)]


def _facts(rows: DataFrame) -> Iterator[str]:
    """What a reader must know of a panel's runs."""
    yield span((len(own) for own in seeds_of(rows, ["tokens"])), "seed", "seeds")
    yield span(rows["clips_seen"], "clip seen", "clips seen")
    if rows["n_test"].isna().any():  # means over splits, which share clips
        return
    measured = zip(rows["accuracy"], rows["n_test"], rows["by_subject"])
    limits = [accuracy_interval(share, int(n), of_subjects([people])) for share, n, people in measured]
    half = max(50 * (high - low) for (low, high), _ in limits)
    within = f"95\N{NO-BREAK SPACE}% interval within ±{half:.1f}"
    over = ", over subjects" if any(over.endswith("subjects") for _, over in limits) else ""
    yield f"{span(rows['n_test'], 'test clip', 'test clips')} ({within}{over})"


def _points(rows: DataFrame) -> Iterator[Point]:
    for own in seeds_of(rows, ["tokens", "variant"]):
        first, seeds = own.iloc[0], tuple(100 * float(share) for share in own["accuracy"])
        cost = float(own["clip_gflops"].mean())
        yield Point(_tokens(first["tokens"]), cost, sum(seeds) / len(seeds), seeds, bool(first["variant"]))


def _untrained(rows: DataFrame) -> Iterator[Point]:
    """The untrained encoders that the runs are compared with, one point per token grid."""
    for grid, some in rows[rows["control_run"].notna()].groupby("tokens"):
        seeds = 100 * some.drop_duplicates("control_run")["control_accuracy"].astype(float)
        yield Point(_tokens(grid), float(some["clip_gflops"].mean()), float(seeds.mean()))


def _tokens(grid: str) -> int:
    """Temporal tokens of ``8x25+1``."""
    return int(re.split(r"\D", grid, maxsplit=1)[0])


def printed(host: Host, variants: Collection[Printed | None] = ()) -> Iterator[Panel]:
    """A panel per published table that has accuracy and inference cost of methods on token grids; ``variants`` of these
    are told from the methods."""
    for name, rows in published.tables(host).items():
        cost = {(row["method"], row["variant"]): row["value"] for row in rows if row["metric"] == "encoder_gflops"}
        panel = Panel(Heading(), {})
        for row in rows:
            method, variant = row["method"], row["variant"]
            if row["metric"] == "accuracy" and (method, variant) in cost and re.match(r"\d+x", variant):
                other = Printed(name, method, variant) in variants
                point = Point(_tokens(variant), cost[method, variant], row["value"], variant=other)
                panel.points.setdefault(method, []).append(point)
                source = row["source"].partition(" (")[0]
                panel.heading = Heading("Published, not measured here", f"{row['dataset']}, {row['split']}; {source}")
                panel.where = row["dataset"], published.splits_of(row["split"])
        if panel.points:
            yield panel


# ------------------------------------------------------------------------------------------------ drawing
def _figure(panels: list[Panel], papers: list[Panel], captions: list[str]) -> Figure:
    names = {slug(method): method for paper in papers for method in paper.points}
    known = [*list(names)[-1:], *list(names)[:-1]]  # a paper's own method, the last of its table, comes first
    names = {slug(method): method for panel in panels for method in panel.points} | names
    order = places(names, known)
    legend = [(Line2D([], [], **look_of(order[slug])), names[slug]) for slug in sorted(names, key=order.__getitem__)]
    if any(panel.untrained for panel in panels):
        legend.append((Line2D([], [], color=PALE, linestyle="--", linewidth=1), "untrained encoder"))
    panels = [*panels, *papers]
    headings = [panel.heading for panel in panels]
    figure, grid = panel_grid("Accuracy against inference cost", headings, COLUMNS, legend, captions)
    for panel, axes in zip(panels, grid):
        _panel(axes, panel, order)
    return figure


def _panel(axes: Axes, panel: Panel, order: dict[str, int]) -> None:
    axes.set_xscale("log")
    for method, points in sorted(panel.points.items(), key=lambda item: -order[slug(item[0])]):
        look = look_of(order[slug(method)])
        whole, variants = [p for p in points if not p.variant], [p for p in points if p.variant]
        one_each = len({p.tokens for p in whole}) == len(whole)
        axes.plot(*at(whole), **look, linestyle="-" if one_each else "", zorder=4, label=method)
        hollow = look | {"markerfacecolor": "white", "markeredgecolor": look["color"], "linestyle": ""}
        axes.plot(*at(variants), **hollow, zorder=5, label=f"_{method}, variant")
        dots = [(p.gflops, seed) for p in points for seed in p.seeds if len(p.seeds) > 1]
        if dots:
            axes.plot(*zip(*dots), ".", color=look["color"], markersize=3.5, zorder=3, label=f"_{method}, seeds")
    axes.plot(*at(panel.untrained), "--", color=PALE, linewidth=1, zorder=2, label="untrained")
    axes.plot(*at(panel.untrained), "_", color=PALE, markersize=7, zorder=2, label="_untrained")
    points = [p for points in panel.points.values() for p in points]
    _numbers(axes, points, scales(axes, points))


def at(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [p.gflops for p in points], [p.accuracy for p in points]


def scales(axes: Axes, points: Sequence[Point]) -> list[float]:
    """Labels, limits, and ticks at the costs that occur, which are returned."""
    low, high = min(p.gflops for p in points), max(p.gflops for p in points)
    room = max(1.15, (high / low) ** 0.08) if high > 1.05 * low else 2.0
    axes.set_xlim(low / room, high * room)
    axes.margins(y=0.12)
    axes.set(xlabel="GFLOPs of the inference encoder", ylabel="Accuracy, %")
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(number))
    ticks: list[float] = []
    apart = 0.12 * math.log(high * room / (low / room))  # what the numbers below them need
    for cost in sorted(p.gflops for p in points):
        if not ticks or math.log(cost / ticks[-1]) > apart:
            ticks.append(cost)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(number))
    axes.grid(axis="x", color=GUIDE, linewidth=0.6)
    axes.set_axisbelow(True)
    return ticks


def _numbers(axes: Axes, points: Sequence[Point], ticks: Sequence[float]) -> None:
    """Above the points of a budget its tokens."""
    stacks: dict[tuple[float, int], list[Point]] = {}
    for point in points:
        stacks.setdefault((max(tick for tick in ticks if tick <= point.gflops), point.tokens), []).append(point)
    for (_, tokens), stack in stacks.items():
        top = max(stack, key=lambda p: p.accuracy)
        axes.annotate(
            str(tokens), (top.gflops, max(max(p.seeds, default=p.accuracy) for p in stack)), (0, 5),
            textcoords="offset points", ha="center", va="bottom", fontsize=7.5, color=INK, zorder=6,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip
