"""Leave-one-subject-out evaluation: every subject is tested by a probe that is trained on all others.

Shapes: n clips, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.evaluation.fusion import evaluate_sets
from skelbench.evaluation.protocol import Features, Progress, Protocol, ProtocolResult, accuracies

if TYPE_CHECKING:
    import torch


def fold(features: Features, subject_of: np.ndarray, subject: int) -> Features:
    """Return the features of all clips with ``subject`` as the test side; ``subject_of`` has an entry per clip id."""
    x_nD = np.concatenate([features.train_x, features.test_x])
    y_n = np.concatenate([features.train_y, features.test_y])
    ids_n = np.concatenate([features.train_ids, features.test_ids])
    subject_n = subject_of[ids_n]
    test_n = subject_n == subject
    sides = x_nD[~test_n], y_n[~test_n], x_nD[test_n], y_n[test_n], ids_n[~test_n], ids_n[test_n]
    return Features(*sides, num_classes=features.num_classes, train_subjects=subject_n[~test_n])


def evaluate_each_subject(
    protocol: Protocol,
    sets: Mapping[str, Features],
    subject_of: np.ndarray,
    seed: int,
    device: torch.device | str,
    progress: Progress | None = None,
    **fused: Any,
) -> ProtocolResult:
    """Evaluate ``protocol`` once per subject and join the predictions, in the order of clip ids.

    ``accuracy`` and ``macro_accuracy`` come from the joined predictions. Every other metric is its mean over
    subjects, weighted by their clips. ``progress`` counts subjects. ``fused``: as for :func:`evaluate_sets`.
    """
    features = next(iter(sets.values()))
    subjects = np.unique(subject_of[np.concatenate([features.train_ids, features.test_ids])]).tolist()
    results: list[ProtocolResult] = []
    for subject in subjects:
        parts = {name: fold(part, subject_of, subject) for name, part in sets.items()}
        results.append(evaluate_sets(protocol, parts, seed=seed, device=device, **fused))
        if progress:
            progress(len(results), len(subjects))
    order_n = np.argsort(np.concatenate([result.predictions["ids"] for result in results]))
    joined = {
        name: np.concatenate([result.predictions[name] for result in results], axis=-1)[..., order_n]
        for name in ("ids", "labels", "predicted")
    }
    clips = [result.metrics["n_test"] for result in results]
    shared = set.intersection(*(set(result.metrics) for result in results))
    metrics = {name: float(np.average([result.metrics[name] for result in results], weights=clips)) for name in shared}
    metrics |= {**accuracies(joined["labels"], joined["predicted"]), "n_test": float(sum(clips))}
    notes = list(dict.fromkeys(note for result in results for note in result.notes))
    by_subject = {str(subject): result.metrics["accuracy"] for subject, result in zip(subjects, results)}
    return ProtocolResult(metrics, joined, notes=notes, details={"accuracy_by_subject": by_subject})
