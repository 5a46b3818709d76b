"""``plot retrieval``: test clips and the training clips that an encoder finds most similar."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field
from skelbench_plugins.figures._encoder_runs import chosen_runs, facts_of, features_of, title_of

from skelbench.core.component import Spec
from skelbench.core.text import plain
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting.figures.base import COLORS, INK, NOTE, PLAIN, styled, wrapped
from skelbench.reporting.skeletons.draw import draw_pose, pose_axes, sides_legend
from skelbench.reporting.skeletons.scene import Scene, clip_scene

if TYPE_CHECKING:
    from skelbench.evaluation.protocol import Features
    from skelbench.reporting.inputs import TableInputs

CELL, POSE = 1.1, 0.6
"""Width of a clip and height of its poses, inches."""
RIGHT, WRONG = (COLORS[1], "✓"), (COLORS[0], "✗")
"""Color and sign of a neighbor with the query's class, and of other neighbors."""
CAPTION = (
    "Left: test clips, drawn with seed {seed}: for {hits} the nearest training clip is of the same class, for "
    "{misses} it is not. This is not the accuracy; the accuracy is above. Then the nearest training clips, with the "
    f"cosine similarity of the features. {RIGHT[1]} blue: of the query's class; {WRONG[1]} orange, "
    "dashed: of another."
)


class Retrieval(Spec):
    """Settings of the figure."""

    queries: int = Field(6, ge=1, le=12)
    """Number of queries (test clips); if possible, half of them have a nearest neighbor of another class."""
    neighbors: int = Field(5, ge=1, le=8)
    """Number of neighbors (training clips), the most similar first."""
    poses: int = Field(3, ge=1, le=5)
    """Frames of each clip."""
    seed: int = Field(0, ge=0)
    """Seed of the choice of queries."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "test clips with their nearest training clips as skeletons (--run)"
    return [FigureSpec(name="retrieval", target=":draw", config=":Retrieval", summary=summary, snapshots=True)]


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return a row per query: the query, then its nearest training clips.

    Raises:
        NothingToDraw: there is no trained run, or more than one, so that it has to be named.
    """
    settings = inputs.settings_as(Retrieval)
    ((run, checkpoint),) = chosen_runs(inputs, 1)
    features, store = features_of(inputs, run, checkpoint)
    near_nk, index_nk, right_nk = nearest(features, settings.neighbors)
    queries = chosen_queries(right_nk[:, 0], settings.queries, settings.seed)
    hits = int(right_nk[queries, 0].sum())
    facts = (
        f"{title_of(inputs, run, checkpoint)}; {run.spec.data.title}, {run.spec.data.split}; {facts_of(run)}; "
        f"1-NN accuracy {100 * right_nk[:, 0].mean():.1f} % of {len(features.test_y):,} test clips"
    )
    columns = 1 + near_nk.shape[1]
    width = columns * CELL + 0.2
    figure = Figure(figsize=(width, len(queries) * (POSE + 0.42) + 1.1), facecolor="white", layout="constrained")
    title = f"Queries and their nearest neighbors\n{wrapped(facts, width - 0.2)}"
    figure.suptitle(title, x=0.02, ha="left", fontsize=NOTE + 1, color=INK, **PLAIN)
    scenes: list[Scene] = []
    for query, row in zip(queries, figure.subplots(len(queries), columns, squeeze=False)):
        marks = [RIGHT if right else WRONG for right in right_nk[query]]
        labels = ["query", *(f"{sign} {near:.3f}" for (_, sign), near in zip(marks, near_nk[query]))]
        clips = [features.test_ids[query], *features.train_ids[index_nk[query]]]
        for axes, clip, label, color in zip(row, map(int, clips), labels, [INK, *(color for color, _ in marks)]):
            scenes.append(clip_scene(store, clip))
            _draw_clip(axes, scenes[-1], settings.poses)
            name = textwrap.shorten(plain(store.classes[int(store.labels[clip])]), 24, placeholder="…")
            axes.set_xlabel(f"{label}\n{name}", fontsize=NOTE, color=color, **PLAIN)
            axes.spines[:].set(visible=True, color=color, linewidth=1.1)
            axes.spines[:].set_linestyle("-" if color != WRONG[0] else (0, (4, 2)))
    caption = CAPTION.format(seed=settings.seed, hits=hits, misses=len(queries) - hits)
    sides_legend(figure, replace(scenes[0], panels=tuple(scene.panels[0] for scene in scenes)), caption)
    return figure


def nearest(features: Features, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three arrays [n, k] on the ``count`` nearest training clips of each test clip, most similar first:
    similarity, place among the training clips, and whether the class is the same."""
    from skelbench.evaluation.knn import similarities

    count = min(count, len(features.train_y))
    nearest = [similarity_QG.topk(count, dim=1) for similarity_QG in similarities([features], (1.0,), "cpu")]
    near_nk, index_nk = (np.concatenate([part.numpy() for part in parts]) for parts in zip(*nearest))
    return near_nk, index_nk, features.train_y[index_nk] == features.test_y[:, None]


def chosen_queries(right_n: np.ndarray, count: int, seed: int) -> list[int]:
    """Places of ``count`` test clips: half of them classified correctly; more of one kind if the other is rare."""
    rng = np.random.default_rng(seed)
    right, wrong = (rng.permutation(np.flatnonzero(side)).tolist() for side in (right_n, ~right_n))
    chosen = right[: count - min(count // 2, len(wrong))]
    return [*chosen, *wrong[: count - len(chosen)]]


def _draw_clip(axes: Axes, scene: Scene, poses: int) -> None:
    pose_axes(axes, scene, poses)
    for place in range(poses):
        frame = int((place + 0.5) * scene.panels[0].frames / poses)
        draw_pose(axes, scene, scene.panels[0], frame, 0.9, place)
