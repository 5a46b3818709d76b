"""Evaluation of several feature sets of the same clips, one per stream, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.core.spec import Fusion
from skelbench.evaluation.protocol import Features, Progress, Protocol, ProtocolResult, result_problem, share
from skelbench.plugin.plugin_errors import plugin_code, wrong

if TYPE_CHECKING:
    import torch


def evaluate_sets(
    protocol: Protocol,
    sets: Mapping[str, Features],
    fusion: Fusion,
    seed: int,
    device: torch.device | str,
    progress: Progress | None = None,
    weights: Sequence[float] = (),
) -> ProtocolResult:
    """Measure ``protocol`` on ``sets``: on the only set, or on several joined by "features", "scores" or "logits"."""
    features = concatenate(sets) if fusion == "features" else next(iter(sets.values()))
    with plugin_code(protocol.evaluate, "(features, seed, device, progress)"):
        if fusion in ("scores", "logits"):
            result: Any = protocol.fuse(sets, seed, device, progress, weights or (1.0,) * len(sets), fusion)
        else:
            result = protocol.evaluate(features, seed, device, progress)
    if problem := result_problem(result, len(features.test_ids)):
        raise wrong(protocol.evaluate, problem)
    return result


def concatenate(sets: Mapping[str, Features]) -> Features:
    """Concatenate the sets, with each clip's features of every set scaled to length 1.

    All sets then have the same weight: the cosine of two clips is the mean of the sets' cosines. A linear probe that
    standardizes each feature would undo any other scale of a whole set.
    """
    parts = list(sets.values())
    sources = [part.again for part in parts if part.again]

    def again(
        keyed: Any, crop: Any, augment: Any, dropout: float = 0.0, progress: Progress | None = None, noisy: bool = False
    ) -> np.ndarray:
        options = keyed, crop, augment, dropout
        shares = [share(progress, i, len(sources)) for i in range(len(sources))]
        return _side_by_side([again(*options, part, noisy) for again, part in zip(sources, shares)])

    train_x, test_x = (_side_by_side([getattr(part, name) for part in parts]) for name in ("train_x", "test_x"))
    return replace(parts[0], train_x=train_x, test_x=test_x, again=again if len(sources) == len(parts) else None)


def _side_by_side(arrays: list[np.ndarray]) -> np.ndarray:
    """float32 [n, sum of the widths] from several [n, D], their rows scaled to length 1; rows of zeros stay so."""
    lengths = [np.linalg.norm(x_nD, axis=1, keepdims=True) for x_nD in arrays]
    return np.concatenate([x_nD / np.maximum(n, 1e-12) for x_nD, n in zip(arrays, lengths)], 1).astype(np.float32)
