"""``plot token-budget``: accuracy over inference cost, a line per method through its token budgets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.stats.paired import accuracy_interval
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
    looks_of,
    panel_grid,
    span,
    styled,
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
PANEL = ["dataset", "split", "preset", "encoder", "stream", "hardware", "data"]
"""Columns that the runs of one panel have in common; ``data`` is the version of the data set."""
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
    """Result of a variant of the method."""


@dataclass
class Panel:
    """Results on one data set and split, with one preset and hardware. Points are ordered by cost."""

    heading: tuple[str, str]
    """Name and note."""
    points: dict[str, list[Point]]
    """Points by method."""
    untrained: list[Point] = field(default_factory=list)
    where: tuple[str, frozenset[str]] = ("", frozenset())
    """Data set and full names of the splits; several splits if accuracies are means over them."""

    @property
    def costs(self) -> list[float]:
        """GFLOPs of all points."""
        return [point.gflops for points in self.points.values() for point in points]


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return a panel per data set, split, preset and hardware, then the published ones.

    Raises:
        NothingToDraw: no run fits.
    """
    rows = [row for row in chain.from_iterable(announced(inputs, NAME)) if row.variant]
    panels = measured(inputs.frame, inputs.host, [row.title for row in rows])
    if not panels:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    papers = list(printed(inputs.host, {row.printed for row in rows}))
    looks = method_looks(panels, papers)
    every = [*panels, *papers]
    figure, grid = panel_grid([panel.heading for panel in every], COLUMNS)
    for panel, axes in zip(every, grid):
        draw_methods(axes, panel, looks)
        stacks: dict[tuple[int, str], list[Point]] = {}
        for point in chain.from_iterable(panel.points.values()):
            stacks.setdefault((point.tokens, f"{point.gflops:.1g}"), []).append(point)
        for (tokens, _), stack in stacks.items():
            top = max(stack, key=lambda point: max((*point.seeds, point.accuracy)))
            write(
                axes, str(tokens), top.gflops, max((*top.seeds, top.accuracy)), va="bottom", ha="center", offset=(0, 5)
            )
        cost_axes(axes, panel.costs)
    captions = [CAPTION, *([PUBLISHED] if papers else []), *published.notes(inputs.host, NAME)]
    return finish(figure, "Accuracy against inference cost", captions)


