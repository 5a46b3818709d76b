"""Features of a finished run's clips, extracted once and kept beside it: what pictures of features are made of."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import numpy as np

from skelbench.core.files import write_atomic
from skelbench.core.hashing import digest
from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.protocol import Features
from skelbench.pipeline.evaluate import WAY, check_finished, eval_spec, feature_sets
from skelbench.pipeline.leakage_checks import clips_of
from skelbench.pipeline.session import Session
from skelbench.records.run_dir import RunDir

log = logging.getLogger(__name__)
FORMAT = 1
"""Raise it whenever the way features are extracted changes: what was kept before is then made again."""


def kept_features(session: Session, run: RunDir, checkpoint: str = "last") -> tuple[Features, ClipStore]:
    """Features of the training and test clips of the run's own split, looked at as the protocol ``knn`` does, and the
    clips themselves.

    They are read from ``features-KEY.npz`` of the run's directory, KEY being the hash of everything that decides them,
    else extracted and written there. A directory that cannot be written to is no obstacle, nor is a damaged file.

    Raises:
        SkelbenchError: the run is not finished, kept no such snapshot, or its data are gone or have changed.
    """
    check_finished(run, checkpoint)
    spec = eval_spec(session.host, run, "knn", checkpoint)
    store, stream = clips_of(session, spec, run), spec.streams[0]
    split = store.split(spec.data.split, spec.data.min_frames)
    with run.encoder(checkpoint, stream).open("rb") as file:
        weights = hashlib.file_digest(file, "sha256").hexdigest()
    way = spec.model_dump(mode="json", include=WAY)
    path = (
        run.path / f"features-{digest([FORMAT, run.spec.id, checkpoint, stream, weights, way, store.fingerprint])}.npz"
    )
    sides = _read(path, len(split.train), len(split.test))
    if sides is None:
        found = feature_sets(session, run, spec.model_copy(update={"streams": (stream,)}))[stream]
        sides = found.train_x, found.test_x
        _write(path, *sides)
    train_x, test_x = sides
    features = Features(
        train_x, store.labels[split.train], test_x, store.labels[split.test], split.train, split.test, store.num_classes
    )
    return features, store


def _read(path: Path, train: int, test: int) -> tuple[np.ndarray, np.ndarray] | None:
    """What is kept of so many clips; None where that is nothing that can be used."""
    try:
        with np.load(path, allow_pickle=False) as file:
            train_x, test_x = file["train_x"], file["test_x"]
        if train_x.ndim != 2 or train_x.dtype != np.float32 or test_x.dtype != np.float32:
            return None
        whole = train_x.shape[0] == train and test_x.shape == (test, train_x.shape[1])
        return (train_x, test_x) if whole and np.isfinite(train_x).all() and np.isfinite(test_x).all() else None
    except Exception:  # no file, or damaged bytes, of which zipfile and numpy raise almost anything
        return None


def _write(path: Path, train_x: np.ndarray, test_x: np.ndarray) -> None:
    try:
        write_atomic(path, lambda file: np.savez(file, train_x=train_x, test_x=test_x))
    except OSError as error:
        log.info("features are not kept: %s", error)
