"""``plot trade-off``: the paper's first figure, accuracy over inference cost, each point named after its tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from skelbench.core.component import Spec
from skelbench.evaluation.cost import BODIES
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting import published
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.panels import Heading, panel_grid
from skelbench.reporting.figures.style import PALE, PLAIN, house, look_of, places
from skelbench.reporting.figures.token_budget import COLUMNS, Panel, Point, at, measured, printed, scales
from skelbench.reporting.published import slug
from skelbench.reporting.study_rows import announced
from skelbench.reporting.token_budget import NAME

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

HOW = "no method with a linear probe and a counted cost is in {root} yet; start with: skelbench study token-budget"
NO_MEAN = (
    "no setting in {root} was probed on two splits of one data set, so there is no mean over them; leave out --set "
    "splits=mean, or start with: skelbench study token-budget --split SPLIT for each of them"
)
CAPTION = (
    "Accuracy of the linear probe after its last epoch, mean over seeds. The suffix is the number of temporal tokens. "
    f"GFLOPs of the inference encoder: {BODIES} bodies, matrix products, 2 per multiply-accumulate."
)
SIZE = 6.5
"""Font size of the names, points."""
ALIKE = "Points of one name differ in more settings; `skelbench compare --all` names them."
MEAN = "Means over splits: settings that were probed on each of them."
PUBLISHED = "Grey and hollow: as printed, not measured here; those costs follow no single convention."


class TradeOff(Spec):
    """Settings of the figure."""

    splits: Literal["each", "mean"] = "each"
    """``mean``: accuracies averaged over all splits of a data set, as the paper's figure; else a panel per split."""
    published: bool = True
    """Whether published points are shown: beside ours where data set and split are theirs, else in their own panel."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "accuracy over inference GFLOPs, points named after method and tokens, published ones hollow"
    return [FigureSpec(name="trade-off", target=":draw", config=":TradeOff", summary=summary)]


def draw(inputs: TableInputs) -> Figure:
    """The accuracy-efficiency figure: a panel per data set, split (or all of them), preset and hardware.

    Raises:
        NothingToDraw: no run fits.
    """
    settings = inputs.settings_as(TradeOff)
    rows = [row for row in chain.from_iterable(announced(inputs, NAME)) if row.variant]
    titles, mean = [row.title for row in rows], settings.splits == "mean"
    panels = measured(over_splits(inputs.frame) if mean else inputs.frame, inputs.host, titles)
    if not panels:
        raise NothingToDraw(
            (NO_MEAN if mean and measured(inputs.frame, inputs.host) else HOW).format(root=inputs.store.root)
        )
    papers = list(printed(inputs.host, {row.printed for row in rows})) if settings.published else []
    captions = [CAPTION, *([ALIKE] if any(map(_ambiguous, panels)) else []), *([MEAN] if mean else [])]
    captions += [PUBLISHED] if papers else []
    captions += published.notes(inputs.host, NAME) if papers else []
    with house():
        return _figure(panels, papers, captions)


def over_splits(frame: DataFrame) -> DataFrame:
    """A row per setting and seed that was probed on every split of its data set of which there is any, at least two:
    the mean accuracy. Of what was evaluated more than once, the run that finished last. Splits share clips, so that the
    mean has no interval: neither ``n_test`` nor ``by_subject``."""
    import pandas

    setting = [
        "title", "method", "variant", "setting", "dataset", "data", "tokens", "frames", "patch", "preset", "encoder",
        "changed", "hardware", "seed", "protocol", "stream", "checkpoint",
    ]  # fmt: skip
    trained = frame[~frame["method"].isin(("untrained", "raw")) & frame["clip_gflops"].notna()]
    latest = trained.sort_values("finished").drop_duplicates([*setting, "split"], keep="last")
    made = []
    for _, own in latest.groupby(["dataset", "data"], sort=False):
        splits = sorted(own["split"].unique())
        for _, rows in own.groupby(setting, dropna=False, sort=False):
            if len(splits) > 1 and len(rows) == len(splits):
                rows = rows.sort_values("split")
                means = {key: rows[key].astype(float).mean() for key in ("accuracy", "control_accuracy")}
                what = {"split": " + ".join(splits) + " mean", "group": "+".join(rows["group"])}
                made.append({**rows.iloc[0], **means, **what, "n_test": math.nan, "by_subject": None})
    return pandas.DataFrame(made, columns=frame.columns)


# ------------------------------------------------------------------------------------------------ drawing
def _figure(panels: list[Panel], papers: list[Panel], captions: list[str]) -> Figure:
    spelt = {slug(method): method for paper in papers for method in paper.points}
    ours = {slug(method): spelt.get(slug(method), method) for panel in panels for method in panel.points}
    order = places(ours, [one for one in [*list(spelt)[-1:], *list(spelt)[:-1]] if one in ours])
    legend = [(Line2D([], [], **look_of(order[one])), ours[one]) for one in sorted(ours, key=order.__getitem__)]
    if papers:
        legend.append((Line2D([], [], **_hollow("o")), "published"))
    pairs: list[tuple[Panel, list[Panel]]] = [
        (panel, [paper for paper in papers if paper.where == panel.where]) for panel in panels
    ]
    beside = {id(paper) for _, some in pairs for paper in some}
    pairs += [(Panel(paper.heading, {}), [paper]) for paper in papers if id(paper) not in beside]
    headings = [_heading(panel, some) for panel, some in pairs]
    figure, grid = panel_grid("Accuracy-efficiency trade-off", headings, COLUMNS, legend, captions, height=2.3)
    named = [_panel(axes, panel, some, order, spelt | ours) for (panel, some), axes in zip(pairs, grid)]
    figure.draw_without_rendering()  # settles where points are
    for axes, names in zip(grid, named):
        _write(axes, names)
    return figure


def _ambiguous(panel: Panel) -> bool:
    """Whether two of its points have one name."""
    named = [[(point.tokens, point.variant) for point in points] for points in panel.points.values()]
    return any(len(set(own)) < len(own) for own in named)


def _heading(panel: Panel, papers: list[Panel]) -> Heading:
    told = panel.heading
    if not panel.points or not papers:
        return told
    return Heading(told.name, f"{told.note}; published: {papers[0].heading.note.partition('; ')[2]}")


def _hollow(marker: str) -> dict[str, Any]:
    return {
        "color": PALE, "marker": marker, "markersize": 4.5, "markerfacecolor": "white", "markeredgecolor": PALE,
        "linestyle": "--", "linewidth": 0.8,
    }  # fmt: skip


def _panel(
    axes: Axes, panel: Panel, papers: list[Panel], order: dict[str, int], spelt: dict[str, str]
) -> list[tuple[Point, str, str]]:
    """Draw the points; returns them with their names and colors."""
    axes.set_xscale("log")
    names = []
    for method, points in panel.points.items():
        look, name = look_of(order[slug(method)]), spelt[slug(method)]
        whole, variants = [p for p in points if not p.variant], [p for p in points if p.variant]
        joined = "-" if len({p.tokens for p in whole}) == len(whole) else ""
        axes.plot(*at(whole), **look, linestyle=joined, zorder=4, label=name)
        axes.plot(*at(variants), **look, linestyle="", label="_variant")
        names += [(p, _suffixed(name, p.tokens, p.variant), look["color"]) for p in points]
    for method, points in (item for paper in papers for item in paper.points.items()):
        marker = look_of(order[slug(method)])["marker"] if slug(method) in order else "o"
        points = [p for p in points if not p.variant]
        axes.plot(*at(points), **_hollow(marker), zorder=3, label=f"{method}, published")
        names += [(p, _suffixed(method, p.tokens), PALE) for p in points]
    every = [p for one in (panel, *papers) for points in one.points.values() for p in points]
    scales(axes, every)
    low, high = axes.get_xlim()
    axes.set_xlim(low / (high / low) ** 0.07, high * (high / low) ** 0.07)
    axes.margins(y=0.2)
    return names


def _write(axes: Axes, names: Sequence[tuple[Point, str, str]]) -> None:
    """Write the name of every point in its color next to it, above, below, right or left: where it covers least."""
    figure = axes.get_figure()
    assert figure is not None
    to_points = 72 / figure.dpi
    places = axes.transData.transform([(point.gflops, point.accuracy) for point, _, _ in names]) * to_points
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in places]
    taken.append((-1e4, -1e4, axes.get_window_extent().x0 * to_points, 1e4))  # numbers of the axis
    for line in axes.lines:
        ends = axes.transData.transform(np.asarray(line.get_xydata(), float)) * to_points
        drawn = line.get_linestyle() != "None"
        along = [xy for pair in pairwise(ends) for xy in np.linspace(*pair, 40)] if drawn else []
        taken += [(x - 1, y - 1, x + 1, y + 1) for x, y in along]
    for (point, name, color), (x, y) in sorted(zip(names, places.tolist()), key=lambda one: one[1][::-1]):
        wide, tall = 0.6 * SIZE * len(name), 1.1 * SIZE
        sides = [(0, 5 + tall / 2), (0, -5 - tall / 2), (5 + wide / 2, 0), (-5 - wide / 2, 0)]
        boxes = [(x + dx - wide / 2, y + dy - tall / 2, x + dx + wide / 2, y + dy + tall / 2) for dx, dy in sides]
        covered = [sum(_overlap(box, other) for other in taken) for box in boxes]
        best = covered.index(min(covered))
        taken.append(boxes[best])
        axes.annotate(
            name, (point.gflops, point.accuracy), sides[best], textcoords="offset points", ha="center", va="center",
            fontsize=SIZE, color=color, zorder=6, path_effects=[withStroke(linewidth=2, foreground="white")], **PLAIN,
        )  # fmt: skip


def _overlap(one: Sequence[float], other: Sequence[float]) -> float:
    wide, tall = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, wide) * max(0.0, tall)


def _suffixed(name: str, tokens: int, variant: bool = False) -> str:
    """``SLiM-8``: the paper's notation."""
    return f"{name}-{tokens}" + (" (variant)" if variant else "")
