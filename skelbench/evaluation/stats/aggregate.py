"""Results over many tasks, each with several seeds, as Agarwal et al. (2021), "Deep reinforcement learning at the edge
of the statistical precipice", define them (their library: google-research/rliable).

Shapes: scores are a sequence of tasks, each with the scores of its seeds; tasks may differ in their number of seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from skelbench.evaluation.stats.bootstrap import t_quantile

TASKS = 5
"""Smallest number of tasks that are pooled."""
SEEDS = 3
"""Tasks with fewer seeds are not pooled: a bootstrap would have nothing to resample."""

Scores = Sequence[np.ndarray]


@dataclass(frozen=True)
class Pooled:
    """Aggregate over tasks."""

    value: float
    interval: tuple[float, float]
    """95 % interval over seeds; tasks are not resampled."""


def iqm(scores: Scores, n: int = 10000) -> Pooled:
    """Interquartile mean: the mean of all scores of all tasks without the lowest and the highest quarter.

    Interval: ``n`` resamples of the seeds within every task, with expanded percentiles as over subjects
    (:func:`~skelbench.evaluation.stats.bootstrap.over_subjects`).
    """
    drawn_nS = np.concatenate([_drawn(task, n, place) for place, task in enumerate(scores)], axis=1)
    seeds = sum(map(len, scores))
    free = seeds - len(scores)
    z = math.sqrt(seeds / free) * t_quantile(0.975, free) if free else math.inf
    low, high = np.quantile(_middle(drawn_nS), [NormalDist().cdf(-z), NormalDist().cdf(z)])
    return Pooled(float(_middle(np.concatenate(list(scores)))), (float(low), float(high)))


def probability_of_improvement(a: Scores, b: Scores) -> Pooled:
    """Probability that a seed of A is above a seed of B on a random task; a tie counts half.

    Interval: the probabilities within 1.96 of their own standard errors of the value. The variance of a task comes from
    Mann and Whitney's U (Newcombe 2006, "Confidence intervals for an effect size measure based on the Mann-Whitney
    statistic", part 2, method 5).
    """
    if len(a) != len(b):
        raise ValueError(f"A has {len(a)} tasks, B has {len(b)}")
    value = float(np.mean([_above(sample_a, sample_b) for sample_a, sample_b in zip(a, b)]))
    sizes, z2 = [(len(sample_a), len(sample_b)) for sample_a, sample_b in zip(a, b)], NormalDist().inv_cdf(0.975) ** 2

    def fits(chance: float) -> bool:
        error = sum(_variance(chance, *size) for size in sizes) / len(sizes) ** 2
        return (value - chance) ** 2 <= z2 * error

    return Pooled(value, (_end(fits, value, 0.0), _end(fits, value, 1.0)))


def _middle(scores_nS: np.ndarray) -> np.ndarray:
    """Mean of the middle half along the last axis; each end loses a quarter of the scores, rounded down."""
    ordered, count = np.sort(scores_nS, axis=-1), scores_nS.shape[-1]
    return ordered[..., count // 4 : count - count // 4].mean(-1)


def _above(a_S: np.ndarray, b_S: np.ndarray) -> float:
    """Fraction of pairs in which A is above B, ties half (Mann and Whitney's U over their number)."""
    return float(np.greater.outer(a_S, b_S).mean() + 0.5 * np.equal.outer(a_S, b_S).mean())


def _variance(chance: float, seeds_a: int, seeds_b: int) -> float:
    """Variance of :func:`_above` if its expected value is ``chance``."""
    more = (seeds_a + seeds_b) / 2 - 1
    depend = more * ((1 - chance) / (2 - chance) + chance / (1 + chance))
    return chance * (1 - chance) * (1 + depend) / (seeds_a * seeds_b)


def _end(fits: Callable[[float], bool], inside: float, outside: float) -> float:
    """Boundary between ``inside``, for which ``fits`` holds, and ``outside``, by bisection to 1e-9."""
    while abs(outside - inside) > 1e-9:
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if fits(middle) else (inside, middle)
    return inside


def _drawn(task_S: np.ndarray, n: int, seed: int) -> np.ndarray:
    """``n`` resamples of the seeds of a task."""
    count = len(task_S)
    return np.asarray(task_S, dtype=np.float64)[np.random.default_rng([0, seed]).integers(0, count, (n, count))]
