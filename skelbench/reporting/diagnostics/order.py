"""Order probe: a linear layer on frozen features that distinguishes a clip from the same clip played backwards.

n clips, D feature width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skelbench.core.hashing import derive_seed
from skelbench.evaluation.linear import Linear
from skelbench.evaluation.protocol import Features, advances
from skelbench.evaluation.stats.bootstrap import over_clips
from skelbench.evaluation.stats.paired import wilson
from skelbench.reporting.diagnostics.frozen import Frozen, reversed_in_time

PROBE = Linear(val_share=0.0)
"""The neutral linear probe; nothing is selected, so nothing is held out."""


def probe(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    seed: int,
    device: Any = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Train on the features ([n, D] forward, [n, D] backward) of ``train``, score on the features of ``test``.

    ``accuracy`` over both directions of every clip; its Wilson ``interval`` counts clips, as the two directions of a
    clip are not independent. ``right``: per test clip, number of its two directions that are correct (0, 1 or 2).
    """
    n_train, n_test = len(train[0]), len(test[0])
    features = Features(
        train_x=np.concatenate(train),
        train_y=np.repeat([0, 1], n_train),
        test_x=np.concatenate(test),
        test_y=np.repeat([0, 1], n_test),
        train_ids=np.arange(2 * n_train),
        test_ids=2 * n_train + np.arange(2 * n_test),
        num_classes=2,
    )
    result = PROBE.evaluate(features, seed, device, progress)
    right_n = (result.predictions["predicted"] == features.test_y).reshape(2, n_test).sum(0)
    return {
        "accuracy": float(right_n.mean() / 2),
        "interval": list(wilson(round(right_n.sum() / 2), n_test)),
        "train_accuracy": result.metrics["train_accuracy"],
        "right": right_n.tolist(),
        "notes": result.notes,
    }


def better(right_a: list[int], right_b: list[int]) -> float:
    """p-value of an exact two-sided sign test over clips: which of two runs recognizes more directions per clip."""
    return over_clips(np.sign(np.subtract(right_a, right_b))).p_value


def of_run(subject: Frozen, sides: tuple[np.ndarray, np.ndarray], progress: Callable[..., Any]) -> dict[str, Any]:
    """The record of a run's order probe; ``sides``: training and test clips."""
    train, test = sides
    with progress(total=2 * (len(train) + len(test)), label=f"{subject.label} features", unit="clips") as report:
        of_train, of_test = (
            (subject.features(ids, report=report), subject.features(ids, change=reversed_in_time, report=report))
            for ids in sides
        )
    with progress(label="order probe", unit="steps") as report:
        step = advances(report, with_total=True)
        seed = derive_seed(subject.run_spec.seed, "probe", "order")
        result = probe(of_train, of_test, seed, subject.clips.device, step)
    return {"train_clips": len(train), "test_clips": len(test), **result}
