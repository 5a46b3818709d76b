"""``plot retrieval``: test clips and the training clips that an encoder finds most like them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.text import plain
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting.figures.base import COLORS, INK, NOTE, PLAIN, styled, wrapped
from skelbench.reporting.figures.encoder_runs import chosen_runs, facts_of, features_of, title_of
from skelbench.reporting.skeletons.draw import draw_pose, pose_axes, sides_legend
from skelbench.reporting.skeletons.scene import Scene, clip_scene

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.evaluation.protocol import Features
    from skelbench.reporting.inputs import TableInputs

CELL, POSE = 1.1, 0.6
"""Width of a clip and height of its poses, inches."""
RIGHT, WRONG = (COLORS[1], "✓"), (COLORS[0], "✗")
"""Color and sign of a neighbor with the query's class, and of other neighbors."""
CAPTION = (
    "Left: test clips, drawn with seed {seed}, {hits} of those whose nearest training clip is of their class and "
    "{misses} of the others: not the share of right answers, which is above. Then the nearest training clips, by "
    f"cosine similarity of the features, which is printed. {RIGHT[1]} blue: of the query's class; {WRONG[1]} orange, "
    "dashed: of another."
)


class Retrieval(Spec):
    """Settings of the figure."""

    queries: int = Field(6, ge=1, le=12)
    """Test clips that ask; if possible, half of them have a nearest neighbor of another class."""
    neighbours: int = Field(5, ge=1, le=8)
    """Training clips that answer, the most similar first."""
    poses: int = Field(3, ge=1, le=5)
    """Frames of each clip."""
    seed: int = Field(0, ge=0)
    """Seed of the choice of queries."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "queries with their nearest training clips as skeletons, right and wrong marked (--run)"
    return [FigureSpec(name="retrieval", target=":draw", config=":Retrieval", summary=summary, snapshots=True)]


class Answer(NamedTuple):
    """A training clip that was retrieved."""

    clip: int
    similarity: float
    right: bool
    """It has the query's class."""


class Query(NamedTuple):
    """A test clip, and the training clips retrieved for it, the most similar first."""

    clip: int
    answers: tuple[Answer, ...]


@styled
def draw(inputs: TableInputs) -> Figure:
    """A row per query: the query, then its nearest training clips.

    Raises:
        NothingToDraw: there is no trained run, or more than one, so that it has to be named.
    """
    settings = inputs.settings_as(Retrieval)
    ((run, checkpoint),) = chosen_runs(inputs, 1)
    features, store = features_of(inputs, run, checkpoint)
    queries, accuracy = retrieved(features, settings)
    misses = sum(not query.answers[0].right for query in queries)
    facts = (
        f"{title_of(inputs, run, checkpoint)}; {run.spec.data.title}, {run.spec.data.split}; {facts_of(run)}; "
        f"1-NN accuracy {100 * accuracy:.1f} % of {len(features.test_y):,} test clips"
    )
    caption = CAPTION.format(seed=settings.seed, hits=len(queries) - misses, misses=misses)
    return _figure(store, queries, settings, facts, caption)


# ------------------------------------------------------------------------------------------------ data
def retrieved(features: Features, settings: Retrieval) -> tuple[list[Query], float]:
    """Return the queries with their nearest training clips, right answers first, and the 1-NN accuracy."""
    from skelbench.evaluation.knn import similarities

    count = min(settings.neighbours, len(features.train_y))
    nearest = [similarity_QG.topk(count, dim=1) for similarity_QG in similarities([features], (1.0,), "cpu")]
    near_nk, index_nk = (np.concatenate([part.numpy() for part in parts]) for parts in zip(*nearest))
    right_nk = features.train_y[index_nk] == features.test_y[:, None]
    queries = []
    for place in _drawn(right_nk[:, 0], settings.queries, settings.seed):
        answers = tuple(
            Answer(int(features.train_ids[index]), float(near), bool(right))
            for index, near, right in zip(index_nk[place], near_nk[place], right_nk[place])
        )
        queries.append(Query(int(features.test_ids[place]), answers))
    return queries, float(right_nk[:, 0].mean())


def _drawn(right_n: np.ndarray, count: int, seed: int) -> list[int]:
    """Indices of ``count`` queries: half of them right, the others wrong; more of one kind if the other is rare."""
    rng = np.random.default_rng(seed)
    right, wrong = (rng.permutation(np.flatnonzero(side)).tolist() for side in (right_n, ~right_n))
    chosen = right[: count - min(count // 2, len(wrong))]
    return [*chosen, *wrong[: count - len(chosen)]]


# ------------------------------------------------------------------------------------------------ drawing
def _figure(store: ClipStore, queries: Sequence[Query], settings: Retrieval, facts: str, caption: str) -> Figure:
    columns = 1 + max(len(query.answers) for query in queries)
    width = columns * CELL + 0.2
    title = f"Queries and their nearest neighbors\n{wrapped(facts, width - 0.2)}"
    figure = Figure(figsize=(width, len(queries) * (POSE + 0.42) + 1.1), facecolor="white", layout="constrained")
    figure.suptitle(title, x=0.02, ha="left", fontsize=NOTE + 1, color=INK, **PLAIN)
    scenes: list[Scene] = []
    grid = figure.subplots(len(queries), columns, squeeze=False)
    for query, row in zip(queries, grid):
        clips = [(query.clip, "query", INK)]
        for answer in query.answers:
            color, sign = RIGHT if answer.right else WRONG
            clips.append((answer.clip, f"{sign} {answer.similarity:.3f}", color))
        for (clip, label, color), axes in zip(clips, row):
            scene = clip_scene(store, clip)
            scenes.append(scene)
            pose_axes(axes, scene, settings.poses)
            for place in range(settings.poses):
                frame = int((place + 0.5) * scene.panels[0].frames / settings.poses)
                draw_pose(axes, scene, scene.panels[0], frame, 0.9, place)
            name = textwrap.shorten(plain(store.classes[int(store.labels[clip])]), 24, placeholder="…")
            axes.set_xlabel(f"{label}\n{name}", fontsize=NOTE, color=color, **PLAIN)
            axes.spines[:].set(visible=True, color=color, linewidth=1.1)
            axes.spines[:].set_linestyle("-" if color != WRONG[0] else (0, (4, 2)))
    sides_legend(figure, replace(scenes[0], panels=tuple(scene.panels[0] for scene in scenes)), caption)
    return figure
