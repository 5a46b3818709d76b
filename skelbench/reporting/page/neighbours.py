"""Test clips and the training clips whose features are nearest to theirs, as skeletons in motion.

Shapes: Q queries, G gallery clips, K neighbors, D feature width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.hashing import derive_seed
from skelbench.pipeline.session import Session
from skelbench.records.run_dir import ReadRun
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.diagnostics.frozen import Frozen
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.skeletons.page import page_data
from skelbench.reporting.skeletons.scene import Scene, clip_scene

QUERIES = 6
NEAREST = 4
GALLERY = 2000
"""Training clips that are searched: features of more take minutes without a GPU."""
RUNS = 2
"""Runs that are tried, the best first."""
FRAMES = 64
"""Frames of a moving clip at most: more make the page heavy."""


def nearest_neighbours(inputs: TableInputs, session: Session) -> tuple[dict[str, Any] | None, str]:
    """The example of the run with the highest linear (else 1-NN) accuracy whose data and weights are here, with its
    untrained baseline; and the reason why there is none, or none of a better run.

    Queries are drawn by a fixed seed; the nearest training clips are found by cosine similarity.
    """
    runs = _candidates(inputs)
    if not runs:
        return None, "No finished run has an encoder and a linear or 1-NN accuracy to choose it by."
    reason = ""
    for run in runs:
        try:
            return _example(session, run), reason
        except (SkelbenchError, OSError) as error:  # its data or weights are not here anymore
            reason = reason or f"Not drawn: {run.title}: {error}"
    return None, reason


def _candidates(inputs: TableInputs) -> list[ReadRun]:
    """Trained runs with weights, the most accurate first."""
    by_name = {run.name: run for run in inputs.stored}
    frame = inputs.frame
    frame = frame[(frame["checkpoint"] == "last") & (frame["source"] == "") & ~frame["method"].isin(CONTROLS)]
    for protocol in ("linear", "knn"):
        found = frame[frame["protocol"] == protocol].sort_values("accuracy", ascending=False, kind="stable")
        runs = [by_name[name] for name in dict.fromkeys(found["run"])]
        runs = [run for run in runs if run.encoder_path().exists()]
        if runs:
            return runs[:RUNS]
    return []


def _example(session: Session, run: ReadRun) -> dict[str, Any]:
    subject = Frozen(session, run)
    spec, store = subject.spec, subject.clips.store
    split = store.split(spec.data.split, spec.data.min_frames)
    draw = np.random.default_rng(derive_seed(0, "report", "queries"))
    query_Q = np.sort(draw.choice(split.test, min(QUERIES, len(split.test)), replace=False))
    gallery_G = np.sort(draw.choice(split.train, min(GALLERY, len(split.train)), replace=False))
    shown = [_nearest(one, query_Q, gallery_G) for one in (subject, subject.baseline) if one is not None]
    clips = dict.fromkeys([*query_Q.tolist(), *(clip for one in shown for row in one["nearest"] for clip in row)])
    labels = {clip: int(store.labels[clip]) for clip in clips}
    return {
        "dataset": f"{spec.data.title} {spec.data.split}",
        "gallery": len(gallery_G),
        "train": len(split.train),
        "queries": query_Q.tolist(),
        "runs": shown,
        "labels": labels,
        "classes": {label: store.classes[label] for label in labels.values()},
        "clips": {clip: page_data(_short(clip_scene(store, clip))) for clip in clips},
    }


def _nearest(subject: Frozen, query_Q: np.ndarray, gallery_G: np.ndarray) -> dict[str, Any]:
    """The neighbors that one encoder finds, with their cosine similarity."""
    ids = np.concatenate([query_Q, gallery_G])
    with subject.session.progress(total=len(ids), label=f"{subject.run.title} neighbors", unit="clips") as report:
        x_ND = subject.features(ids, report=report)
    x_ND = x_ND / np.maximum(np.linalg.norm(x_ND, axis=1, keepdims=True), 1e-12)
    similarity_QG = x_ND[: len(query_Q)] @ x_ND[len(query_Q) :].T
    order_QK = np.argsort(-similarity_QG, axis=1, kind="stable")[:, :NEAREST]
    return {
        "name": subject.run.name,
        "title": subject.run.title,
        "nearest": gallery_G[order_QK].tolist(),
        "similarity": np.take_along_axis(similarity_QG, order_QK, 1).round(3).tolist(),
    }


def _short(scene: Scene) -> Scene:
    """``scene`` with every second, third ... frame where it has more than :data:`FRAMES`."""
    (panel,) = scene.panels
    every = -(-panel.frames // FRAMES)
    drawn_MTJ = None if panel.drawn_MTJ is None else panel.drawn_MTJ[:, ::every]
    fewer = replace(panel, x_MTJC=panel.x_MTJC[:, ::every], drawn_MTJ=drawn_MTJ)
    return replace(scene, panels=(fewer,), fps=scene.fps / every)
