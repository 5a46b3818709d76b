import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.stats.bootstrap import over_clips, t_quantile
from skelbench.evaluation.stats.paired import (
    accuracy_interval,
    holm,
    minimum_detectable_difference,
    paired_test,
    wilson,
)


def outcomes(both: int, only_a: int, only_b: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    a = [1] * both + [1] * only_a + [0] * only_b + [0] * neither
    b = [1] * both + [0] * only_a + [1] * only_b + [0] * neither
    return np.array(a, dtype=bool), np.array(b, dtype=bool)


def exact_p(b: int, c: int) -> Fraction:
    """Two-sided binomial p by adding up integers."""
    n = b + c
    return min(Fraction(1), 2 * sum(Fraction(math.comb(n, i), 2**n) for i in range(min(b, c) + 1)))


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 100, 1023])
def test_quantiles_of_student_s_t_are_scipy_s(degrees):
    for share in (0.6, 0.8, 0.975, 0.999):
        assert t_quantile(share, degrees) == pytest.approx(stdtrit(degrees, share), rel=1e-10)


# Newcombe (1998), Statistics in Medicine 17, table I, method 3 (score).
@pytest.mark.parametrize(
    "successes, n, low, high",
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_intervals(successes, n, low, high):
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_wilson_ends_solve_the_score_equation(case, confidence):
    k, n = case
    low, high = wilson(k, n, confidence)
    share = k / n
    assert 0 <= low <= share <= high <= 1
    assert wilson(n - k, n, confidence) == pytest.approx((1 - high, 1 - low), abs=1e-12)
    # The ends are the values p0 whose own z-test just keeps the observed share: both have the same z.
    if 0 < k < n:
        z_low, z_high = ((share - p) / math.sqrt(p * (1 - p) / n) for p in (low, high))
        assert math.erf(z_low / math.sqrt(2)) == pytest.approx(confidence, abs=1e-6)
        assert z_high == pytest.approx(-z_low, rel=1e-6)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 5))
def test_p_over_clips_is_mcnemars_exact_binomial_sum(b, c, both):
    a_right, b_right = outcomes(both, b, c, 1)
    assert over_clips(a_right.astype(int) - b_right).p_value == pytest.approx(float(exact_p(b, c)), rel=1e-9)


def holm_reference(ps: list[float], alpha: float) -> list[bool]:
    """The step-down procedure as Holm (1979) words it."""
    rejected = [False] * len(ps)
    for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        if ps[i] > alpha / (len(ps) - rank):
            break
        rejected[i] = True
    return rejected


@given(st.lists(st.integers(0, 10_007).map(lambda i: i / 10_007), max_size=12), st.sampled_from([0.01, 0.05, 0.2]))
def test_holm_rejects_what_the_step_down_procedure_rejects(ps, alpha):
    adjusted = holm(ps)
    assert (adjusted <= alpha).tolist() == holm_reference(ps, alpha)
    assert np.all(adjusted >= np.asarray(ps)) and np.all(adjusted <= 1)


@pytest.mark.parametrize("n, rate", [(400, 0.2), (16487, 0.05)])
def test_minimum_detectable_difference_has_the_promised_power(n, rate):
    d = minimum_detectable_difference(n, rate)
    rng = np.random.default_rng(0)
    cells = rng.multinomial(n, [(rate + d) / 2, (rate - d) / 2, 1 - rate], size=20_000)
    z = (cells[:, 0] - cells[:, 1]) / np.sqrt(cells[:, 0] + cells[:, 1])
    assert (np.abs(z) > 1.959964).mean() == pytest.approx(0.8, abs=0.015)


@pytest.mark.parametrize("pairs, subjects", [(1, 6), (6, 8), (36, 12)])
def test_minimum_detectable_difference_has_about_the_promised_power_over_subjects(pairs, subjects):
    """The test takes the larger p of clips and subjects; all signs are enumerated."""
    clips, rate, alpha = 40 * subjects, 0.2, 0.05 / pairs
    d = minimum_detectable_difference(clips, rate, alpha, subjects=subjects)
    drawn = np.random.default_rng(0).choice([1, -1, 0], (400, clips), p=[(rate + d) / 2, (rate - d) / 2, 1 - rate])
    total_NG = drawn.reshape(400, subjects, -1).sum(2)
    signs_SG = np.array([(1, *rest) for rest in product((1, -1), repeat=subjects - 1)])
    extreme_N = (np.abs(signs_SG @ total_NG.T) >= np.abs(total_NG.sum(1))).mean(0)
    by_clip_N = np.array([over_clips(row).p_value for row in drawn])
    assert 0.7 < (np.maximum(extreme_N, by_clip_N) <= alpha).mean() < 0.93
    assert minimum_detectable_difference(clips, rate, 1e-9 / 2**subjects, subjects=subjects) == math.inf


