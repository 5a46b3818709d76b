"""``plot retrieval``: test clips and the training clips that an encoder finds most like them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.text import plain
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting.figures.of_runs import asked, facts_of, features_of, title_of
from skelbench.reporting.figures.panels import NOTE, wrapped
from skelbench.reporting.figures.style import COLOURS, INK, PLAIN, house
from skelbench.reporting.skeletons.draw import draw_pose, pose_axes, sides_legend
from skelbench.reporting.skeletons.scene import Scene, clip_scene

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.evaluation.protocol import Features
    from skelbench.reporting.inputs import TableInputs

CELL, POSE = 1.1, 0.6
"""Width of a clip and height of its poses, inches."""
RIGHT, WRONG = (COLOURS[1], "✓"), (COLOURS[0], "✗")
"""Colour and sign of a neighbour of the query's class, and of one of another."""
CAPTION = (
    "Left: test clips, drawn with seed {seed}, {hits} of those whose nearest training clip is of their class and "
    "{misses} of the others: not the share of right answers, which is above. Then the nearest training clips, by "
    f"cosine similarity of the features, which is printed. {RIGHT[1]} blue: of the query's class; {WRONG[1]} orange, "
    "dashed: of another."
)


class Retrieval(Spec):
    """Settings of the figure."""

    queries: int = Field(6, ge=1, le=12)
    """Test clips that ask; as far as there are such, half of them with a nearest neighbour of another class."""
    neighbours: int = Field(5, ge=1, le=8)
    """Training clips that answer, the most similar first."""
    poses: int = Field(3, ge=1, le=5)
    """Frames of each clip, fewer where it shows two people."""
    seed: int = Field(0, ge=0)
    """By which queries are drawn."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "queries with their nearest training clips as skeletons, right and wrong marked (--run)"
    return [FigureSpec(name="retrieval", target=":draw", config=":Retrieval", summary=summary, snapshots=True)]


@dataclass(frozen=True)
class Answer:
    """A clip that was found."""

    clip: int
    similarity: float
    right: bool
    """Of the query's class."""


@dataclass(frozen=True)
class Query:
    """A test clip, and what was found for it, the most similar first."""

    clip: int
    answers: tuple[Answer, ...]


def draw(inputs: TableInputs) -> Figure:
    """A row per query: the query, then its nearest training clips.

    Raises:
        NothingToDraw: there is no trained run, or more than one, so that it has to be named.
    """
    settings = inputs.settings_as(Retrieval)
    ((run, checkpoint),) = asked(inputs, 1)
    features, store = features_of(inputs, run, checkpoint)
    queries, accuracy = retrieved(features, settings)
    misses = sum(not query.answers[0].right for query in queries)
    facts = (
        f"{title_of(inputs, run, checkpoint)}; {run.spec.data.title}, {run.spec.data.split}; {facts_of(run)}; "
        f"1-NN accuracy {100 * accuracy:.1f} % of {len(features.test_y):,} test clips"
    )
    caption = CAPTION.format(seed=settings.seed, hits=len(queries) - misses, misses=misses)
    with house():
        return _figure(store, queries, settings, facts, caption)


# ------------------------------------------------------------------------------------------------ what is drawn
def retrieved(features: Features, settings: Retrieval) -> tuple[list[Query], float]:
    """The queries with what is found for them, those that are answered rightly first; and the share of all test clips
    whose nearest training clip is of their class."""
    from skelbench.evaluation.knn import similarities

    count = min(settings.neighbours, len(features.train_y))
    found, alike = [], []
    for similarity_QG in similarities([features], (1.0,), "cpu"):
        near_Qk, index_Qk = similarity_QG.topk(count, dim=1)
        found.append(index_Qk.numpy())
        alike.append(near_Qk.numpy())
        del similarity_QG
    index_nk, near_nk = np.concatenate(found), np.concatenate(alike)
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
    """Places of ``count`` queries: half of them right, the others wrong, more of the ones where the others are few."""
    rng = np.random.default_rng(seed)
    right, wrong = (rng.permutation(np.flatnonzero(side)).tolist() for side in (right_n, ~right_n))
    wanted = min(count // 2, len(wrong))
    rights = right[: count - wanted]
    return [*rights, *wrong[: count - len(rights)]]


# ------------------------------------------------------------------------------------------------ drawing
def _figure(store: ClipStore, queries: Sequence[Query], settings: Retrieval, facts: str, caption: str) -> Figure:
    columns = 1 + max(len(query.answers) for query in queries)
    width = columns * CELL + 0.2
    title = f"Queries and their nearest neighbors\n{wrapped(facts, width - 0.2, NOTE)}"
    figure = Figure(figsize=(width, len(queries) * (POSE + 0.42) + 1.1), facecolor="white", layout="constrained")
    figure.suptitle(title, x=0.02, ha="left", fontsize=NOTE + 1, color=INK, **PLAIN)
    scenes: list[Scene] = []
    grid = figure.subplots(len(queries), columns, squeeze=False)
    for query, row in zip(queries, grid):
        clips = [(query.clip, "query", INK)]
        clips += [(one.clip, f"{_mark(one)[1]} {one.similarity:.3f}", _mark(one)[0]) for one in query.answers]
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


def _mark(answer: Answer) -> tuple[str, str]:
    return RIGHT if answer.right else WRONG