# ------------------------------------------------------------------------------------------------ data
def measured(frame: DataFrame, host: Host, variants: Collection[str] = ()) -> list[Panel]:
    """Panels of the evaluated runs in ``frame`` (columns: ``skelbench.reporting.frame``).

    They show linear probes after the last step of trained methods in the shared setting, on the grids of the study,
    and of variants only the titles ``variants``. A point is the mean over all seeds of one setting. Costs are for
    :data:`~skelbench.evaluation.cost.BODIES` bodies, as in the table of the same name.
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
    by_cost = attrgetter("gflops", "accuracy")
    panels = []
    for (dataset, split, preset, encoder, stream, hardware, _), rows in fits.groupby(PANEL):
        rows = newest(rows)
        facts = [f"preset {preset}", *unusual_of("shared", encoder, stream), *_facts(rows), hardware]
        points = {
            host.spelling(str(method)): sorted(_points(own), key=by_cost) for method, own in rows.groupby("method")
        }
        where = dataset, published.splits_of(split)
        panels.append(
            Panel((f"{dataset}, {split}", ", ".join(facts)), points, sorted(_untrained(rows), key=by_cost), where)
        )
    return panels


def newest(rows: DataFrame) -> DataFrame:
    """Drop older versions of a method: among runs of one exact preset those that finished last count, as in tables.

    Runs with changed settings all count.
    """
    finished = rows["finished"].astype(float).fillna(0)
    latest = finished.groupby(rows["group"]).transform("max")
    newest = latest.groupby([rows["method"], rows["variant"], rows["tokens"]]).transform("max")
    return rows[(latest == newest) | ~rows["exact"].astype(bool)]


def _facts(rows: DataFrame) -> Iterator[str]:
    """Seeds, clips seen, test clips and the widest interval of a panel."""
    yield span((len(own) for own in seeds_of(rows, ["tokens"])), "seed", "seeds")
    yield span(rows["clips_seen"], "clip seen", "clips seen")
    if rows["n_test"].isna().any():  # means over splits, which share clips
        return
    evaluations = zip(rows["accuracy"], rows["n_test"], rows["by_subject"])
    limits = [accuracy_interval(share, int(n), of_subjects([people])) for share, n, people in evaluations]
    half = max(50 * (high - low) for (low, high), _ in limits)
    over = ", over subjects" if any(over.endswith("subjects") for _, over in limits) else ""
    yield f"{span(rows['n_test'], 'test clip', 'test clips')} (95\N{NO-BREAK SPACE}% interval within ±{half:.1f}{over})"


def _points(rows: DataFrame) -> Iterator[Point]:
    for own in seeds_of(rows, ["tokens", "variant"]):
        first, seeds = own.iloc[0], tuple(100 * float(share) for share in own["accuracy"])
        cost = float(own["clip_gflops"].mean())
        yield Point(_tokens(first["tokens"]), cost, sum(seeds) / len(seeds), seeds, bool(first["variant"]))


def _untrained(rows: DataFrame) -> Iterator[Point]:
    """The untrained baselines of the runs, one point per token grid."""
    for grid, some in rows[rows["control_run"].notna()].groupby("tokens"):
        seeds = 100 * some.drop_duplicates("control_run")["control_accuracy"].astype(float)
        yield Point(_tokens(grid), float(some["clip_gflops"].mean()), float(seeds.mean()))


def _tokens(grid: str) -> int:
    """Temporal tokens of ``8x25+1``."""
    return int(re.split(r"\D", grid, maxsplit=1)[0])


def printed(host: Host, variants: Collection[Printed | None] = ()) -> Iterator[Panel]:
    """A panel per published table with accuracy and inference cost of methods on token grids.

    ``variants``: rows of these tables that are variants of a method.
    """
    for name, rows in published.tables(host).items():
        cost = {(row["method"], row["variant"]): row["value"] for row in rows if row["metric"] == "encoder_gflops"}
        panel = Panel(("", ""), {})
        for row in rows:
            method, variant = row["method"], row["variant"]
            if row["metric"] == "accuracy" and (method, variant) in cost and re.match(r"\d+x", variant):
                other = Printed(name, method, variant) in variants
                point = Point(_tokens(variant), cost[method, variant], row["value"], variant=other)
                panel.points.setdefault(method, []).append(point)
                source = row["source"].partition(" (")[0]
                panel.heading = "Published, not measured here", f"{row['dataset']}, {row['split']}; {source}"
                panel.where = row["dataset"], published.splits_of(row["split"])
        if panel.points:
            yield panel


# ------------------------------------------------------------------------------------------------ drawing
def method_looks(panels: Sequence[Panel], papers: Sequence[Panel]) -> dict[str, dict[str, Any]]:
    """Color, marker and label of each method by its slug; a paper's own method, the last of its table, comes first."""
    names = {slug(method): method for panel in panels for method in panel.points}
    names |= {slug(method): method for paper in papers for method in paper.points}
    known = [slug(method) for paper in papers for method in paper.points]
    looks = looks_of(names, [*known[-1:], *known[:-1]])
    return {key: look | {"label": names[key]} for key, look in looks.items()}


def draw_methods(axes: Axes, panel: Panel, looks: dict[str, dict[str, Any]]) -> None:
    """Draw a line per method, hollow variants, dots of single seeds, and the untrained encoders."""
    order = list(looks)
    for method, points in sorted(panel.points.items(), key=lambda item: order.index(slug(item[0]))):
        look = looks[slug(method)]
        whole, variants = [p for p in points if not p.variant], [p for p in points if p.variant]
        joined = len({p.tokens for p in whole}) == len(whole)
        axes.plot(*positions(whole), **look, linestyle="-" if joined else "", zorder=4)
        axes.plot(*positions(variants), **hollow(look) | {"label": f"_{method}, variant"}, zorder=5)
        dots = [(p.gflops, seed) for p in points for seed in p.seeds if len(p.seeds) > 1]
        if dots:
            axes.plot(*zip(*dots), ".", color=look["color"], markersize=3.5, zorder=3, label=f"_{method}, seeds")
    if panel.untrained:
        axes.plot(*positions(panel.untrained), "_--", color=PALE, linewidth=1, zorder=2, label="untrained encoder")


def positions(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """GFLOPs and accuracies of ``points``."""
    return [p.gflops for p in points], [p.accuracy for p in points]


def cost_axes(axes: Axes, costs: Sequence[float]) -> None:
    """Give ``axes`` a logarithmic axis of GFLOPs and one of accuracies."""
    accuracy_axis(axes)
    log_axis(axes, "x", costs)
    axes.set_xlabel("GFLOPs of the inference encoder")


def write(axes: Axes, text: str, x: float, y: float, offset: tuple[float, float], **look: Any) -> None:
    """Write ``text`` next to a point, ``offset`` points away."""
    stroke = [withStroke(linewidth=2, foreground="white")]
    axes.annotate(
        text,
        (x, y),
        offset,
        textcoords="offset points",
        zorder=6,
        path_effects=stroke,
        **{"fontsize": 7} | look | PLAIN,
    )
