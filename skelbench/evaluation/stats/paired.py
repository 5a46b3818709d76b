"""Statistics of accuracies on one test set: intervals, paired tests, corrections (numpy and the standard library)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.stats.bootstrap import (
    SEEDS,
    TRUSTED,
    Resampled,
    bootstrap_subjects,
    design_effect,
    over_clips,
    over_subjects,
    sign_flips,
    t_quantile,
)


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval (1927, no continuity correction) of ``successes / n``; (0, 1) for n = 0."""
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / n
    center = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (center - half) / (1 + z * z / n), (center + half) / (1 + z * z / n)
    return (0.0 if successes == 0 else low), (1.0 if successes == n else high)


def t_half_width(sd: float, n: int, confidence: float = 0.95) -> float:
    """Half the t interval of a mean of ``n`` values, two at least, with the sample standard deviation ``sd``."""
    return t_quantile(0.5 + confidence / 2, n - 1) * sd / math.sqrt(n)


def accuracy_interval(
    share: float, n: int, by_subject: tuple[np.ndarray, np.ndarray] | None = None
) -> tuple[tuple[float, float], str]:
    """95 % interval of an accuracy on ``n`` test clips: the wider of Wilson's and one over subjects, and its name.

    ``by_subject``: correct clips (means over seeds and draws) and clips, of each subject [G].
    """
    interval, over = wilson(round(share * n), n), f"{n} clips"
    if by_subject is not None and len(by_subject[0]) > 1:
        by_subjects = bootstrap_subjects(*by_subject)
        if by_subjects[1] - by_subjects[0] > interval[1] - interval[0]:
            interval, over = by_subjects, f"{len(by_subject[0])} subjects"
    return interval, over


def holm(ps: Sequence[float]) -> np.ndarray:
    """Holm's step-down adjusted p-values, in the order given: reject where the adjusted value is at most alpha."""
    values = np.asarray(ps, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)))
    return adjusted


def minimum_detectable_difference(
    n: int, discordant_rate: float, alpha: float = 0.05, power: float = 0.8, subjects: int | None = None
) -> float:
    """Smallest true accuracy difference that a two-sided test on ``n`` clips finds with ``power``: McNemar's, and with
    ``subjects`` also the sign-flip test over that number of subjects.

    ``discordant_rate``: fraction of clips on which the two differ. Solves Miettinen's (1968) size formula
    n d^2 = (z_alpha sqrt(r) + z_power sqrt(r - d^2))^2 for d; infinite if even d = r is not enough.
    """
    za, zb = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    if discordant_rate == 0 or n < za * za:
        return math.inf
    root = za * math.sqrt(n) + zb * math.sqrt(n - za * za + zb * zb)
    d = math.sqrt(discordant_rate) * root / (n + zb * zb)
    if subjects is not None:
        size = _subjects_size(subjects, alpha, power)
        d = max(d, size * math.sqrt(discordant_rate / (n + size * size)) if math.isfinite(size) else size)
    return d if d <= discordant_rate else math.inf


def _subjects_size(subjects: int, alpha: float, power: float) -> float:
    """Standard errors that a difference must have for the sign-flip test over ``subjects`` to find it.

    ``extreme`` of the 2^(G - 1) pairs of opposite signs may be as extreme as the observed one. With one pair all
    subjects must agree; with many the test is Student's. Between: simulated (tests/evaluation/test_statistics.py)."""
    extreme = math.floor(alpha * 2.0 ** min(subjects - 1, 1000) * (1 + 1e-9))
    if extreme < 1:
        return math.inf
    student = t_quantile(1 - alpha / 2, subjects - 1) + t_quantile(power, subjects - 1)
    all_alike = NormalDist().inv_cdf(power ** (1 / subjects)) * math.sqrt(subjects)
    return student + max(0.0, all_alike - student) / extreme


