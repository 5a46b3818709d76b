"""Resampling of test clips, or of whole test subjects, for the difference of two classifiers (numpy).

Shapes: ``C`` test clips, ``G`` subjects, ``S`` seeds that are resampled too. ``total_SC`` (or ``total_C``) are whole
numbers: the difference of each clip's mean outcomes, A minus B, in units of 1 / ``unit``. All seeds of a resample have
the same clips (Owen 2007, "The pigeonhole bootstrap").
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
"""Smallest number of subjects, or seeds, for a test: with five, no sign-flip test gives a p below 1/16."""
SEEDS = 3
"""Smallest number of seeds that is resampled."""

LEAST = 1e-150
"""Smallest p value."""


@dataclass(frozen=True)
class Resampled:
    """A difference, with clips or subjects as the random unit."""

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


def over_clips(total_SC: np.ndarray, unit: int = 1, n: int = 10000) -> Resampled:
    """95 % percentile interval from ``n`` resamples of clips, and the exact sign-flip test (for outcomes 0 and 1
    McNemar's).

    If all clips have the same difference, as many other clips as Wilson's interval allows may have any difference.
    """
    total_SC = np.atleast_2d(total_SC)
    (seeds, clips), (totals, counts) = total_SC.shape, np.unique(total_SC.sum(0), return_counts=True)
    if len(totals) == 1:
        z2 = NormalDist().inv_cdf(0.975) ** 2
        share, weight = float(totals[0] / (seeds * unit)), z2 / (clips + z2)
        interval = share - weight * (share + 1), share + weight * (1 - share)
        return Resampled("clips", clips, sign_flips(totals, counts), lambda: interval)

    def resample() -> tuple[float, float]:
        kinds_SK, often_K = np.unique(total_SC, axis=1, return_counts=True)
        drawn_nK = np.random.default_rng(0).multinomial(clips, often_K / clips, size=n)
        draws = (_drawn(seeds, n, 1) * (drawn_nK @ kinds_SK.T)).sum(1) / (seeds * unit * clips)
        return _quantiles(draws, 0.025)

    return Resampled("clips", clips, sign_flips(totals, counts), resample)


def over_subjects(total_SC: np.ndarray, subject_C: np.ndarray, unit: int = 1, n: int = 10000) -> Resampled | None:
    """Interval and p with whole subjects drawn at random; None for fewer than two subjects.

    Interval: ``n`` resamples of subjects with replacement, with expanded percentiles (Hesterberg 2015, "What teachers
    should know about the bootstrap", section 4.3). p: sign flips of the summed difference of each subject.
    """
    rows = [sums(subject_C, total_C) for total_C in np.atleast_2d(total_SC)]
    total_SG, clips_G = np.stack([total_G for total_G, _ in rows]), rows[0][1]
    if len(clips_G) < 2:
        return None
    values, counts = np.unique(total_SG.sum(0), return_counts=True)
    resample = partial(bootstrap_subjects, total_SG / unit, clips_G, n)
    return Resampled("subjects", len(clips_G), sign_flips(values, counts), resample)


def sums(subject_C: np.ndarray, value_C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of ``value_C`` and number of clips of each subject, by subject."""
    subjects, place_C = np.unique(subject_C, return_inverse=True)
    total_G = np.zeros(len(subjects), value_C.dtype)
    np.add.at(total_G, place_C.ravel(), value_C)
    return total_G, np.bincount(place_C.ravel(), minlength=len(subjects))


def bootstrap_subjects(total_SG: np.ndarray, clips_G: np.ndarray, n: int = 10000) -> tuple[float, float]:
    """Expanded percentile interval of sum(total) / sum(clips) from ``n`` resamples of whole subjects, at least two."""
    total_SG, subjects = np.atleast_2d(total_SG), len(clips_G)
    seeds, often_nG = len(total_SG), _drawn(subjects, n)
    means_n = (_drawn(seeds, n, 1) * (often_nG @ total_SG.T)).sum(1) / (seeds * (often_nG @ clips_G))
    z = math.sqrt(subjects / (subjects - 1)) * t_quantile(0.975, subjects - 1)
    return _quantiles(means_n, NormalDist().cdf(-z))


@lru_cache(maxsize=4)
def _drawn(count: int, n: int, seed: int = 0) -> np.ndarray:
    """Number of copies of each subject, or seed, in each of ``n`` resamples, [n, count]."""
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=n)
    return drawn.astype(np.float64)


def _quantiles(draws: np.ndarray, tail: float) -> tuple[float, float]:
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)


def t_quantile(share: float, degrees: int) -> float:
    """Quantile of Student's t, for ``share`` >= 0.5. Not SciPy's, whose import takes a third of a second."""
    odd = degrees % 2

    def within(angle: float) -> float:
        """Probability of |t| <= sqrt(degrees) tan(angle) (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
        total, term = 0.0, math.cos(angle) if odd else 1.0
        for power in range(1 + odd, degrees, 2):
            total, term = total + term, term * math.cos(angle) ** 2 * power / (power + 1)
        series = math.sin(angle) * total
        return 2 / math.pi * (angle + series) if odd else series

    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if within(angle) < 2 * share - 1 else (low, angle)
    return math.sqrt(degrees) * math.tan(low)


def design_effect(total_C: np.ndarray, subject_C: np.ndarray) -> float:
    """Variance of the mean difference over subjects / over clips (Kish 1965), at least 1: the number of clips with the
    information of one independent clip. 1 for fewer than two subjects."""
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
    totals = totals // max(1, int(np.gcd.reduce(totals)))
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
    """Correct clips (means over seeds) and clips of each subject [G]; None if subjects differ between seeds."""
    if not found or any(not isinstance(run, Mapping) or set(run) != set(found[0]) for run in found):
        return None
    right_GS, clips_GS = np.array([[run[subject] for run in found] for subject in sorted(found[0])]).transpose(2, 0, 1)
    return right_GS.mean(1), clips_GS[:, 0]
