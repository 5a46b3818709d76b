"""Statistics of accuracies on one test set: intervals, paired tests, corrections (numpy and the standard library)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from skelbench.errors import SkelbenchError


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval (1927, no continuity correction) of a share ``successes / n``; (0, 1) for n = 0."""
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / n
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)
    # Exactly 0 and 1 at the ends, where rounding leaves 1e-18.
    return (0.0 if successes == 0 else low), (1.0 if successes == n else high)


def mcnemar(correct_a: np.ndarray, correct_b: np.ndarray) -> tuple[int, int, float]:
    """Exact two-sided McNemar test: (b, c, p), b = clips that only A gets right, c = clips that only B does.

    p = min(1, 2 P[X <= min(b, c)]) with X binomial(b + c, 1/2).
    """
    a, b = _outcomes(correct_a, correct_b)
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    n, least = only_a + only_b, min(only_a, only_b)
    log_total = math.lgamma(n + 1) - n * math.log(2)
    tail = math.fsum(math.exp(log_total - math.lgamma(i + 1) - math.lgamma(n - i + 1)) for i in range(least + 1))
    return only_a, only_b, min(1.0, 2 * tail)


def paired_bootstrap(
    correct_a: np.ndarray, correct_b: np.ndarray, seed: int, n: int = 10000, confidence: float = 0.95
) -> tuple[float, float, float]:
    """(difference, lo, hi): accuracy of A minus accuracy of B with a percentile interval from ``n`` resamples of clips.

    Resampling clips with replacement is drawing the counts of the outcomes (both, only A, only B, neither) from one
    multinomial, and the difference needs nothing but those.
    """
    a, b = _outcomes(correct_a, correct_b)
    cells = np.array([(a & b).sum(), (a & ~b).sum(), (b & ~a).sum(), (~a & ~b).sum()])
    draws = np.random.default_rng(seed).multinomial(len(a), cells / len(a), size=n)
    low, high = np.quantile((draws[:, 1] - draws[:, 2]) / len(a), [0.5 - confidence / 2, 0.5 + confidence / 2])
    return float((cells[1] - cells[2]) / len(a)), float(low), float(high)


def holm(ps: Sequence[float]) -> np.ndarray:
    """Holm's step-down adjusted p-values, in the order given: reject where the adjusted value is at most alpha."""
    values = np.asarray(ps, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)))
    return adjusted