@dataclass(frozen=True, kw_only=True)
class SeedsTest:
    """Two settings trained with the same seeds and tested on the same clips; ``difference`` is A minus B."""

    seeds: int = 1
    clips: int
    difference: float
    spread: float | None = None
    """Sample standard deviation over seeds of the difference; None for one seed."""
    p_value: float
    """Largest p of exact two-sided sign-flip tests over test clips (McNemar's for single predictions), over subjects,
    and over seeds if there are at least six."""
    by_clip: Resampled
    by_subject: Resampled | None = None
    """Test over subjects; None if subjects are not known or there is only one."""
    discordance: float = 0.0
    """Mean squared difference of a clip's mean outcomes: for one seed the fraction of clips on which the two differ."""
    differing: float = 0.0
    """Fraction of clips whose mean outcomes differ."""
    effect: float = 1.0
    """Design effect: number of clips that carry as much information as one independent clip."""

    @property
    def wider(self) -> Resampled:
        """The resampling, over clips or subjects, with the wider interval."""
        return max((self.by_clip, self.by_subject or self.by_clip), key=lambda result: result.width)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % bootstrap interval of the difference over test clips, or over subjects if that is wider. Three or more
        seeds are resampled too."""
        return self.wider.interval

    @property
    def over(self) -> str:
        """Unit of the interval: ``400 clips``, ``3 seeds and 20 subjects``."""
        return f"{self.seeds} seeds and {self.wider}" if self.seeds >= SEEDS else str(self.wider)

    @property
    def holds_over_seeds(self) -> bool:
        """Whether the interval over seeds excludes 0; True for too few seeds."""
        return self.seeds < SEEDS or self.interval[0] > 0 or self.interval[1] < 0

    @property
    def half_width(self) -> float | None:
        """Half the 95 % t interval of the difference over seeds; None for one seed."""
        return None if self.spread is None else t_half_width(self.spread, self.seeds)

    @property
    def caution(self) -> str:
        """Warning about the subjects for readers of the test; "" = none."""
        if self.by_subject is None:
            return "subjects are not known: clips of one may depend on each other"
        if self.by_subject.count < TRUSTED:
            few, least = self.by_subject.count, 2.0 ** (1 - self.by_subject.count)
            return f"{few} subjects are too few to trust an interval over them (p is {least:.2g} at least)"
        return ""


@dataclass(frozen=True, kw_only=True)
class PairedTest(SeedsTest):
    """Two classifiers on the same clips."""

    accuracy_a: float
    accuracy_b: float
    names: tuple[str, str] = ("A", "B")

    @property
    def verdict(self) -> str:
        """Conclusion in words: the better result, or that no difference is shown."""
        (name_a, name_b), (low, high), p = self.names, self.interval, self.p_value
        figures = f"{100 * low:+.1f} to {100 * high:+.1f} points at 95 % over {self.over}, p = {p:.2g}"
        figures += f", {self.clips} clips" if "subject" in self.over else ""
        if p > 0.05:
            return f"no significant difference between {name_a} and {name_b} ({figures})"
        winner, loser = (name_a, name_b) if self.difference > 0 else (name_b, name_a)
        return f"{winner} is better than {loser} by {100 * abs(self.difference):.1f} points ({figures})"


def paired_test(
    ids_a: np.ndarray,
    correct_a: np.ndarray,
    ids_b: np.ndarray,
    correct_b: np.ndarray,
    names: tuple[str, str] = ("A", "B"),
    subjects_a: np.ndarray | None = None,
) -> PairedTest:
    """Compare two classifiers clip by clip; the clips may come in different orders.

    ``correct``: [C], or of several draws [draws, C], over which a clip is averaged. ``subjects_a``: subjects of
    ``ids_a``. Raises :class:`SkelbenchError` unless both were tested on exactly the same clips, each once.
    """
    ids_a, ids_b, correct_a, correct_b = (np.asarray(v) for v in (ids_a, ids_b, correct_a, correct_b))
    name_a, name_b = names
    only_a, only_b = np.setdiff1d(ids_a, ids_b), np.setdiff1d(ids_b, ids_a)
    if len(only_a) or len(only_b) or not len(ids_a):
        shared = len(ids_a) - len(only_a)
        raise SkelbenchError(
            f"{name_a} ({len(ids_a)} test clips) and {name_b} ({len(ids_b)}) share {shared} test clips, a paired test "
            f"needs the same ones; evaluate both on the same dataset and split"
        )
    order_a, order_b = np.argsort(ids_a), np.argsort(ids_b)
    sides = (np.atleast_2d(correct_a)[None, :, order_a], np.atleast_2d(correct_b)[None, :, order_b])
    subject_C = None if subjects_a is None else np.asarray(subjects_a)[order_a]
    test, accuracies = seeds_test(*sides, subject_C=subject_C), (float(correct_a.mean()), float(correct_b.mean()))
    return PairedTest(**vars(test), accuracy_a=accuracies[0], accuracy_b=accuracies[1], names=names)


def seeds_test(
    correct_a: np.ndarray, correct_b: np.ndarray, n: int = 10000, subject_C: np.ndarray | None = None
) -> SeedsTest:
    """Compare two settings over S seeds on the same C clips, row s of both from seed s: [S, C], or of several draws
    [S, draws, C]. ``subject_C``: subject of each clip.

    A clip counts once, with the difference of its mean outcomes over seeds and draws. p is the exact probability of a
    total at least as large under sign flips of clips, of subjects, or of six seeds or more.
    """
    sides = [np.asarray(side, dtype=np.int64) for side in (correct_a, correct_b)]
    a_SDC, b_SDC = (side[:, None] if side.ndim == 2 else side for side in sides)
    total_SC, unit = _totals(a_SDC, b_SDC)
    seeds, total_C, whole = len(total_SC), total_SC.sum(0), len(total_SC) * unit
    rows, scale = (total_SC, unit) if seeds >= SEEDS else (total_C, whole)
    by_clip = over_clips(rows, scale, n)
    by_subject = None if subject_C is None else over_subjects(rows, subject_C, scale, n)
    by_seed = sign_flips(*np.unique(total_SC.sum(1), return_counts=True)) if seeds >= TRUSTED else 0.0
    differing_S = a_SDC.mean((1, 2)) - b_SDC.mean((1, 2))
    return SeedsTest(
        seeds=seeds,
        clips=len(total_C),
        difference=float(total_C.sum() / (whole * len(total_C))),
        spread=float(differing_S.std(ddof=1)) if seeds > 1 else None,
        p_value=max(by_seed, *(result.p_value for result in (by_clip, by_subject) if result)),
        by_clip=by_clip,
        by_subject=by_subject,
        discordance=float(((total_C / whole) ** 2).mean()),
        differing=float((total_C != 0).mean()),
        effect=design_effect(total_C, subject_C) if subject_C is not None else 1.0,
    )


def _totals(a_SDC: np.ndarray, b_SDC: np.ndarray) -> tuple[np.ndarray, int]:
    """Difference of each clip's mean outcomes over draws [S, C], as whole multiples of 1 / unit; unit."""
    draws_a, draws_b = a_SDC.shape[1], b_SDC.shape[1]
    unit = math.lcm(draws_a, draws_b)
    return a_SDC.sum(1) * (unit // draws_a) - b_SDC.sum(1) * (unit // draws_b), unit
