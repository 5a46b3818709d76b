"""``plot token-budget`` and ``plot trade-off``: accuracy over inference cost, a line per method through its budgets."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from skelbench.core.component import Spec
from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.stats.paired import accuracy_interval
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.plugin.host import Host
from skelbench.reporting import published
from skelbench.reporting.controls import CONTROLS
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
from skelbench.reporting.seeds import newest, of_subjects, seeds_of, unusual_of
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
HOW_MEAN = (
    "no setting in {root} was probed on two splits of one data set; start with: skelbench study token-budget --split "
    "SPLIT for each of them"
)
COST = f"GFLOPs of the inference encoder: {BODIES} bodies, matrix products, 2 per multiply-accumulate."
CAPTION = (
    "Lines: the linear probe's accuracy after its last epoch, mean over seeds; dots: single seeds; no line: settings "
    "that differ in more than the budget. Hollow: a variant of the method. Numbers: temporal tokens. Dashed: untrained "
    f"encoders of the same shape, data and seeds. {COST}"
)
PUBLISHED = "Published panels: as printed, not measured here."
CAPTION_NAMED = (
    "Accuracy of the linear probe after its last epoch, mean over seeds. The suffix is the number of temporal tokens; "
    f"points of one name differ in more settings, which `skelbench compare --all` names. {COST}"
)
MEAN = "Means over splits: settings that were probed on each of them."
PUBLISHED_NAMED = "Gray and hollow: published, not measured here. Published costs follow no single convention."


class TradeOff(Spec):
    """Settings of the figure ``trade-off``."""

    splits: Literal["each", "mean"] = "each"
    """``mean``: accuracies averaged over all splits of a data set, as the paper's figure; else a panel per split."""
    published: bool = True
    """Show published points: next to ours for the same data set and split, else in a panel of their own."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    lines = "accuracy against GFLOPs of the encoder, one line per method; published results"
    points = "accuracy against inference GFLOPs, one point per method and token grid; published results hollow"
    return [
        FigureSpec(name="token-budget", target=":draw", summary=lines),
        FigureSpec(name="trade-off", target=":draw_trade_off", config=":TradeOff", summary=points),
    ]


@dataclass(frozen=True)
class Point:
    """A method at one budget. Accuracies in percent; GFLOPs of the inference encoder."""

    method: str
    tokens: int
    gflops: float
    accuracy: float
    seeds: tuple[float, ...] = ()
    variant: bool = False
    """Result of a variant of the method."""

    @property
    def top(self) -> float:
        """Highest accuracy of a seed."""
        return max(*self.seeds, self.accuracy, 0)


@dataclass
class Panel:
    """Results on one data set and split, with one preset and hardware. Points are ordered by cost."""

    heading: tuple[str, str]
    """Name and note."""
    where: tuple[str, frozenset[str]]
    """Data set and full names of the splits; several splits if accuracies are means over them."""
    points: list[Point]
    untrained: list[Point] = field(default_factory=list)


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return a panel per data set, split, preset and hardware, then the published ones.

    Raises:
        NothingToDraw: no run fits.
    """
    panels, papers = _panels(inputs, inputs.frame, HOW)
    looks, every = _looks(panels, papers), [*panels, *papers]
    figure, grid = panel_grid([panel.heading for panel in every], COLUMNS)
    for panel, axes in zip(every, grid):
        _draw_methods(axes, panel, looks)
        highest: dict[tuple[int, str], Point] = {}
        for point in sorted(panel.points, key=lambda point: point.top):
            highest[point.tokens, f"{point.gflops:.1g}"] = point
        for point in sorted(highest.values(), key=lambda point: point.tokens):
            _write(axes, str(point.tokens), (point.gflops, point.top), (0, 5))
        _cost_axes(axes, [point.gflops for point in panel.points])
    captions = [CAPTION, *([PUBLISHED] if papers else []), *published.notes(inputs.host, NAME)]
    return finish(figure, "Accuracy against inference cost", captions)


