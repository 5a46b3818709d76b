"""The paired test of two settings over several seeds, against going through every sign flip."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skelbench.evaluation.stats.paired import mcnemar, seeds_test

OUTCOMES = st.tuples(st.just(2), st.integers(1, 3), st.integers(1, 8)).flatmap(lambda shape: arrays(bool, shape))


def every_flip(a_SC: np.ndarray, b_SC: np.ndarray) -> float:
    """Share of all 2^C assignments of signs to clips that make the summed difference at least as large."""
    d_C = a_SC.astype(int).sum(0) - b_SC.astype(int).sum(0)
    totals = [abs(np.dot(signs, d_C)) for signs in itertools.product((-1, 1), repeat=len(d_C))]
    return float(np.mean(np.array(totals) >= abs(d_C.sum())))


@settings(max_examples=60)
@given(OUTCOMES)
def test_p_is_the_share_of_sign_flips(case):
    a_SC, b_SC = case
    test = seeds_test(a_SC, b_SC)
    assert test.p_value == pytest.approx(every_flip(a_SC, b_SC), abs=1e-12)
    assert test.difference == pytest.approx(a_SC.mean() - b_SC.mean())
    mirrored = seeds_test(b_SC, a_SC)
    assert mirrored.p_value == pytest.approx(test.p_value) and mirrored.difference == pytest.approx(-test.difference)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=300))
def test_of_one_seed_it_is_mcnemars(pairs):
    a_C, b_C = np.array(pairs).T
    assert seeds_test(a_C[None], b_C[None]).p_value == pytest.approx(mcnemar(a_C, b_C)[2], rel=1e-9)


def test_seeds_that_agree_are_no_further_clips():
    """Seeds with the same outcomes add nothing: p and interval stay, as they would not if clips were pooled."""
    rng = np.random.default_rng(0)
    a_C, b_C = rng.random(200) < 0.6, rng.random(200) < 0.5
    one, three = seeds_test(a_C[None], b_C[None]), seeds_test(np.stack([a_C] * 3), np.stack([b_C] * 3))
    assert three.p_value == pytest.approx(one.p_value) and three.interval == pytest.approx(one.interval)
    assert one.spread is None and three.spread == 0
    pooled = mcnemar(np.tile(a_C, 3), np.tile(b_C, 3))[2]
    assert pooled < one.p_value / 5


def test_draws_count_as_their_mean():
    rng = np.random.default_rng(3)
    a_SDC, b_SDC = rng.random((2, 3, 80)) < 0.7, rng.random((2, 2, 80)) < 0.6
    test = seeds_test(a_SDC, b_SDC)
    per_seed = a_SDC.mean((1, 2)) - b_SDC.mean((1, 2))
    assert test.difference == pytest.approx(per_seed.mean()) and test.spread == pytest.approx(per_seed.std(ddof=1))
    assert (test.seeds, test.clips) == (2, 80) and test.half_width == pytest.approx(12.7062 * test.spread / 2**0.5)
    same = seeds_test(np.repeat(a_SDC[:, :1], 3, 1), b_SDC[:, 0])
    assert same.p_value == pytest.approx(seeds_test(a_SDC[:, 0], b_SDC[:, 0]).p_value)
