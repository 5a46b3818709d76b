"""``plot trade-off``: accuracy over inference cost, as in the paper's first figure; points named after their tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skelbench.core.component import Spec
from skelbench.evaluation.cost import BODIES
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting import published
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import PALE, finish, hollow, panel_grid, styled
from skelbench.reporting.figures.token_budget import (
    COLUMNS,
    Panel,
    cost_axes,
    draw_methods,
    measured,
    method_looks,
    positions,
    printed,
    write,
)
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
    "Accuracy of the linear probe after its last epoch, mean over seeds. The suffix is the number of temporal tokens; "
    "points of one name differ in more settings, which `skelbench compare --all` names. "
    f"GFLOPs of the inference encoder: {BODIES} bodies, matrix products, 2 per multiply-accumulate."
)
MEAN = "Means over splits: settings that were probed on each of them."
PUBLISHED = "Grey and hollow: as printed, not measured here; those costs follow no single convention."


class TradeOff(Spec):
    """Settings of the figure."""

    splits: Literal["each", "mean"] = "each"
    """``mean``: accuracies averaged over all splits of a data set, as the paper's figure; else a panel per split."""
    published: bool = True
    """Show published points: next to ours for the same data set and split, else in a panel of their own."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "accuracy over inference GFLOPs, points named after method and tokens, published ones hollow"
    return [FigureSpec(name="trade-off", target=":draw", config=":TradeOff", summary=summary)]


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return a panel per data set, split (or all of them), preset and hardware.

    Raises:
        NothingToDraw: no run fits.
    """
    settings = inputs.settings_as(TradeOff)
    rows = [row for row in chain.from_iterable(announced(inputs, NAME)) if row.variant]
    titles, mean = [row.title for row in rows], settings.splits == "mean"
    panels = measured(over_splits(inputs.frame) if mean else inputs.frame, inputs.host, titles)
    if not panels:
        why = NO_MEAN if mean and measured(inputs.frame, inputs.host) else HOW
        raise NothingToDraw(why.format(root=inputs.store.root))
    papers = list(printed(inputs.host, {row.printed for row in rows})) if settings.published else []
    looks = method_looks(panels, papers)
    pairs = [(panel, [paper for paper in papers if paper.where == panel.where]) for panel in panels]
    measured_on = [panel.where for panel in panels]
    pairs += [(Panel(paper.heading, {}), [paper]) for paper in papers if paper.where not in measured_on]
    figure, grid = panel_grid([panel.heading for panel, _ in pairs], COLUMNS, height=3.0)
    for (panel, beside), axes in zip(pairs, grid):
        _panel(axes, panel, beside, looks)
    captions = [CAPTION, *([MEAN] if mean else [])]
    captions += [PUBLISHED, *published.notes(inputs.host, NAME)] if papers else []
    return finish(figure, "Accuracy-efficiency trade-off", captions)


def _panel(axes: Axes, panel: Panel, papers: Sequence[Panel], looks: dict[str, dict[str, Any]]) -> None:
    """Draw our points in color and those of papers pale and hollow, each with its name."""
    draw_methods(axes, panel, looks)
    lines = [(method, points, looks[slug(method)]) for method, points in panel.points.items()]
    for method, points in chain.from_iterable(paper.points.items() for paper in papers):
        look, points = looks[slug(method)] | {"color": PALE}, [point for point in points if not point.variant]
        pale = {"linestyle": "--", "linewidth": 0.8, "label": f"_{method}, published"}
        axes.plot(*positions(points), **hollow(look) | pale, zorder=3)
        lines.append((method, points, look))
    costs = [point.gflops for _, points, _ in lines for point in points]
    for _, points, look in lines:
        for point in points:
            name = f"{look['label']}-{point.tokens}" + (" (variant)" if point.variant else "")
            if point.gflops == max(costs):
                write(axes, name, point.gflops, point.accuracy, (5, 0), va="center", color=look["color"])
            else:
                write(axes, name, point.gflops, point.accuracy, (0, 4), ha="center", va="bottom", color=look["color"])
    cost_axes(axes, [*costs, max(costs) * (max(costs) / min(costs)) ** 0.15])  # space for the last names


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
    trained = frame[~frame["method"].isin(("untrained", "raw")) & frame["clip_gflops"].notna()]
    latest = trained.sort_values("finished").drop_duplicates([*setting, "split"], keep="last")
    means = []
    for _, own in latest.groupby(["dataset", "data"], sort=False):
        splits = sorted(own["split"].unique())
        for _, rows in own.groupby(setting, dropna=False, sort=False):
            if len(splits) > 1 and len(rows) == len(splits):
                rows = rows.sort_values("split")
                mean = {key: rows[key].astype(float).mean() for key in ("accuracy", "control_accuracy")}
                mean |= {"split": " + ".join(splits) + " mean", "group": "+".join(rows["group"])}
                means.append({**rows.iloc[0], **mean, "n_test": math.nan, "by_subject": None})
    return pandas.DataFrame(means, columns=frame.columns)