@styled
def draw_trade_off(inputs: TableInputs) -> Figure:
    """Return a panel per data set, split (or all of them), preset and hardware.

    Raises:
        NothingToDraw: no run fits.
    """
    settings = inputs.settings_as(TradeOff)
    mean = settings.splits == "mean"
    panels, papers = _panels(inputs, over_splits(inputs.frame) if mean else inputs.frame, HOW_MEAN if mean else HOW)
    papers = papers if settings.published else []
    looks, own = _looks(panels, papers), [panel.where for panel in panels]
    every = [*panels, *(Panel(paper.heading, paper.where, []) for paper in papers if paper.where not in own)]
    figure, grid = panel_grid([panel.heading for panel in every], COLUMNS, height=3.0)
    for panel, axes in zip(every, grid):
        published_points = [point for paper in papers if paper.where == panel.where for point in paper.points]
        _draw_named(axes, panel, [point for point in published_points if not point.variant], looks)
    captions = [CAPTION_NAMED, *([MEAN] if mean else [])]
    captions += [PUBLISHED_NAMED, *published.notes(inputs.host, NAME)] if papers else []
    return finish(figure, "Accuracy-efficiency trade-off", captions)


# ------------------------------------------------------------------------------------------------ data
def _panels(inputs: TableInputs, frame: DataFrame, how: str) -> tuple[list[Panel], list[Panel]]:
    """Measured and published panels; ``how``: message without a measured one."""
    rows = [row for row in chain.from_iterable(announced(inputs, NAME)) if row.variant]
    panels = measured(frame, inputs.host, [row.title for row in rows])
    if not panels:
        raise NothingToDraw(how.format(root=inputs.store.root))
    return panels, list(printed(inputs.host, {row.printed for row in rows}))


def measured(frame: DataFrame, host: Host, variants: Collection[str] = ()) -> list[Panel]:
    """Panels of the evaluated runs in ``frame`` (columns: ``skelbench.reporting.frame``).

    They show linear probes after the last step of trained methods in the shared setting, on the grids of the study,
    and of variants only the titles ``variants``. A point is the mean over all seeds of one setting; of versions of a
    method the runs that finished last count, as in the tables.
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
    exact, older = fits["exact"].astype(bool), list[str]()
    for _, own in fits[exact].groupby([*PANEL, "method", "variant", "tokens"], dropna=False):
        newest(own, older)
    fits = fits[~(exact & fits["run"].isin(older))]
    panels = []
    for (dataset, split, preset, encoder, stream, hardware, _), rows in fits.groupby(PANEL):
        note = ", ".join([f"preset {preset}", *unusual_of("shared", encoder, stream), *_facts(rows), hardware])
        points = [
            _point(own, own["accuracy"], host.spelling(str(own["method"].iloc[0])), bool(own["variant"].iloc[0]))
            for own in seeds_of(rows, ["method", "tokens", "variant"])
        ]
        controlled = rows[rows["control_run"].notna()].drop_duplicates(["tokens", "control_run"])
        untrained = [_point(own, own["control_accuracy"], "untrained") for _, own in controlled.groupby("tokens")]
        where = dataset, published.splits_of(split)
        panels.append(Panel((f"{dataset}, {split}", note), where, _by_cost(points), _by_cost(untrained)))
    return panels


def _point(rows: DataFrame, shares: Sequence[float], method: str, variant: bool = False) -> Point:
    seeds = tuple(100 * float(share) for share in shares)
    cost = float(rows["clip_gflops"].mean())
    return Point(method, _tokens(rows["tokens"].iloc[0]), cost, sum(seeds) / len(seeds), seeds, variant)


def _by_cost(points: list[Point]) -> list[Point]:
    return sorted(points, key=lambda point: (point.gflops, point.accuracy))


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
            Point(method, _tokens(grid), cost[method, grid], row["value"], (), Printed(name, method, grid) in variants)
            for row in own
            if re.match(r"\d+x", grid := row["variant"]) and (method := row["method"])
        ]
        if points:
            dataset, split, source = own[-1]["dataset"], own[-1]["split"], own[-1]["source"].partition(" (")[0]
            heading = "Published, not measured here", f"{dataset}, {split}; {source}"
            yield Panel(heading, (dataset, published.splits_of(split)), points)


def over_splits(frame: DataFrame) -> DataFrame:
    """Return a row per setting and seed that was probed on all splits of its data set, at least two: mean accuracy.

    The run that finished last counts. Splits share clips, so the mean has no interval: neither ``n_test`` nor
    ``by_subject``.
    """
    import pandas

    setting = [
        "title", "method", "variant", "setting", "dataset", "data", "tokens", "frames", "patch", "preset", "encoder",
        "changed", "hardware", "seed", "protocol", "stream", "checkpoint",
    ]  # fmt: skip
    trained = frame[~frame["method"].isin(CONTROLS) & frame["clip_gflops"].notna()]
    latest = trained.sort_values("finished").drop_duplicates([*setting, "split"], keep="last").sort_values("split")
    splits = latest.groupby(["dataset", "data"])["split"].transform("nunique")
    means = []
    for _, rows in latest.assign(splits=splits)[splits > 1].groupby(setting, dropna=False, sort=False):
        if len(rows) == rows["splits"].iloc[0]:
            mean = {key: rows[key].astype(float).mean() for key in ("accuracy", "control_accuracy")}
            mean |= {"split": " + ".join(rows["split"]) + " mean", "group": "+".join(rows["group"])}
            means.append({**rows.iloc[0], **mean, "n_test": math.nan, "by_subject": None})
    return pandas.DataFrame(means, columns=frame.columns)


# ------------------------------------------------------------------------------------------------ drawing
def _looks(panels: Sequence[Panel], papers: Sequence[Panel]) -> dict[str, dict[str, Any]]:
    """Color, marker and label of each method by its slug; a paper's own method, the last of its table, comes first."""
    methods = [point.method for paper in papers for point in paper.points]
    names = {slug(name): name for name in [*(point.method for panel in panels for point in panel.points), *methods]}
    slugs = list(dict.fromkeys(map(slug, methods)))
    looks = looks_of(names, [*slugs[-1:], *slugs[:-1]])
    return {key: look | {"label": names[key]} for key, look in looks.items()}


