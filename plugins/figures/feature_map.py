"""``plot map``: features of test clips in two dimensions, by principal components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field
from skelbench_plugins.figures._encoder_runs import chosen_runs, facts_of, features_of, title_of

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.core.text import plain
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting.confusion import short
from skelbench.reporting.figures.base import COLORS, GUIDE, MARKERS, finish, panel_grid, styled

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.reporting.inputs import TableInputs

MOST, COLUMNS = 4, 2
"""Largest number of maps in one figure, and maps in a row."""


class FeatureMap(Spec):
    """Settings of the figure."""

    color: Literal["class", "subject", "camera"] = "class"
    """Label that gives a point its color."""
    groups: int = Field(8, ge=1, le=len(COLORS))
    """Number of colored groups, those with the most clips; the rest is gray."""
    clips: int = Field(2000, ge=10, le=50_000)
    """Test clips shown, evenly over the classes."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "principal components of test features, colored by class, subject or camera (--run, --set color=subject)"
    return [FigureSpec(name="map", target=":draw", config=":FeatureMap", summary=summary, snapshots=True)]


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return a map per run of the features of the same test clips.

    Raises:
        NothingToDraw: there is no trained run, or there are too many to draw without naming them.
        SkelbenchError: the runs have different data, the dataset has no such label, or a package is missing.
    """
    from skelbench.reporting.diagnostics.frozen import evenly

    settings = inputs.settings_as(FeatureMap)
    runs = chosen_runs(inputs, MOST)
    first = runs[0][0].spec.data
    if different := next((run for run, _ in runs if run.spec.data != first), None):
        raise SkelbenchError(
            f"{runs[0][0].name} and {different.name} are of different data or splits; name runs of the same: "
            "skelbench plot map --run RUN"
        )
    headings, points, groups, labels = [], [], [], []
    for run, checkpoint in runs:
        features, store = features_of(inputs, run, checkpoint)
        ids = features.test_ids
        chosen = evenly(np.arange(len(ids)), features.test_y, settings.clips)
        x_CD = features.test_x[chosen]
        point_C2, axis_labels = pca(x_CD)
        count = f"{len(chosen):,} of {len(ids):,} test clips" if len(chosen) < len(ids) else f"{len(ids):,} test clips"
        note = f"{run.spec.data.title}, {run.spec.data.split}; {count}, {facts_of(run)}"
        headings.append((title_of(inputs, run, checkpoint), note))
        points.append(point_C2)
        groups.append(_groups(store, ids[chosen], settings.color))
        labels.append(axis_labels)
    every, counts = np.unique(np.concatenate(groups), return_counts=True)
    colored = sorted(every[np.argsort(-counts, kind="stable")][: settings.groups].tolist())
    rest = len(every) - len(colored)
    figure, grid = panel_grid(headings, COLUMNS, height=2.6)
    for axes, point_C2, group_C, (x, y) in zip(grid, points, groups, labels):
        dots: dict[str, Any] = {
            "linestyle": "", "markersize": float(np.clip(60 / np.sqrt(len(group_C)), 2, 4)), "markeredgewidth": 0,
        }  # fmt: skip
        if rest:
            gray = ~np.isin(group_C, colored)
            axes.plot(*point_C2[gray].T, ".", color=GUIDE, **dots, zorder=2, label=f"{rest} others")
        for place, group in enumerate(colored):
            own = group_C == group
            name = _name(store, settings.color, group)
            look: dict[str, Any] = {"color": COLORS[place], "marker": MARKERS[place], "label": name}
            axes.plot(*point_C2[own].T, **look, **dots, alpha=0.75, zorder=3)
        axes.set(xlabel=x, ylabel=y)
        axes.tick_params(labelbottom=False, labelleft=False, length=0)
        axes.set_aspect("equal", adjustable="datalim")
    caption = f"A point is a test clip; its color and shape show its {settings.color}. Both axes have one scale."
    caption += f" Colored: the {len(colored)} with the most clips." if rest else ""
    return finish(figure, "Map of features", [caption])


# ------------------------------------------------------------------------------------------------ clips
def _groups(store: ClipStore, ids: np.ndarray, color: str) -> np.ndarray:
    """int64 [C]: class, subject or camera of the clips ``ids``; SkelbenchError if the dataset has no such label."""
    if color == "class":
        return np.asarray(store.labels[ids])
    group_C = np.asarray(store.index[color][ids])
    if len(np.unique(group_C)) < 2:
        raise SkelbenchError(
            f"dataset {store.meta.name} does not distinguish {color}s in these test clips; use another label: "
            "--set color=class"
        )
    return group_C


def _name(store: ClipStore, color: str, group: int) -> str:
    return short(plain(store.classes[group])) if color == "class" else f"{color} {group}"


# ------------------------------------------------------------------------------------------------ projections
def pca(x_CD: np.ndarray) -> tuple[np.ndarray, tuple[str, str]]:
    """Return the first two principal components [C, 2] and the labels of the axes with their fraction of the variance.

    The largest weight of a component is positive, as its sign is arbitrary.
    """
    centered_CD = x_CD.astype(np.float64) - x_CD.mean(0, dtype=np.float64)
    _, scale_K, weight_KD = np.linalg.svd(centered_CD, full_matrices=False)
    weight_2D = np.zeros((2, x_CD.shape[1]))
    weight_2D[: len(weight_KD[:2])] = weight_KD[:2]
    sign_2 = np.sign(weight_2D[np.arange(2), np.abs(weight_2D).argmax(1)])
    total = float((scale_K**2).sum())
    shares = [float(scale**2) / total if total else 0.0 for scale in [*scale_K, 0.0, 0.0][:2]]
    labels = tuple(f"PC {k}, {share:.0%} of the variance" for k, share in enumerate(shares, 1))
    return centered_CD @ (weight_2D * sign_2[:, None]).T, (labels[0], labels[1])
