"""``plot confusion``: which classes are confused, one matrix per setting."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from skelbench.plugin import FigureSpec, hookimpl
from skelbench.records.errors import if_whole
from skelbench.reporting.confusion import classes_of, matrix, read, short
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import GUIDE, INK, PLAIN, add_heading, styled
from skelbench.reporting.seeds import chance, seeds_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

MOST = 4
"""Largest number of matrices in one figure."""
NUMBERED = 16
"""Largest number of classes whose percentages are written into the cells."""
HOW = "no run in {root} was evaluated by {protocol}; start with: skelbench run METHOD --tokens 8"


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "confusion matrix of the classes, one per run (--run, --protocol)"
    return [FigureSpec(name="confusion", target=":draw", summary=summary, snapshots=True)]


class Panel(NamedTuple):
    """A matrix of fractions [K, K] whose rows sum to 1; NaN for a class without test clips."""

    title: str
    note: str
    share_KK: np.ndarray
    names: list[str]


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return a matrix per setting, the mean over its seeds and draws.

    Raises:
        NothingToDraw: nothing was evaluated by the protocol.
    """
    frame, named = inputs.frame, inputs.checkpoints
    drawn = [
        epoch == "last" if named is None else (run, epoch) in named
        for run, epoch in zip(frame["run"], frame["checkpoint"])
    ]
    frame = frame[(frame["protocol"] == inputs.protocol) & np.array(drawn, bool)]
    groups = list(seeds_of(frame, ["title", "dataset", "split", "checkpoint", "stream"]))
    if not groups and named:
        names = [name if epoch == "last" else f"{name}@{epoch}" for name, epoch in named]
        raise NothingToDraw(
            f"{' and '.join(names)} not evaluated by {inputs.protocol}; do that first: skelbench eval {names[0]} "
            f"--protocol {inputs.protocol}"
        )
    if not groups:
        raise NothingToDraw(HOW.format(root=inputs.store.root, protocol=inputs.protocol))
    title = "Confusion of classes"
    if len(groups) > MOST:
        title += f": the {MOST} most accurate of {len(groups)} settings, baselines last; name others with --run"
        groups.sort(key=lambda group: (group["method"].iloc[0] in CONTROLS, -group["accuracy"].mean()))
        groups = groups[:MOST]
    panels = [panel for group in groups if (panel := if_whole(partial(_panel, inputs, group)))]
    if not panels:
        raise NothingToDraw(
            "the predictions of these evaluations are damaged; evaluate again: skelbench eval RUN --force"
        )
    most = max(len(panel.names) for panel in panels)
    font = 7 if most <= 24 else 5.5 if most <= 60 else 4
    side = max(2.6, most * font * 1.3 / 72)
    columns = 1 if len(panels) == 1 or side > 5 else 2
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(columns * (side + 2), rows * (side + 1) + 0.4), facecolor="white", layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, weight="bold")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    image = [_draw(axes, panel, font) for axes, panel in zip(grid.flat, panels)][-1]
    bar = figure.colorbar(image, ax=grid, shrink=min(1.0, 2.6 / side), aspect=25, pad=0.02)
    bar.set_ticks([0, 0.05, 0.1, 0.25, 0.5, 1], labels=["0", "5", "10", "25", "50", "100"])
    bar.set_label("Clips of a class, %", fontsize=7)
    return figure


def _panel(inputs: TableInputs, group: DataFrame) -> Panel:
    """The mean matrix of the runs of one setting."""
    evaluations, classes = [], []
    for name, evaluation in zip(group["run"], group["evaluation"]):
        record, predicted = read(inputs, name, evaluation)
        evaluations.append(predicted)
        data = record["spec"]["data"]["name"]  # the evaluation's data, whose labels may differ from the run's data
        classes.append(classes_of(evaluations[-1], data, inputs.host, inputs.data_root))
    names = max(classes, key=len)
    counts_KK = np.mean([matrix(evaluation, len(names)) for evaluation in evaluations], axis=0)
    clips_K1 = counts_KK.sum(1, keepdims=True)
    share_KK = np.divide(counts_KK, clips_K1, out=np.full_like(counts_KK, np.nan), where=clips_K1 > 0)
    first, count = group.iloc[0], len(group)
    accuracy = 100 * float(group["accuracy"].mean())
    seeds = "1 seed" if count == 1 else f"mean over {count} seeds"
    note = f"{first['dataset']}, {first['split']}; {first['protocol']}, {accuracy:.1f} %"
    note += "\n" + ", ".join(filter(None, [f"{first['n_test']:,} clips", seeds, chance(group)]))
    title = inputs.host.spelling(str(first["title"]))
    title += "" if first["checkpoint"] == "last" else f"@{first['checkpoint']}"
    return Panel(title, note, share_KK, [short(name) for name in names])


def _draw(axes: Axes, panel: Panel, font: float) -> AxesImage:
    count = len(panel.names)
    image = axes.imshow(panel.share_KK, cmap="Blues", norm=PowerNorm(0.5, 0, 1), interpolation="nearest")
    axes.set_facecolor(GUIDE)  # background of classes without test clips
    add_heading(axes, panel.title, panel.note)
    names = [f"{name}  {label}" for label, name in enumerate(panel.names)]
    axes.set_yticks(range(count), names, fontsize=font, **PLAIN)
    axes.set_xticks(range(count), [str(label) for label in range(count)], fontsize=font, rotation=90)
    axes.tick_params(length=0, pad=2)
    axes.set_xlabel("Predicted class")
    axes.spines[:].set_visible(False)
    for row, column in np.argwhere(panel.share_KK >= 0.005) if count <= NUMBERED else ():
        share = panel.share_KK[row, column]
        color = "white" if share > 0.4 else INK
        axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=6, color=color)
    return image
