import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.errors import SkelbenchError
from skelbench.evaluate.statistics import (
    holm,
    mcnemar,
    minimum_detectable_difference,
    paired_bootstrap,
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


def test_wilson_of_nothing_and_of_nonsense():
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(7, 7)[1] == 1.0
    with pytest.raises(ValueError):
        wilson(8, 7)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 5))
def test_mcnemar_is_the_exact_binomial_sum(b, c, both):
    a_right, b_right = outcomes(both, b, c, 1)
    assert mcnemar(a_right, b_right) == (b, c, pytest.approx(float(exact_p(b, c)), rel=1e-9))


def test_mcnemar_stays_exact_for_thousands_of_clips():
    a, b = outcomes(4000, 2100, 1900, 2000)
    assert mcnemar(a, b)[2] == pytest.approx(float(exact_p(2100, 1900)), rel=1e-8)


def test_bootstrap_equals_resampling_clip_by_clip():
    a, b = outcomes(60, 25, 10, 5)
    rng = np.random.default_rng(1)
    index = rng.integers(0, 100, size=(20_000, 100))
    naive = a[index].mean(1) - b[index].mean(1)
    difference, low, high = paired_bootstrap(a, b, seed=3, n=20_000)
    assert difference == pytest.approx(0.15)
    assert (low, high) == pytest.approx(tuple(np.quantile(naive, [0.025, 0.975])), abs=0.0101)  # one clip
    shuffled = rng.permutation(100)
    assert paired_bootstrap(a[shuffled], b[shuffled], seed=3, n=20_000) == (difference, low, high)
    assert paired_bootstrap(b, a, seed=3)[0] == -difference


def test_bootstrap_has_the_variance_of_the_paired_difference():
    a, b = outcomes(3000, 900, 600, 1500)
    difference, low, high = paired_bootstrap(a, b, seed=0)
    standard_error = (a.astype(float) - b).std() / math.sqrt(len(a))
    assert (high - low) / 2 == pytest.approx(1.96 * standard_error, rel=0.05)
    assert (high + low) / 2 == pytest.approx(difference, abs=0.2 * standard_error)


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


def test_holm_known_values():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize("n, rate", [(400, 0.2), (1900, 0.1), (16487, 0.05)])
def test_minimum_detectable_difference_has_the_promised_power(n, rate):
    d = minimum_detectable_difference(n, rate)
    rng = np.random.default_rng(0)
    cells = rng.multinomial(n, [(rate + d) / 2, (rate - d) / 2, 1 - rate], size=20_000)
    z = (cells[:, 0] - cells[:, 1]) / np.sqrt(cells[:, 0] + cells[:, 1])
    assert (np.abs(z) > 1.959964).mean() == pytest.approx(0.8, abs=0.015)


def test_minimum_detectable_difference_limits():
    assert minimum_detectable_difference(100, 0.0) == math.inf
    assert minimum_detectable_difference(10, 0.1) == math.inf
    assert minimum_detectable_difference(3, 1.0) == math.inf
    assert minimum_detectable_difference(4000, 0.1) < minimum_detectable_difference(1000, 0.1)


@settings(max_examples=30)
@given(st.permutations(range(30)))
def test_paired_test_matches_clips_by_id(order):
    a, b = outcomes(12, 9, 3, 6)
    ids = np.arange(30) * 7
    straight = paired_test(ids, a, ids, b)
    assert paired_test(ids, a, ids[list(order)], b[list(order)]) == straight
    assert (straight.n, straight.accuracy_a, straight.accuracy_b) == (30, 0.7, 0.5)
    assert straight.difference == pytest.approx(0.2)
    assert straight.p_value == pytest.approx(float(exact_p(9, 3)))


def test_verdict_names_the_better_one_or_says_what_it_would_take():
    a, b = outcomes(200, 60, 10, 30)
    ids = np.arange(300)
    assert paired_test(ids, a, ids, b, names=("slim", "untrained")).verdict.startswith(
        "slim is better than untrained by 16.7 points"
    )
    assert paired_test(ids, b, ids, a, names=("untrained", "slim")).verdict.startswith("slim is better than untrained")
    a, b = outcomes(200, 12, 10, 78)
    verdict = paired_test(ids, a, ids, b, names=("slim", "untrained")).verdict
    assert verdict.startswith("no difference shown between slim and untrained")
    assert f"at least {100 * minimum_detectable_difference(300, 22 / 300):.1f} points" in verdict
    assert "no difference shown" in paired_test(ids, a, ids, a).verdict


def test_paired_test_refuses_other_clips():
    right = np.ones(5, dtype=bool)
    with pytest.raises(SkelbenchError, match="share 4 test clips"):
        paired_test(np.arange(5), right, np.arange(1, 6), right)
    with pytest.raises(SkelbenchError, match="share 5 test clips"):
        paired_test(np.arange(5), right, np.arange(6), np.ones(6, dtype=bool))
    with pytest.raises(SkelbenchError, match="several predictions for the same clip"):
        paired_test(np.array([0, 1, 2, 3, 3]), right, np.arange(5), right)
    with pytest.raises(SkelbenchError, match="5 clip ids for 4 predictions"):
        paired_test(np.arange(5), right[:4], np.arange(5), right)
    with pytest.raises(SkelbenchError):
        paired_test(np.arange(0), right[:0], np.arange(0), right[:0])


def test_statistics_need_neither_torch_nor_scipy():
    code = "import sys, skelbench.evaluate.statistics;sys.exit(any(m in sys.modules for m in ('torch', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
