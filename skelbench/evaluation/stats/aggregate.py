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
"""Fewer tasks are shown one by one: a mean over them would say more of which they are than of the methods."""
SEEDS = 3
"""Fewer seeds of a task leave a bootstrap over them nothing to resample."""

Scores = Sequence[np.ndarray]


@dataclass(frozen=True)
class Pooled:
    """A figure over tasks."""

    value: float
    interval: tuple[float, float]
    """95 % interval over seeds; tasks are taken as they are."""


def iqm(scores: Scores, n: int = 10000) -> Pooled:
    """Interquartile mean: the mean of all scores of all tasks without the lowest and the highest quarter.

    Interval: ``n`` resamples of the seeds within every task. Plain percentiles of so few seeds are too narrow, so they
    are taken further out, as over subjects (:func:`~skelbench.evaluation.stats.bootstrap.over_subjects`), by the
    seeds of all
    tasks but one of each.

    >>> iqm([np.array([0.1, 0.5]), np.array([0.6, 0.9])]).value
    0.55
    """
    drawn_nS = np.concatenate([_drawn(task, n, place) for place, task in enumerate(scores)], axis=1)
    seeds = sum(map(len, scores))
    free = seeds - len(scores)
    z = math.sqrt(seeds / free) * t_quantile(0.975, free) if free else math.inf
    low, high = np.quantile(_middle(drawn_nS), [NormalDist().cdf(-z), NormalDist().cdf(z)])
    return Pooled(float(_middle(np.concatenate(list(scores)))), (float(low), float(high)))


def probability_of_improvement(a: Scores, b: Scores) -> Pooled:
    """How likely a seed of A is above a seed of B on a task drawn at random; a tie counts half.

    Interval: the chances that the figure found is within 1.96 standard errors of, each with its own standard error, so
    that it is none of a point where all seeds agree. The variance of a task is that of Mann and Whitney's U by Hanley
    and McNeil with equal numbers put into its two terms (Newcombe 2006, "Confidence intervals for an effect size
    measure based on the Mann-Whitney statistic", part 2, method 5); tasks with other chances only make it smaller.

    >>> probability_of_improvement([np.array([0.8, 0.9])], [np.array([0.7, 0.85])]).value
    0.75
    """
    if len(a) != len(b):
        raise ValueError(f"A has {len(a)} tasks, B has {len(b)}")
    value = float(np.mean([_above(one, other) for one, other in zip(a, b)]))
    sizes, z2 = [(len(one), len(other)) for one, other in zip(a, b)], NormalDist().inv_cdf(0.975) ** 2

    def fits(chance: float) -> bool:
        error = sum(_variance(chance, *size) for size in sizes) / len(sizes) ** 2
        return (value - chance) ** 2 <= z2 * error

    return Pooled(value, (_end(fits, value, 0.0), _end(fits, value, 1.0)))


def _middle(scores_nS: np.ndarray) -> np.ndarray:
    """Mean of the middle half along the last axis; each end loses a quarter of the scores, rounded down."""
    ordered, count = np.sort(scores_nS, axis=-1), scores_nS.shape[-1]
    return ordered[..., count // 4 : count - count // 4].mean(-1)


def _above(a_S: np.ndarray, b_S: np.ndarray) -> float:
    """The share of pairs in which A is above B, ties half (Mann and Whitney's U over their number)."""
    return float(np.greater.outer(a_S, b_S).mean() + 0.5 * np.equal.outer(a_S, b_S).mean())


def _variance(chance: float, seeds_a: int, seeds_b: int) -> float:
    """Variance of :func:`_above` if its expectation is ``chance``."""
    more = (seeds_a + seeds_b) / 2 - 1
    depend = more * ((1 - chance) / (2 - chance) + chance / (1 + chance))
    return chance * (1 - chance) * (1 + depend) / (seeds_a * seeds_b)


def _end(fits: Callable[[float], bool], inside: float, outside: float) -> float:
    """Bisection: boundary between ``inside`` (``fits`` holds) and ``outside``, to 1e-9; ``inside`` if it holds nowhere
    else."""
    while abs(outside - inside) > 1e-9:
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if fits(middle) else (inside, middle)
    return inside


def _drawn(task_S: np.ndarray, n: int, seed: int) -> np.ndarray:
    """``n`` resamples of the seeds of a task."""
    count = len(task_S)
    return np.asarray(task_S, dtype=np.float64)[np.random.default_rng([0, seed]).integers(0, count, (n, count))]
