"""What an encoder takes for alike: test clips and the training clips nearest to them, as skeletons in motion.

Shapes: Q queries, G gallery clips, K neighbours, D feature width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.hashing import derive_seed
from skelbench.core.spec import EvalSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.pipeline.encoders import load_encoder
from skelbench.pipeline.evaluate import eval_spec, prepared
from skelbench.pipeline.leakage_checks import clips_of
from skelbench.pipeline.session import Session
from skelbench.records.run_dir import ReadRun, RunDir
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.skeletons.page import page_data
from skelbench.reporting.skeletons.scene import Scene, clip_scene

QUERIES = 6
NEAREST = 4
GALLERY = 2000
"""Training clips among which neighbours are looked for: features of more take minutes without a GPU."""
RUNS = 2
FRAMES = 64
"""Of a clip that moves: more are not seen, and make the page heavy."""


class Shown(NamedTuple):
    """The example, and why there is none, or none of a better run."""

    example: dict[str, Any] | None
    why: str = ""


def example(inputs: TableInputs, session: Session) -> Shown:
    """The run with the highest linear accuracy (else 1-NN) whose data are here, its untrained twin beside it: the same
    queries, drawn by a fixed seed, and the training clips nearest to them by cosine similarity."""
    runs = _candidates(inputs)
    if not runs:
        return Shown(None, "No finished run has an encoder and a linear or 1-NN accuracy to choose it by.")
    why = ""
    for run in runs:
        try:
            return Shown(_example(inputs, session, run), why)
        except (SkelbenchError, OSError) as error:  # data or weights that are not here any more
            why = why or f"Not drawn: {run.title}: {error}"
    return Shown(None, why)


def _candidates(inputs: TableInputs) -> list[ReadRun]:
    """Trained runs with weights, the best of its data first; of several data sets those with the most runs."""
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


def _example(inputs: TableInputs, session: Session, run: ReadRun) -> dict[str, Any]:
    spec = eval_spec(session.host, run, "knn")
    store = clips_of(session, spec, run)
    split = store.split(spec.data.split, spec.data.min_frames)
    draw = np.random.default_rng(derive_seed(0, "report", "queries"))
    query_Q = np.sort(draw.choice(split.test, min(QUERIES, len(split.test)), replace=False))
    gallery_G = np.sort(draw.choice(split.train, min(GALLERY, len(split.train)), replace=False))
    twin = _twin(inputs, run)
    shown = [_nearest(session, one, store, query_Q, gallery_G) for one in ((run, twin) if twin else (run,))]
    clips = dict.fromkeys([*query_Q.tolist(), *(clip for one in shown for row in one["nearest"] for clip in row)])
    labels = store.labels
    return {
        "dataset": f"{spec.data.title} {spec.data.split}",
        "gallery": len(gallery_G),
        "train": len(split.train),
        "queries": query_Q.tolist(),
        "runs": shown,
        "labels": {clip: int(labels[clip]) for clip in clips},
        "classes": {int(labels[clip]): store.classes[labels[clip]] for clip in clips},
        "clips": {clip: page_data(_short(clip_scene(store, clip))) for clip in clips},
    }


def _twin(inputs: TableInputs, run: ReadRun) -> ReadRun | None:
    """The untrained run that ``run`` is measured against, if its weights are here."""
    rows = inputs.frame[inputs.frame["run"] == run.name]
    names = {str(name) for name in rows["control_run"].dropna()}
    return next((one for one in inputs.stored if one.name in names and one.encoder_path().exists()), None)


def _nearest(
    session: Session, run: RunDir, store: ClipStore, query_Q: np.ndarray, gallery_G: np.ndarray
) -> dict[str, Any]:
    """The neighbours of one run, with their cosine similarity."""
    spec = eval_spec(session.host, run, "knn")
    x_ND = _features(session, run, spec, store, np.concatenate([query_Q, gallery_G]))
    x_ND = x_ND / np.maximum(np.linalg.norm(x_ND, axis=1, keepdims=True), 1e-12)
    similarity_QG = x_ND[: len(query_Q)] @ x_ND[len(query_Q) :].T
    order_QK = np.argsort(-similarity_QG, axis=1, kind="stable")[:, :NEAREST]
    return {
        "name": run.name,
        "title": run.title,
        "nearest": gallery_G[order_QK].tolist(),
        "similarity": np.take_along_axis(similarity_QG, order_QK, 1).round(3).tolist(),
    }


def _features(session: Session, run: RunDir, spec: EvalSpec, store: ClipStore, ids: np.ndarray) -> np.ndarray:
    """float32 [n, D] of the clips ``ids``, as the protocol ``knn`` has them."""
    from skelbench.evaluation.protocol import advances

    (stream,) = spec.streams
    encoder = load_encoder(session, run, spec.checkpoint, store.topology, stream, spec.readout)
    clips = prepared(session, run, spec, store, stream)
    with session.progress(total=len(ids), label=f"{run.title} neighbours", unit="clips") as report:
        return clips.features(encoder, ids, progress=advances(report))


def _short(scene: Scene) -> Scene:
    """``scene`` with every second, third ... frame where it has too many."""
    (panel,) = scene.panels
    every = -(-panel.frames // FRAMES)
    drawn_MTJ = None if panel.drawn_MTJ is None else panel.drawn_MTJ[:, ::every]
    fewer = replace(panel, x_MTJC=panel.x_MTJC[:, ::every], drawn_MTJ=drawn_MTJ)
    return replace(scene, panels=(fewer,), fps=scene.fps / every)
