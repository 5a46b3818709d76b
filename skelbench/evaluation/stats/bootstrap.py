"""Resampling of test clips, or of whole test subjects, for the difference of two classifiers (numpy).

Shapes: ``C`` test clips, ``G`` subjects. ``total_C`` are whole numbers: the difference of each clip's outcomes, A minus
B, summed over seeds and draws, in units of 1 / ``unit``. ``seeds_n``: see :func:`seed_draws`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

TRUSTED = 6
"""Fewer subjects, or seeds, carry no test: over five no sign-flip test comes below p = 1/16."""
SEEDS = 3
"""Intervals over fewer seeds would be too wide to say anything."""

LEAST = 1e-150
"""Smallest p value."""


@dataclass(frozen=True)
class Resampled:
    """A difference with clips, or subjects, as random draws."""

    over: Literal["clips", "subjects"]
    count: int
    p_value: float
    """Exact, two-sided: by sign flips."""
    resample: Callable[[], tuple[float, float]] = field(compare=False, repr=False)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 % interval, drawn when first used: tests of many pairs need only p."""
        return self.resample()

    @property
    def width(self) -> float:
        return self.interval[1] - self.interval[0]

    def __str__(self) -> str:
        return f"{self.count} {self.over}"


def seed_draws(spread: float, seeds: int, n: int) -> np.ndarray:
    """``n`` deviations of the mean over ``seeds``, whose sample standard deviation is ``spread``: Student's t.

    To draw three seeds with replacement would give their mean too little variation, and only ten values.
    """
    from scipy.special import stdtrit  # slow to import

    share_n = (np.random.default_rng(1).permutation(n) + 0.5) / n
    return np.asarray(stdtrit(seeds - 1, share_n)) * spread / math.sqrt(seeds)


def over_clips(
    total_C: np.ndarray, unit: int = 1, n: int = 10000, confidence: float = 0.95, seeds_n: np.ndarray | None = None
) -> Resampled:
    """Percentile interval from ``n`` resamples of clips, and the exact sign-flip test (for outcomes 0 and 1 McNemar's).

    If all clips have the same difference, as many other clips as Wilson's interval allows may have any difference.
    """
    totals, counts = np.unique(total_C, return_counts=True)
    clips = len(total_C)
    if len(totals) == 1:
        z2 = NormalDist().inv_cdf(0.5 + confidence / 2) ** 2
        share, weight = float(totals[0] / unit), z2 / (clips + z2)
        interval = share - weight * (share + 1), share + weight * (1 - share)
        return Resampled("clips", clips, sign_flips(totals, counts), lambda: interval)

    def resample() -> tuple[float, float]:
        draws = np.random.default_rng(0).multinomial(clips, counts / clips, size=n) @ totals / (unit * clips)
        return _quantiles(draws if seeds_n is None else draws + seeds_n, (1 - confidence) / 2)

    return Resampled("clips", clips, sign_flips(totals, counts), resample)


def over_subjects(
    total_C: np.ndarray, subject_C: np.ndarray, unit: int = 1, n: int = 10000, confidence: float = 0.95,
    seeds_n: np.ndarray | None = None,
) -> Resampled | None:  # fmt: skip
    """Interval and p with whole subjects drawn at random; None for fewer than two subjects.

    Interval: ``n`` resamples of subjects with replacement, with expanded percentiles (Hesterberg 2015, "What teachers
    should know about the bootstrap", section 4.3). p: sign flips of the summed difference of each subject.
    """
    total_G, clips_G = sums(subject_C, total_C)
    if len(total_G) < 2:
        return None
    values, counts = np.unique(total_G, return_counts=True)
    resample = partial(bootstrap_subjects, total_G / unit, clips_G, n, confidence, seeds_n)
    return Resampled("subjects", len(total_G), sign_flips(values, counts), resample)