def _draw_methods(axes: Axes, panel: Panel, looks: Mapping[str, dict[str, Any]]) -> None:
    """Draw a line per method, hollow variants, dots of single seeds, and the untrained encoders."""
    for key, look in looks.items():
        points = [point for point in panel.points if slug(point.method) == key]
        if not points:
            continue
        defaults, variants = [p for p in points if not p.variant], [p for p in points if p.variant]
        joined = len({p.tokens for p in defaults}) == len(defaults)
        axes.plot(*_positions(defaults), **look, linestyle="-" if joined else "", zorder=4)
        axes.plot(*_positions(variants), **hollow(look) | {"label": f"_{look['label']}, variant"}, zorder=5)
        if dots := [(p.gflops, seed) for p in points for seed in p.seeds if len(p.seeds) > 1]:
            axes.plot(*zip(*dots), ".", color=look["color"], markersize=3.5, zorder=3, label=f"_{look['label']}, seeds")
    if panel.untrained:
        axes.plot(*_positions(panel.untrained), "_--", color=PALE, linewidth=1, zorder=2, label="untrained encoder")


def _draw_named(axes: Axes, panel: Panel, papers: Sequence[Point], looks: Mapping[str, dict[str, Any]]) -> None:
    """Draw our points in color and the points ``papers`` of papers pale and hollow, each with its name."""
    _draw_methods(axes, panel, looks)
    for method in dict.fromkeys(point.method for point in papers):
        look = hollow(looks[slug(method)] | {"color": PALE}) | {"label": f"_{method}, published"}
        points = [point for point in papers if point.method == method]
        axes.plot(*_positions(points), **look | {"linestyle": "--", "linewidth": 0.8}, zorder=3)
    costs = [point.gflops for point in [*panel.points, *papers]]
    for point in [*panel.points, *papers]:
        look = looks[slug(point.method)]
        name = f"{look['label']}-{point.tokens}" + (" (variant)" if point.variant else "")
        color = PALE if point in papers else look["color"]
        right = {"va": "center", "ha": "left"} if point.gflops == max(costs) else {}
        _write(axes, name, (point.gflops, point.accuracy), (5, 0) if right else (0, 4), color=color, **right)
    _cost_axes(axes, [*costs, max(costs) * (max(costs) / min(costs)) ** 0.15])  # space for the last names


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
