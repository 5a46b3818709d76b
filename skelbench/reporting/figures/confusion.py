"""Which classes are taken for which, as a matrix per setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from skelbench.evaluation.outcomes import predictions
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.records.errors import if_whole
from skelbench.records.run_dir import RunDir
from skelbench.reporting.confusion import classes_of, matrix, short
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.panels import add_heading
from skelbench.reporting.figures.style import GUIDE, INK, PLAIN, house
from skelbench.reporting.seeds import seeds_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

MOST = 4
"""Matrices in one figure."""
NUMBERED = 16
"""Classes up to which the shares stand in the cells."""
COLOURS = "Blues"
"""From white to dark of one hue: told apart without colour vision."""
HOW = "no run in {root} was evaluated by {protocol}; start with: skelbench run METHOD --tokens 8"


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "which classes are taken for which, a matrix per run (--run, --protocol)"
    return [FigureSpec(name="confusion", target=":draw", summary=summary, snapshots=True)]


@dataclass(frozen=True)
class Panel:
    """A matrix of shares [K, K], each row of which sums to 1; NaN where a class has no test clip."""

    title: str
    note: str
    share_KK: np.ndarray
    names: Sequence[str]


def draw(inputs: TableInputs) -> Figure:
    """A matrix per setting, the mean over its seeds and draws.

    Raises:
        NothingToDraw: nothing was evaluated by the protocol, or so much that runs have to be named.
    """
    frame, asked = inputs.frame, inputs.checkpoints
    shown = [
        epoch == "last" if asked is None else (run, epoch) in asked
        for run, epoch in zip(frame["run"], frame["checkpoint"])
    ]
    frame = frame[(frame["protocol"] == inputs.protocol) & np.array(shown, bool)]
    groups = list(seeds_of(frame, ["title", "dataset", "split", "checkpoint", "stream"]))
    if not groups and asked:
        named = [name if epoch == "last" else f"{name}@{epoch}" for name, epoch in asked]
        raise NothingToDraw(
            f"{' and '.join(named)} not evaluated by {inputs.protocol}; do that first: skelbench eval {named[0]} "
            f"--protocol {inputs.protocol}"
        )
    if not groups:
        raise NothingToDraw(HOW.format(root=inputs.store.root, protocol=inputs.protocol))
    if len(groups) > MOST:
        known = ", ".join(sorted({str(name) for group in groups for name in group["run"]})[:3])
        raise NothingToDraw(
            f"{len(groups)} settings were evaluated by {inputs.protocol}, and a figure has room for {MOST}: name runs "
            f"with --run ({known}, ...)"
        )
    panels = [panel for group in groups if (panel := if_whole(partial(_panel, inputs, group)))]
    if not panels:
        raise NothingToDraw(
            "the predictions of these evaluations are damaged; evaluate again: skelbench eval RUN --force"
        )
    with house():
        return _figure(panels)


def _panel(inputs: TableInputs, group: DataFrame) -> Panel:
    """Of the runs of one setting."""
    found, named = [], []
    for name, evaluation in zip(group["run"], group["evaluation"]):
        run = RunDir(inputs.store.root / name)
        record = run.record(run.path / f"eval-{evaluation}.json")
        found.append(predictions(run, record))
        data = record["spec"]["data"]["name"]  # of the evaluation: labels are not those of the run's own data
        named.append(classes_of(found[-1], data, inputs.host, inputs.data_root))
    names = max(named, key=len)
    counts_KK = np.mean([matrix(one, len(names)) for one in found], axis=0)
    clips_K1 = counts_KK.sum(1, keepdims=True)
    share_KK = np.divide(counts_KK, clips_K1, out=np.full_like(counts_KK, np.nan), where=clips_K1 > 0)
    first, count = group.iloc[0], len(group)
    accuracy = 100 * float(group["accuracy"].mean())
    seeds = "1 seed" if count == 1 else f"mean over {count} seeds"
    clips = f"{first['n_test']:,} clips, {seeds}"
    note = f"{first['dataset']}, {first['split']}; {first['protocol']}, {accuracy:.1f} %, {clips}"
    title = inputs.host.spelling(str(first["title"]))
    title += "" if first["checkpoint"] == "last" else f"@{first['checkpoint']}"
    return Panel(title, note, share_KK, [short(name) for name in names])


# ------------------------------------------------------------------------------------------------ drawing
def _figure(panels: Sequence[Panel]) -> Figure:
    most = max(len(panel.names) for panel in panels)
    letters = 7 if most <= 24 else 5.5 if most <= 60 else 4
    side = max(2.6, most * letters * 1.3 / 72)
    label = 0.55 * letters / 72 * max(len(name) for panel in panels for name in panel.names)
    beside = 1 if len(panels) == 1 or side > 5 else 2
    rows = -(-len(panels) // beside)
    size = (beside * (side + label + 0.9), rows * (side + 0.95) + 0.4)
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    figure.suptitle("Confusion of classes", x=0.01, ha="left", fontsize=10, weight="bold", color=INK)
    grid = figure.subplots(rows, beside, squeeze=False)
    image = None
    for axes, panel in zip(grid.flat, panels):
        image = _draw(axes, panel, min(7, side * 72 / 1.3 / len(panel.names)))
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    assert image is not None
    bar = figure.colorbar(image, ax=grid, shrink=min(1.0, 2.6 / side), aspect=25, pad=0.02)
    bar.set_ticks([0, 0.05, 0.1, 0.25, 0.5, 1], labels=["0", "5", "10", "25", "50", "100"])
    bar.set_label("Share of the clips of a class, %", fontsize=7)
    bar.outline.set_visible(False)
    return figure


def _draw(axes: Axes, panel: Panel, letters: float) -> AxesImage:
    count = len(panel.names)
    image = axes.imshow(panel.share_KK, cmap=COLOURS, norm=PowerNorm(0.5, 0, 1), interpolation="nearest")
    axes.set_facecolor(GUIDE)  # where a class has no test clip
    add_heading(axes, panel.title, panel.note)
    names = [f"{name}  {label}" for label, name in enumerate(panel.names)]
    axes.set_yticks(range(count), names, fontsize=letters, **PLAIN)
    axes.set_xticks(range(count), [str(label) for label in range(count)], fontsize=letters, rotation=90)
    axes.tick_params(length=0, pad=2)
    axes.set_xlabel("Taken for", fontsize=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if count <= NUMBERED:
        for row, column in np.argwhere(panel.share_KK >= 0.005):
            share = panel.share_KK[row, column]
            axes.text(
                column,
                row,
                f"{100 * share:.0f}",
                ha="center",
                va="center",
                fontsize=6,
                color="white" if share > 0.4 else INK,
            )
    return image
