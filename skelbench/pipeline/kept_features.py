"""Features of a finished run's clips for figures, extracted once and kept in its directory."""

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
"""Raise it whenever the extraction of features changes."""


def kept_features(session: Session, run: RunDir, checkpoint: str = "last") -> tuple[Features, ClipStore]:
    """Features of the clips of the run's own split, as the protocol ``knn`` prepares them, and the clips themselves.

    Read from ``features-KEY.npz`` of the run's directory, KEY being the hash of everything that decides them, else
    extracted and written there.

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
    """Return the stored features of that many clips; None if there is no such file or it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            train_x, test_x = file["train_x"], file["test_x"]
    except Exception:  # damaged bytes make zipfile and numpy raise almost anything
        return None
    return (train_x, test_x) if (len(train_x), len(test_x)) == (train, test) else None


def _write(path: Path, train_x: np.ndarray, test_x: np.ndarray) -> None:
    try:
        write_atomic(path, lambda file: np.savez(file, train_x=train_x, test_x=test_x))
    except OSError as error:
        log.info("features are not kept: %s", error)
