"""Figures over tasks, against slow and obvious versions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, norm, t, trim_mean

from skelbench.evaluation.stats.aggregate import iqm, probability_of_improvement

TASKS = st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=4), min_size=1, max_size=6)


def arrays(tasks):
    return [np.array(task, float) for task in tasks]


@given(TASKS)
def test_iqm_is_the_trimmed_mean_of_all_seeds(tasks):
    found = iqm(arrays(tasks), n=20)
    assert found.value == pytest.approx(trim_mean(np.concatenate(arrays(tasks)), 0.25))


@given(TASKS, TASKS)
def test_probability_of_improvement_is_mann_whitneys_u(one, other):
    tasks = min(len(one), len(other))
    a, b = arrays(one[:tasks]), arrays(other[:tasks])
    u = [mannwhitneyu(x, y, method="asymptotic").statistic / (len(x) * len(y)) for x, y in zip(a, b)]
    found = probability_of_improvement(a, b).value
    assert found == pytest.approx(np.mean(u))
    assert probability_of_improvement(b, a).value == pytest.approx(1 - found)


def test_the_iqm_is_resampled_within_tasks():
    """Against resampling every task's seeds in a loop, at the expanded quantiles."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0.3, 1, (6, 4))
    means = []
    for _ in range(2000):
        means.append(trim_mean(np.concatenate([rng.choice(task, 4) for task in scores]), 0.25))
    tail = norm.cdf(-np.sqrt(4 / 3) * t.ppf(0.975, 18))
    assert iqm(list(scores)).interval == pytest.approx(np.quantile(means, [tail, 1 - tail]), abs=0.06)
    assert iqm(list(scores)) == iqm(list(scores))


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=5), st.randoms())
def test_probabilities_that_the_data_contradict_are_outside_the_interval(sizes, random):
    """By the formula of the variance written out, on a grid of chances."""
    a, b = ([np.array([random.gauss(0, 1) for _ in range(size)]) for size in side] for side in zip(*sizes))
    found = probability_of_improvement(a, b)
    chance = np.linspace(0, 1, 2001)
    variance = (
        sum(
            chance
            * (1 - chance)
            * (1 + ((m + n) / 2 - 1) * ((1 - chance) / (2 - chance) + chance / (1 + chance)))
            / (m * n)
            for m, n in sizes
        )
        / len(sizes) ** 2
    )
    inside = chance[np.abs(found.value - chance) <= norm.ppf(0.975) * np.sqrt(variance)]
    ends = (min(inside.min(initial=found.value), found.value), max(inside.max(initial=found.value), found.value))
    assert found.interval == pytest.approx(ends, abs=1e-3)
