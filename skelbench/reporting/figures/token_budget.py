"""``plot token-budget`` and ``plot trade-off``: accuracy over inference cost, a line per method through its budgets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import offset_copy

from skelbench.evaluation.cost import BODIES
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.plugin.host import Host
from skelbench.reporting import published
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import (
    PALE,
    PLAIN,
    accuracy_axis,
    finish,
    hollow,
    log_axis,
    method_look,
    most_of,
    panel_grid,
    span,
    spread,
    styled,
)
from skelbench.reporting.published import slug
from skelbench.reporting.seeds import accuracy, chance, hardware, newest, seeds_of, unusual_of
from skelbench.reporting.study_rows import Printed, announced
from skelbench.reporting.token_budget import NAME
from skelbench.views.skeleton.grid import BUDGETS

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

COLUMNS, HEIGHT = 3, 3.0
"""Panels in a row, and height of a panel of `trade-off`, inches."""
PANEL = ["dataset", "split", "preset", "encoder", "stream", "data"]
"""Columns that the runs of one panel have in common; ``data`` is the version of the dataset."""
HOW = "no method with a linear probe and a counted cost is in {root} yet; start with: skelbench study token-budget"
COST = f"GFLOPs of the inference encoder: {BODIES} bodies, matrix products, 2 FLOPs per multiply-accumulate."
CAPTION = (
    "Linear accuracy. Large markers are means over seeds, dots are single seeds. The numbers are temporal tokens. A "
    "line joins the token counts of one method. Hollow markers are variants. The dashed line shows untrained encoders. "
)
CAPTION_NAMED = (
    "Linear accuracy, mean over seeds. Bars are 95 % intervals over test clips, or over test subjects if these are "
    "wider; dots are single seeds. A name ends with the number of temporal tokens. Points with the same name differ "
    "in further settings, which `skelbench compare --all` shows. "
)
PUBLISHED_NAMED = "Gray hollow markers: published, not measured here. Papers do not count costs in one way."


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    lines = "accuracy against inference GFLOPs, one line per method"
    points = "accuracy against inference GFLOPs, one named point per method and number of tokens"
    return [
        FigureSpec(name="token-budget", target=":draw", summary=lines),
        FigureSpec(name="trade-off", target=":draw_trade_off", summary=points),
    ]


@dataclass(frozen=True)
class Point:
    """A method at one budget. Accuracies in percent; GFLOPs of the inference encoder."""

    method: str
    tokens: int
    gflops: float
    accuracy: float
    seeds: tuple[float, ...] = ()
    interval: tuple[float, float] | None = None
    """95 % interval over clips or subjects."""
    variant: bool = False
    """Result of a variant of the method."""

    @property
    def top(self) -> float:
        """Highest accuracy of a seed."""
        return max(*self.seeds, self.accuracy, 0)


@dataclass
class Panel:
    """Results on one dataset and split, with one preset. Points are ordered by cost."""

    heading: tuple[str, str]
    points: list[Point]
    untrained: Sequence[Point] = ()


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return a panel per dataset, split and preset, then the published ones.

    Raises:
        NothingToDraw: no run fits.
    """
    panels, papers = _panels(inputs)
    looks, every = _looks(inputs.host, panels, papers), [*panels, *papers]
    figure, grid = panel_grid([panel.heading for panel in every], COLUMNS)
    for panel, axes in zip(every, grid):
        _draw_methods(axes, panel, looks)
        highest: dict[tuple[int, str], Point] = {}
        for point in sorted(panel.points, key=lambda point: point.top):
            highest[point.tokens, f"{point.gflops:.1g}"] = point
        for point in sorted(highest.values(), key=lambda point: point.tokens):
            _write(axes, str(point.tokens), (point.gflops, point.top), (0, 5))
        _cost_axes(axes, [point.gflops for point in panel.points])
    captions = [CAPTION + COST, *published.notes(inputs.host, NAME)]
    return finish(figure, "Accuracy against inference cost", captions)


@styled
def draw_trade_off(inputs: TableInputs) -> Figure:
    """Return a panel per dataset, split and preset.

    Raises:
        NothingToDraw: no run fits.
    """
    panels, papers = _panels(inputs)
    looks, every = _looks(inputs.host, panels, papers), [*panels, *papers]
    figure, grid = panel_grid([panel.heading for panel in every], COLUMNS, height=HEIGHT)
    for panel, axes in zip(every, grid):
        panel.points = [point for point in panel.points if panel in panels or not point.variant]
        _draw_named(axes, panel, looks, panel in papers)
    captions = [CAPTION_NAMED + COST]
    captions += [PUBLISHED_NAMED, *published.notes(inputs.host, NAME)] if papers else []
    return finish(figure, "Accuracy-efficiency trade-off", captions)