def minimum_detectable_difference(n: int, discordant_rate: float, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest true accuracy difference that a two-sided McNemar test on ``n`` clips finds with ``power``.

    ``discordant_rate`` is the share of clips on which the two differ. Solves Miettinen's (1968) size formula
    n d^2 = (z_alpha sqrt(r) + z_power sqrt(r - d^2))^2 for d; infinite when even one-sided disagreement (d = r) is
    not enough.
    """
    if not 0 <= discordant_rate <= 1 or n < 0:
        raise ValueError(f"n = {n}, discordant rate {discordant_rate}")
    za, zb = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    if discordant_rate == 0 or n < za * za:
        return math.inf
    root = za * math.sqrt(n) + zb * math.sqrt(n - za * za + zb * zb)
    d = math.sqrt(discordant_rate) * root / (n + zb * zb)
    return d if d <= discordant_rate else math.inf


@dataclass(frozen=True)
class PairedTest:
    """Two classifiers on the same clips. Accuracies and differences are shares; ``difference`` is A minus B."""

    n: int
    accuracy_a: float
    accuracy_b: float
    difference: float
    interval: tuple[float, float]
    """95 % bootstrap interval of the difference over test clips."""
    p_value: float
    """Exact two-sided McNemar test."""
    verdict: str


def paired_test(
    ids_a: np.ndarray,
    correct_a: np.ndarray,
    ids_b: np.ndarray,
    correct_b: np.ndarray,
    names: tuple[str, str] = ("A", "B"),
    alpha: float = 0.05,
) -> PairedTest:
    """Compare two classifiers clip by clip; the clips may come in different orders.

    Raises :class:`SkelbenchError` unless both were tested on exactly the same clips, each once. It speaks of these
    test clips and these two trained models: variation over pre-training seeds is not in it.
    """
    ids_a, ids_b, correct_a, correct_b = (np.asarray(v) for v in (ids_a, ids_b, correct_a, correct_b))
    name_a, name_b = names
    for name, ids, correct in ((name_a, ids_a, correct_a), (name_b, ids_b, correct_b)):
        if ids.ndim != 1 or ids.shape != correct.shape:
            raise SkelbenchError(
                f"{name} has {ids.size} clip ids for {correct.size} predictions; evaluate it again with --force"
            )
        if len(np.unique(ids)) != len(ids):
            raise SkelbenchError(f"{name} has several predictions for the same clip; evaluate it again with --force")
    only_a, only_b = np.setdiff1d(ids_a, ids_b), np.setdiff1d(ids_b, ids_a)
    if len(only_a) or len(only_b) or not len(ids_a):
        shared = len(ids_a) - len(only_a)
        raise SkelbenchError(
            f"{name_a} ({len(ids_a)} test clips) and {name_b} ({len(ids_b)}) share {shared} test clips, a paired test "
            f"needs the same ones; evaluate both on the same data set and split"
        )
    a, b = _outcomes(correct_a[np.argsort(ids_a)], correct_b[np.argsort(ids_b)])
    better_a, better_b, p = mcnemar(a, b)
    difference, low, high = paired_bootstrap(a, b, seed=0)
    figures = f"{100 * low:+.1f} to {100 * high:+.1f} points at 95 %, p = {p:.2g}, {len(a)} clips"
    if p <= alpha:
        winner, loser = (name_a, name_b) if difference > 0 else (name_b, name_a)
        verdict = f"{winner} is better than {loser} by {100 * abs(difference):.1f} points ({figures})"
    else:
        least = minimum_detectable_difference(len(a), (better_a + better_b) / len(a), alpha)
        size = f"at least {100 * least:.1f} points" if math.isfinite(least) else "more disagreement"
        verdict = f"no difference shown between {name_a} and {name_b} ({figures}; showing one would take {size})"
    return PairedTest(len(a), float(a.mean()), float(b.mean()), difference, (low, high), p, verdict)


@dataclass(frozen=True)
class SeedsTest:
    """Two settings trained with the same seeds and tested on the same clips; shares, ``difference`` is A minus B."""

    seeds: int
    clips: int
    difference: float
    spread: float | None
    """Sample standard deviation over seeds of the difference; None for one seed."""
    interval: tuple[float, float]
    """95 % bootstrap interval of the difference over test clips."""
    p_value: float
    """Exact two-sided sign-flip test over test clips."""


def seeds_test(correct_a_SC: np.ndarray, correct_b_SC: np.ndarray, n: int = 10000) -> SeedsTest:
    """Compare two settings over S seeds on the same C clips, row s of both from seed s.

    A clip counts once, with the difference d of its mean outcomes over seeds: outcomes of one clip under several
    seeds depend on each other. If the settings were alike, +d and -d would be equally likely for every clip; p is the
    chance of a total at least as large under those sign flips, exactly, and McNemar's for one seed. It speaks of test
    clips and these trained models: variation over pre-training seeds is in ``spread`` alone.
    """
    a_SC, b_SC = np.asarray(correct_a_SC, dtype=np.int64), np.asarray(correct_b_SC, dtype=np.int64)
    if a_SC.shape != b_SC.shape or a_SC.ndim != 2 or not a_SC.size:
        raise ValueError(f"outcomes must be two equal, non-empty [seeds, clips], not {a_SC.shape} and {b_SC.shape}")
    seeds, clips = a_SC.shape
    differing_SC = a_SC - b_SC
    totals, counts = np.unique(differing_SC.sum(0), return_counts=True)  # per clip, in units of 1 / seeds
    draws = np.random.default_rng(0).multinomial(clips, counts / clips, size=n) @ totals / (seeds * clips)
    low, high = np.quantile(draws, [0.025, 0.975])
    return SeedsTest(
        seeds=seeds,
        clips=clips,
        difference=float(differing_SC.mean()),
        spread=float(differing_SC.mean(1).std(ddof=1)) if seeds > 1 else None,
        interval=(float(low), float(high)),
        p_value=_sign_flips(totals, counts),
    )


def _sign_flips(totals: np.ndarray, counts: np.ndarray) -> float:
    """P[|sum of ±|total|| >= |sum of totals|] with all signs equally likely; ``counts``: how often each total occurs.

    The chances of all sums at once, by convolving a binomial distribution per size of a total.
    """
    chance = np.ones(1)  # of the summed sizes of all that came out positive: 0, 1, ..., all
    for size in np.unique(np.abs(totals[totals != 0])):
        heads = _fair_coin(int(counts[np.abs(totals) == size].sum()))
        spaced = np.zeros(size * (len(heads) - 1) + 1)
        spaced[::size] = heads
        chance = np.convolve(chance, spaced)
    sums = 2 * np.arange(len(chance)) - (len(chance) - 1)
    return min(1.0, float(chance[np.abs(sums) >= abs(int(totals @ counts))].sum()))


def _fair_coin(n: int) -> np.ndarray:
    """Chances of 0..n heads in ``n`` throws; what is under 1e-150 is cut off, equally at both ends."""
    log_total = math.lgamma(n + 1) - n * math.log(2)
    logs = np.array([log_total - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in range(n + 1)])
    kept = logs > math.log(1e-150)
    return np.exp(logs[kept & kept[::-1]])


def _outcomes(correct_a: np.ndarray, correct_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(correct_a, dtype=bool), np.asarray(correct_b, dtype=bool)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise ValueError(f"outcomes must be two equally long, non-empty vectors, not {a.shape} and {b.shape}")
    return a, b
