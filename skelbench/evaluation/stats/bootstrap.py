"""What resampling test clips, or whole test subjects, says of the difference of two classifiers (numpy).

Shapes: ``C`` test clips, ``G`` subjects. ``total_C`` are whole numbers: the difference of each clip's outcomes, A minus
B, summed over seeds and draws, in units of 1 / ``unit``.
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
"""Subjects that it takes to rest a claim on them: over five no sign-flip test can come below p = 1/16, and a bootstrap
sees too few sums to be anything but rough."""

LEAST = 1e-150
"""The least chance that is told from 0: of less it is what is said."""


@dataclass(frozen=True)
class Resampled:
    """A difference with clips, or subjects, as what was drawn at random."""

    over: Literal["clips", "subjects"]
    count: int
    """How many of them there are."""
    p_value: float
    """Exact, two-sided: by sign flips."""
    resample: Callable[[], tuple[float, float]] = field(compare=False, repr=False)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """At 95 %, a share; drawn when it is first asked for, as tests of many pairs need p alone."""
        return self.resample()

    @property
    def width(self) -> float:
        """Of the interval."""
        return self.interval[1] - self.interval[0]

    def __str__(self) -> str:
        return f"{self.count} {self.over}"


def over_clips(total_C: np.ndarray, unit: int = 1, n: int = 10000, confidence: float = 0.95) -> Resampled:
    """The difference with every clip for itself: a percentile interval from ``n`` resamples of clips, and the exact
    sign-flip test, which for outcomes 0 and 1 is McNemar's.

    Resampling clips with replacement is drawing from one multinomial how often each difference occurs. Where all clips
    have the same, there is nothing to resample: then as many others as Wilson's interval leaves room for may have any.
    """
    totals, counts = np.unique(total_C, return_counts=True)
    clips = len(total_C)
    if len(totals) == 1:
        z2 = NormalDist().inv_cdf(0.5 + confidence / 2) ** 2
        share, other = float(totals[0] / unit), z2 / (clips + z2)
        interval = share - other * (share + 1), share + other * (1 - share)
        return Resampled("clips", clips, sign_flips(totals, counts), lambda: interval)

    def resample() -> tuple[float, float]:
        draws = np.random.default_rng(0).multinomial(clips, counts / clips, size=n) @ totals / (unit * clips)
        return _quantiles(draws, (1 - confidence) / 2)

    return Resampled("clips", clips, sign_flips(totals, counts), resample)


def over_subjects(
    total_C: np.ndarray, subject_C: np.ndarray, unit: int = 1, n: int = 10000, confidence: float = 0.95
) -> Resampled | None:
    """The difference with whole subjects drawn at random, all clips of one together; None for fewer than two subjects.

    Interval: ``n`` resamples of subjects with replacement; quantiles are taken further out than at 2.5 % and 97.5 %,
    as few subjects make the plain ones too narrow (Hesterberg 2015, "What teachers should know about the bootstrap",
    section 4.3: expanded percentile interval, which has a t interval's coverage). p: if the two were alike, the summed
    difference of every subject would be as likely with the other sign.
    """
    total_G, clips_G = sums(subject_C, total_C)
    if len(total_G) < 2:
        return None
    values, counts = np.unique(total_G, return_counts=True)
    resample = partial(bootstrap_subjects, total_G / unit, clips_G, n, confidence)
    return Resampled("subjects", len(total_G), sign_flips(values, counts), resample)


def sums(subject_C: np.ndarray, value_C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of ``value_C`` and number of clips of each subject, by subject."""
    subjects, place_C = np.unique(subject_C, return_inverse=True)
    total_G = np.zeros(len(subjects), value_C.dtype)
    np.add.at(total_G, place_C.ravel(), value_C)
    return total_G, np.bincount(place_C.ravel(), minlength=len(subjects))


def bootstrap_subjects(
    total_G: np.ndarray, clips_G: np.ndarray, n: int = 10000, confidence: float = 0.95
) -> tuple[float, float]:
    """Expanded percentile interval of sum(total) / sum(clips) from ``n`` resamples of whole subjects, at least two."""
    subjects = len(total_G)
    often_nG = _drawn(subjects, n)
    means_n = (often_nG @ total_G) / (often_nG @ clips_G)
    z = math.sqrt(subjects / (subjects - 1)) * t_quantile(0.5 + confidence / 2, subjects - 1)
    return _quantiles(means_n, NormalDist().cdf(-z))


@lru_cache(maxsize=4)
def _drawn(subjects: int, n: int) -> np.ndarray:
    """How often each subject is in each of ``n`` resamples [n, G]."""
    drawn = np.random.default_rng(0).multinomial(subjects, np.full(subjects, 1 / subjects), size=n)
    return drawn.astype(np.float64)


def _quantiles(draws: np.ndarray, tail: float) -> tuple[float, float]:
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)


def t_quantile(share: float, degrees: int) -> float:
    """Quantile of Student's t."""
    from scipy.special import stdtrit  # a tenth of a second, which commands without a table need not wait

    return float(stdtrit(degrees, share))


def design_effect(total_C: np.ndarray, subject_C: np.ndarray) -> float:
    """How many times the variance of the mean difference grows when whole subjects are drawn instead of clips (Kish
    1965): as many clips make one independent clip. At least 1; 1 for fewer than two subjects."""
    total_G, clips_G = sums(subject_C, total_C.astype(np.float64))
    groups, clips = len(total_G), len(total_C)
    mean, by_clip = total_C.mean(), total_C.var() / clips
    if groups < 2 or not by_clip:
        return 1.0
    by_subject = groups / (groups - 1) * float(((total_G - clips_G * mean) ** 2).sum()) / clips**2
    return max(1.0, by_subject / by_clip)


def sign_flips(totals: np.ndarray, counts: np.ndarray) -> float:
    """P[|sum of ±|total|| >= |sum of totals|] with all signs equally likely; ``counts``: how often each total occurs.

    The chances of all sums at once, exactly: a binomial distribution per size of a total, one added to the other. No
    chance comes out below :data:`LEAST`.
    """
    chance = np.ones(1)  # of the summed sizes of all that came out positive: 0, 1, ..., all
    for size in np.unique(np.abs(totals[totals != 0])):
        heads = _fair_coin(int(counts[np.abs(totals) == size].sum()))
        if size == 1:
            chance = np.convolve(chance, heads)
            continue
        moved = np.zeros(len(chance) + size * (len(heads) - 1))
        for place, one in enumerate(heads):
            moved[size * place : size * place + len(chance)] += one * chance
        chance = moved
    sizes = 2 * np.arange(len(chance)) - (len(chance) - 1)
    return min(1.0, max(LEAST, float(chance[np.abs(sizes) >= abs(int(totals @ counts))].sum())))


def _fair_coin(n: int) -> np.ndarray:
    """Chances of 0..n heads in ``n`` throws; what is under :data:`LEAST` is cut off, equally at both ends."""
    log_total = math.lgamma(n + 1) - n * math.log(2)
    logs = np.array([log_total - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in range(n + 1)])
    kept = logs > math.log(LEAST)
    return np.exp(logs[kept & kept[::-1]])


def of_subjects(found: Sequence[Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Clips recognised, means over seeds, and clips, of each subject [G], by subject; ``found`` says both of each seed.
    None unless every seed has the same."""
    if not found or any(not isinstance(one, Mapping) or set(one) != set(found[0]) for one in found):
        return None
    right_GS, clips_GS = np.array([[one[subject] for one in found] for subject in sorted(found[0])]).transpose(2, 0, 1)
    return right_GS.mean(1), clips_GS[:, 0]