# ------------------------------------------------------------------------------------------------ data
def _panels(inputs: TableInputs) -> tuple[list[Panel], list[Panel]]:
    """Measured and published panels."""
    rows = [row for row in chain.from_iterable(announced(inputs, NAME)) if row.variant]
    panels = measured(inputs, [row.title for row in rows])
    if not panels:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    return panels, list(printed(inputs.host, {row.printed for row in rows}))


def measured(inputs: TableInputs, variants: Collection[str] = ()) -> list[Panel]:
    """Panels of the evaluated runs.

    They show linear probes after the last step of trained methods in the shared setting, on the grids of the study,
    and only the ``variants`` with these titles. The last version of a method counts, as in the tables.
    """
    import pandas

    frame = inputs.frame
    fits = frame[
        (frame["protocol"] == "linear")
        & (frame["checkpoint"] == "last")
        & (frame["setting"] == "shared")
        & ((frame["variant"] == "") | frame["title"].isin(variants))
        & pandas.MultiIndex.from_frame(frame[["frames", "patch"]]).isin(list(BUDGETS.values()))
        & frame["clip_gflops"].notna()
        & (frame["clips_seen"].astype(float) > 0)
    ]
    exact, older = fits["exact"].astype(bool), list[str]()
    for _, own in fits[exact].groupby([*PANEL, "method", "variant", "tokens"], dropna=False):
        newest(own, older)
    fits = fits[~(exact & fits["run"].isin(older))]
    panels = []
    for (dataset, split, preset, encoder, stream, _), rows in fits.groupby(PANEL):
        points = [
            _point(own, own["accuracy"], inputs.host.spelling(str(own["method"].iloc[0])), bool(own["variant"].iloc[0]))
            for own in seeds_of(rows, ["method", "tokens", "variant"])
        ]
        best = {point.method: point.accuracy for point in sorted(points, key=lambda point: point.accuracy)}
        shown, hidden = most_of(best)
        points = [point for point in points if point.method in shown]
        controlled = rows[rows["control_run"].notna()].drop_duplicates(["tokens", "control_run"])
        untrained = [_point(own, own["control_accuracy"], "untrained") for _, own in controlled.groupby("tokens")]
        facts = [f"preset {preset}", *unusual_of("shared", encoder, stream), *_facts(rows, points), hardware(rows)]
        note = ", ".join(filter(None, [*facts, chance(rows), *hidden]))
        panels.append(Panel((f"{dataset}, {split}", note), _by_cost(points), _by_cost(untrained)))
    return panels


def _point(rows: DataFrame, shares: Sequence[float], method: str, variant: bool = False) -> Point:
    seeds = tuple(100 * float(share) for share in shares)
    cost = float(rows["clip_gflops"].mean())
    interval = None if method == "untrained" else accuracy(rows).interval
    return Point(method, _tokens(rows["tokens"].iloc[0]), cost, sum(seeds) / len(seeds), seeds, interval, variant)


def _by_cost(points: list[Point]) -> list[Point]:
    return sorted(points, key=lambda point: (point.gflops, point.accuracy))


def _facts(rows: DataFrame, points: Sequence[Point]) -> Iterator[str]:
    """Seeds, clips seen, test clips and the widest interval of a panel."""
    yield span((len(own) for own in seeds_of(rows, ["tokens"])), "seed", "seeds")
    yield span(rows["clips_seen"], "clip seen", "clips seen")
    if limits := [point.interval for point in points if point.interval]:
        half = max((high - low) / 2 for low, high in limits)
        yield f"{span(rows['n_test'], 'test clip', 'test clips')} (95 % interval within ±{half:.1f})"


def _tokens(grid: str) -> int:
    """Temporal tokens of ``8x25+1``."""
    return int(re.split(r"\D", grid, maxsplit=1)[0])


def printed(host: Host, variants: Collection[Printed | None] = ()) -> Iterator[Panel]:
    """A panel per published table with accuracy and inference cost of methods on token grids.

    ``variants``: rows of these tables that are variants of a method.
    """
    for name, rows in published.tables(host).items():
        cost = {(row["method"], row["variant"]): row["value"] for row in rows if row["metric"] == "encoder_gflops"}
        own = [row for row in rows if row["metric"] == "accuracy" and (row["method"], row["variant"]) in cost]
        points = [
            Point(method, _tokens(grid), cost[method, grid], value, variant=Printed(name, method, grid) in variants)
            for method, grid, value in ((row["method"], row["variant"], row["value"]) for row in own)
            if re.match(r"\d+x", grid)
        ]
        if points:
            dataset, split, source = own[-1]["dataset"], own[-1]["split"], own[-1]["source"].partition(" (")[0]
            heading = "Published, not measured here", f"{dataset}, {split}; {source}"
            yield Panel(heading, points)


