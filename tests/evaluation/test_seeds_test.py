"""The paired test of two settings over several seeds, against going through every sign flip."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from skelbench.evaluation.stats.bootstrap import over_subjects
from skelbench.evaluation.stats.paired import seeds_test

OUTCOMES = st.tuples(st.just(2), st.integers(1, 3), st.integers(1, 8)).flatmap(lambda shape: arrays(bool, shape))


def every_flip(a_SC: np.ndarray, b_SC: np.ndarray) -> float:
    """Share of all 2^C assignments of signs to clips that make the summed difference at least as large."""
    d_C = a_SC.astype(int).sum(0) - b_SC.astype(int).sum(0)
    totals = [abs(np.dot(signs, d_C)) for signs in itertools.product((-1, 1), repeat=len(d_C))]
    return float(np.mean(np.array(totals) >= abs(d_C.sum())))


@settings(max_examples=60)
@given(OUTCOMES)
def test_p_is_the_fraction_of_sign_flips(case):
    a_SC, b_SC = case
    test = seeds_test(a_SC, b_SC)
    assert test.p_value == pytest.approx(every_flip(a_SC, b_SC), abs=1e-12)
    assert test.difference == pytest.approx(a_SC.mean() - b_SC.mean())
    mirrored = seeds_test(b_SC, a_SC)
    assert mirrored.p_value == pytest.approx(test.p_value) and mirrored.difference == pytest.approx(-test.difference)


def test_agreeing_seeds_do_not_count_as_further_clips():
    """Seeds with the same outcomes add nothing: p and interval stay, as they would not if clips were pooled."""
    rng = np.random.default_rng(0)
    a_C, b_C = rng.random(200) < 0.6, rng.random(200) < 0.5
    one, three = seeds_test(a_C[None], b_C[None]), seeds_test(np.stack([a_C] * 3), np.stack([b_C] * 3))
    assert three.p_value == pytest.approx(one.p_value) and three.interval == pytest.approx(one.interval)
    assert one.spread is None and three.spread == 0
    pooled = seeds_test(np.tile(a_C, 3)[None], np.tile(b_C, 3)[None]).p_value
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


def made(rng, seeds: int, of_seeds: float, subjects: int = 12, clips: int = 20) -> tuple[np.ndarray, ...]:
    """Outcomes of A and B, and subjects. A is 5 points better, by subjects and, with this deviation, by seeds."""
    subject_C = np.repeat(np.arange(subjects), clips)
    better_SC = 0.05 + rng.normal(0, of_seeds, (seeds, 1)) + rng.normal(0, 0.05, subjects)[subject_C]
    base_C = rng.uniform(0.25, 0.75, len(subject_C))
    return rng.random(better_SC.shape) < base_C + better_SC, rng.random(better_SC.shape) < base_C, subject_C


def one_by_one(a_SC: np.ndarray, b_SC: np.ndarray, subject_C: np.ndarray, n: int) -> tuple[float, float]:
    """The interval over seeds and subjects, resample by resample."""
    (seeds, _), groups = a_SC.shape, len(np.unique(subject_C))
    people, trainings, means = np.random.default_rng(0), np.random.default_rng(1), []
    for _ in range(n):
        often_G = people.multinomial(groups, [1 / groups] * groups)
        often_S = trainings.multinomial(seeds, [1 / seeds] * seeds)
        clips = [clip for group, often in enumerate(often_G) for clip in [*np.flatnonzero(subject_C == group)] * often]
        drawn = [seed for seed, often in enumerate(often_S) for _ in range(often)]
        means.append(np.mean([float(a_SC[seed, clip]) - b_SC[seed, clip] for seed in drawn for clip in clips]))
    tail = stats.norm.cdf(-((groups / (groups - 1)) ** 0.5) * stats.t.ppf(0.975, groups - 1))
    return tuple(np.quantile(means, [tail, 1 - tail]))


def test_from_three_seeds_on_the_interval_is_over_seeds_too():
    a_SC, b_SC, subject_C = made(np.random.default_rng(5), 3, 0.05, subjects=7, clips=4)
    test = seeds_test(a_SC, b_SC, n=200, subject_C=subject_C)
    assert test.by_subject.interval == pytest.approx(one_by_one(a_SC, b_SC, subject_C, 200))
    assert test.by_clip.interval == pytest.approx(seeds_test(a_SC, b_SC, n=200).interval)
    assert test.over == f"3 seeds and {test.wider}" and not test.holds_over_seeds
    two = seeds_test(a_SC[:2], b_SC[:2], n=200, subject_C=subject_C)
    assert two.over == str(two.wider) and two.holds_over_seeds


@pytest.mark.parametrize(("seeds", "of_seeds"), [(3, 0.0), (3, 0.06), (6, 0.06)])
def test_the_interval_over_seeds_covers_the_true_difference(seeds, of_seeds):
    rng, covered, of_these_trainings = np.random.default_rng(0), [], []
    for _ in range(120):
        a_SC, b_SC, subject_C = made(rng, seeds, of_seeds)
        test = seeds_test(a_SC, b_SC, n=500, subject_C=subject_C)
        covered.append(test.interval[0] < 0.05 < test.interval[1])
        mean_C = (a_SC.mean(0) - b_SC.mean(0)) * seeds
        low, high = over_subjects(np.rint(mean_C).astype(int), subject_C, seeds, n=500).interval
        of_these_trainings.append(low < 0.05 < high)
    assert np.mean(covered) > 0.9
    assert of_seeds == 0 or np.mean(of_these_trainings) < 0.9


def test_six_seeds_or_more_affect_p():
    rng = np.random.default_rng(0)
    b_SC = rng.random((6, 400)) < 0.3
    assert seeds_test(b_SC | (rng.random(b_SC.shape) < 0.3), b_SC).p_value == pytest.approx(2 / 2**6)
    assert seeds_test(b_SC[:5] | (rng.random((5, 400)) < 0.3), b_SC[:5]).p_value < 1e-6