def sums(subject_C: np.ndarray, value_C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of ``value_C`` and number of clips of each subject, by subject."""
    subjects, place_C = np.unique(subject_C, return_inverse=True)
    total_G = np.zeros(len(subjects), value_C.dtype)
    np.add.at(total_G, place_C.ravel(), value_C)
    return total_G, np.bincount(place_C.ravel(), minlength=len(subjects))


def bootstrap_subjects(
    total_G: np.ndarray, clips_G: np.ndarray, n: int = 10000, confidence: float = 0.95,
    seeds_n: np.ndarray | None = None,
) -> tuple[float, float]:  # fmt: skip
    """Expanded percentile interval of sum(total) / sum(clips) from ``n`` resamples of whole subjects, at least two.

    With ``seeds_n`` the deviations of the resamples are expanded instead: a further tail would also stretch seeds.
    """
    subjects = len(total_G)
    often_nG = _drawn(subjects, n)
    means_n = (often_nG @ total_G) / (often_nG @ clips_G)
    z = math.sqrt(subjects / (subjects - 1)) * t_quantile(0.5 + confidence / 2, subjects - 1)
    if seeds_n is None:
        return _quantiles(means_n, NormalDist().cdf(-z))
    middle, tail = total_G.sum() / clips_G.sum(), (1 - confidence) / 2
    return _quantiles(middle - (means_n - middle) * z / NormalDist().inv_cdf(tail) + seeds_n, tail)


@lru_cache(maxsize=4)
def _drawn(subjects: int, n: int) -> np.ndarray:
    """Number of times that each subject is in each of ``n`` resamples [n, G]."""
    drawn = np.random.default_rng(0).multinomial(subjects, np.full(subjects, 1 / subjects), size=n)
    return drawn.astype(np.float64)


def _quantiles(draws: np.ndarray, tail: float) -> tuple[float, float]:
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)


def t_quantile(share: float, degrees: int) -> float:
    """Quantile of Student's t."""
    from scipy.special import stdtrit  # slow to import

    return float(stdtrit(degrees, share))


def design_effect(total_C: np.ndarray, subject_C: np.ndarray) -> float:
    """Variance of the mean difference over subjects / over clips (Kish 1965), at least 1: number of clips worth one
    independent clip. 1 for fewer than two subjects."""
    total_G, clips_G = sums(subject_C, total_C.astype(np.float64))
    groups, clips = len(total_G), len(total_C)
    mean, by_clip = total_C.mean(), total_C.var() / clips
    if groups < 2 or not by_clip:
        return 1.0
    by_subject = groups / (groups - 1) * float(((total_G - clips_G * mean) ** 2).sum()) / clips**2
    return max(1.0, by_subject / by_clip)


def sign_flips(totals: np.ndarray, counts: np.ndarray) -> float:
    """P[|sum of ±|total|| >= |sum of totals|] with all signs equally likely; ``counts``: how often each total occurs.

    Exact: the convolution of a binomial distribution per size of a total.
    """
    chance = np.ones(1)  # probability of each sum of the positive sizes
    for size in np.unique(np.abs(totals[totals != 0])):
        heads = _fair_coin(int(counts[np.abs(totals) == size].sum()))
        if size == 1:
            chance = np.convolve(chance, heads)
            continue
        moved = np.zeros(len(chance) + size * (len(heads) - 1))
        for place, head in enumerate(heads):
            moved[size * place : size * place + len(chance)] += head * chance
        chance = moved
    sizes = 2 * np.arange(len(chance)) - (len(chance) - 1)
    return min(1.0, max(LEAST, float(chance[np.abs(sizes) >= abs(int(totals @ counts))].sum())))


def _fair_coin(n: int) -> np.ndarray:
    """Probabilities of 0..n heads in ``n`` throws; those under :data:`LEAST` are cut off at both ends."""
    log_total = math.lgamma(n + 1) - n * math.log(2)
    logs = np.array([log_total - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in range(n + 1)])
    selected = logs > math.log(LEAST)
    return np.exp(logs[selected & selected[::-1]])


def of_subjects(found: Sequence[Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Correct clips (means over seeds) and clips of each subject [G], from both by seed; None if subjects differ."""
    if not found or any(not isinstance(run, Mapping) or set(run) != set(found[0]) for run in found):
        return None
    right_GS, clips_GS = np.array([[run[subject] for run in found] for subject in sorted(found[0])]).transpose(2, 0, 1)
    return right_GS.mean(1), clips_GS[:, 0]