# ------------------------------------------------------------------------------------------------ drawing
def _looks(host: Host, panels: Sequence[Panel], papers: Sequence[Panel]) -> dict[str, dict[str, Any]]:
    """Color, marker and label of each method by its slug."""
    methods = [point.method for panel in [*papers, *panels] for point in panel.points]
    return {slug(name): method_look(host, name) | {"label": name} for name in methods}


def _draw_methods(axes: Axes, panel: Panel, looks: Mapping[str, dict[str, Any]]) -> None:
    """Draw a line per method, hollow variants, dots of single seeds, and the untrained encoders."""
    for key, look in looks.items():
        if not (points := [point for point in panel.points if slug(point.method) == key]):
            continue
        defaults, variants = [p for p in points if not p.variant], [p for p in points if p.variant]
        joined = len({p.tokens for p in defaults}) == len(defaults)
        axes.plot(*_positions(defaults), **look | {"linestyle": "-" if joined else ""}, zorder=4)
        axes.plot(*_positions(variants), **hollow(look) | {"label": f"_{look['label']}, variant"}, zorder=5)
        if dots := [(p.gflops, seed) for p in points for seed in p.seeds if len(p.seeds) > 1]:
            dot = {key: look[key] for key in ("color", "transform") if key in look}
            axes.plot(*zip(*dots), ".", **dot, markersize=3.5, zorder=3, label=f"_{look['label']}, seeds")
    if panel.untrained:
        axes.plot(*_positions(panel.untrained), "_--", color=PALE, linewidth=1, zorder=2, label="untrained encoder")


def _draw_named(axes: Axes, panel: Panel, looks: Mapping[str, dict[str, Any]], published: bool) -> None:
    """Draw points with intervals and names, methods side by side; ``published`` ones hollow and gray."""
    points = sorted(panel.points, key=lambda point: point.accuracy)
    costs = [point.gflops for point in points]
    methods = list(dict.fromkeys(slug(point.method) for point in points))
    step = 0.0 if published else min(5.0, 30 / len(methods))
    shifts = {key: step * (place - (len(methods) - 1) / 2) for place, key in enumerate(methods)}
    look: dict[str, dict[str, Any]] = {}
    for key, shift in shifts.items():
        transform = offset_copy(axes.transData, axes.get_figure(root=True), shift, units="points")
        look[key] = looks[key] | {"transform": transform, "label": f"_{looks[key]['label']}"}
        if published:
            look[key] |= hollow(look[key] | {"color": PALE}) | {"label": f"_{looks[key]['label']}, published"}
    _draw_methods(axes, panel, look)
    for point in points:
        bar = {key: look[slug(point.method)][key] for key in ("color", "transform")}
        axes.plot([point.gflops] * 2, point.interval or [point.accuracy] * 2, **bar, linewidth=0.8, label="_interval")
    axes.update_datalim([(costs[0], end) for p in points for end in (*(p.interval or ()), *p.seeds, p.accuracy)])
    axes.autoscale_view()
    ratio = max(costs) / min(costs)  # space for the first bars and the last names
    _cost_axes(axes, [min(costs) / ratio**0.05, *costs, max(costs) * ratio**0.35])
    low, high = axes.get_ylim()
    for cost in {f"{cost:.1g}" for cost in costs}:  # a column of points has a column of names to its right
        column = [point for point in points if f"{point.gflops:.1g}" == cost]
        heights = [(point.accuracy - low) / (high - low) * 72 * HEIGHT for point in column]
        for point, height, free in zip(column, heights, spread(heights, 8.5, 72 * HEIGHT)):
            key = slug(point.method)
            color, offset = look[key]["color"], (max(shifts.values()) + 7 - shifts[key], free - height)
            name = f"{looks[key]['label']}-{point.tokens}" + (" (variant)" if point.variant else "")
            arrow = {"arrowstyle": "-", "color": color, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2}
            place = {"xycoords": look[key]["transform"], "arrowprops": arrow, "va": "center", "ha": "left"}
            _write(axes, name, (point.gflops, point.accuracy), offset, color=color, **place)


def _positions(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [p.gflops for p in points], [p.accuracy for p in points]


def _cost_axes(axes: Axes, costs: Sequence[float]) -> None:
    accuracy_axis(axes)
    log_axis(axes, "x", costs)
    axes.set_xlabel("GFLOPs of the inference encoder")


def _write(axes: Axes, text: str, place: tuple[float, float], offset: tuple[float, float], **look: Any) -> None:
    """Write ``text`` next to a point, ``offset`` points away."""
    stroke = [withStroke(linewidth=2, foreground="white")]
    usual: dict[str, Any] = {"fontsize": 7, "ha": "center", "va": "bottom"} | PLAIN
    axes.annotate(text, place, offset, textcoords="offset points", zorder=6, path_effects=stroke, **usual | look)
