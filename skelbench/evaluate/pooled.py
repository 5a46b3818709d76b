"""Figures over many tasks, each with several seeds, as Agarwal et al. (2021), "Deep reinforcement learning at the edge
of the statistical precipice", define them (their library: google-research/rliable).

Shapes: scores are a sequence of tasks, each with the scores of its seeds; tasks may differ in their number of seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TASKS = 5
"""Fewer tasks are shown one by one: a mean over them would say more of which they are than of the methods."""
SEEDS = 3
"""Fewer seeds of a task leave a bootstrap over them nothing to resample."""

Scores = Sequence[np.ndarray]


@dataclass(frozen=True)
class Pooled:
    """A figure over tasks."""

    value: float
    interval: tuple[float, float]
    """95 % percentile interval over seeds, drawn anew within every task; tasks are taken as they are."""


def iqm(scores: Scores, n: int = 4000) -> Pooled:
    """Interquartile mean: the mean of all scores of all tasks without the lowest and the highest quarter.

    >>> iqm([np.array([0.1, 0.5]), np.array([0.6, 0.9])]).value
    0.55
    """
    drawn_nS = np.concatenate([_drawn(task, n, [0, place]) for place, task in enumerate(scores)], axis=1)
    return Pooled(float(_middle(np.concatenate(list(scores)))), _interval(_middle(drawn_nS)))


def probability_of_improvement(a: Scores, b: Scores, n: int = 4000) -> Pooled:
    """How likely a seed of A is above a seed of B on a task drawn at random; a tie counts half.

    >>> probability_of_improvement([np.array([0.8, 0.9])], [np.array([0.7, 0.85])]).value
    0.75
    """
    if len(a) != len(b):
        raise ValueError(f"A has {len(a)} tasks, B has {len(b)}")
    pairs = list(zip(a, b))
    value = np.mean([_above(one[None], other[None])[0] for one, other in pairs])
    draws = [
        _above(_drawn(one, n, [1, place]), _drawn(other, n, [2, place])) for place, (one, other) in enumerate(pairs)
    ]
    return Pooled(float(value), _interval(np.mean(draws, axis=0)))


def _middle(scores_nS: np.ndarray) -> np.ndarray:
    """Mean of the middle half along the last axis; each end loses a quarter of the scores, rounded down."""
    ordered, count = np.sort(scores_nS, axis=-1), scores_nS.shape[-1]
    return ordered[..., count // 4 : count - count // 4].mean(-1)


def _above(a_nS: np.ndarray, b_nS: np.ndarray) -> np.ndarray:
    """Of every draw the share of pairs in which A is above B, ties half (Mann and Whitney's U over their number)."""
    a, b = a_nS[:, :, None], b_nS[:, None, :]
    return (a > b).mean((1, 2)) + 0.5 * (a == b).mean((1, 2))


def _drawn(task_S: np.ndarray, n: int, seed: list[int]) -> np.ndarray:
    """``n`` resamples of the seeds of a task."""
    count = len(task_S)
    return np.asarray(task_S, dtype=np.float64)[np.random.default_rng(seed).integers(0, count, (n, count))]


def _interval(draws_n: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws_n, [0.025, 0.975])
    return float(low), float(high)