@settings(max_examples=30)
@given(st.permutations(range(30)))
def test_paired_test_matches_clips_by_id(order):
    a, b = outcomes(12, 9, 3, 6)
    ids = np.arange(30) * 7
    straight = paired_test(ids, a, ids, b)
    assert paired_test(ids, a, ids[list(order)], b[list(order)]) == straight
    assert (straight.clips, straight.accuracy_a, straight.accuracy_b) == (30, 0.7, 0.5)
    assert straight.difference == pytest.approx(0.2)
    assert straight.p_value == pytest.approx(float(exact_p(9, 3)))


def test_verdict_names_the_better_one():
    a, b = outcomes(200, 60, 10, 30)
    ids = np.arange(300)
    assert paired_test(ids, a, ids, b, names=("slim", "untrained")).verdict.startswith(
        "slim is better than untrained by 16.7 points"
    )
    assert paired_test(ids, b, ids, a, names=("untrained", "slim")).verdict.startswith("slim is better than untrained")
    a, b = outcomes(200, 12, 10, 78)
    verdict = paired_test(ids, a, ids, b, names=("slim", "untrained")).verdict
    assert verdict.startswith("no significant difference between slim and untrained")
    assert "over 300 clips" in verdict
    assert "no significant difference" in paired_test(ids, a, ids, a).verdict


def test_paired_test_rejects_other_clips():
    right = np.ones(5, dtype=bool)
    with pytest.raises(SkelbenchError, match="share 4 test clips"):
        paired_test(np.arange(5), right, np.arange(1, 6), right)


def test_a_claim_rests_on_the_wider_interval_and_the_larger_p():
    """Clips of a subject that always go the same way are no evidence of their own."""
    ids, subjects = np.arange(200), np.arange(200) // 25
    a = np.isin(subjects, [0, 1, 2, 3, 4, 6])
    b = ~a
    test = paired_test(ids, a, ids, b, subjects_a=subjects)
    assert test.by_clip.p_value < 1e-9 and test.by_subject.p_value == pytest.approx(74 / 256)  # 6 or more of 8, or 2
    assert test.p_value == test.by_subject.p_value and test.interval == test.by_subject.interval
    assert test.by_subject.width > 2 * test.by_clip.width and test.over == "8 subjects" and not test.caution
    assert "over 8 subjects" in test.verdict and test.verdict.startswith("no significant difference")
    often = paired_test(ids, ids % 3 > 0, ids, ids % 3 == 1, subjects_a=ids // 2)  # clips are the wider here
    assert often.over == "200 clips" and often.verdict.count("200 clips") == 1
    alone = paired_test(ids, a, ids, b)
    assert alone.p_value == alone.by_clip.p_value and alone.over == "200 clips"
    assert "subjects are not known" in alone.caution
    one = paired_test(ids, a, ids, b, subjects_a=np.zeros(200, int))  # of data without subjects
    assert one.by_subject is None and one.interval == alone.interval
    rng = np.random.default_rng(0)
    mixed = rng.permutation(subjects)
    independent = paired_test(ids, a, ids, b, subjects_a=mixed)
    assert independent.interval == max((independent.by_clip, independent.by_subject), key=lambda x: x.width).interval


def test_the_interval_of_an_accuracy_is_over_subjects_if_wider():
    right, clips = np.array([20, 20, 20, 0, 20, 5, 20, 20]), np.full(8, 20)
    interval, over = accuracy_interval(125 / 160, 160, (right, clips))
    assert over == "8 subjects" and interval[1] - interval[0] > 0.3 and interval[0] < 125 / 160 < interval[1]
    even = np.full(8, 15)
    assert accuracy_interval(0.75, 160, (even, clips)) == (wilson(120, 160), "160 clips")
    assert accuracy_interval(0.75, 160) == (wilson(120, 160), "160 clips")
    assert accuracy_interval(0.75, 20, (even[:1], clips[:1]))[1] == "20 clips"
