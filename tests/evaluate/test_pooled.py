"""Figures over tasks, against slow and obvious versions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, trim_mean

from skelbench.evaluate.pooled import iqm, probability_of_improvement

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
    found = probability_of_improvement(a, b, n=20).value
    assert found == pytest.approx(np.mean(u))
    assert probability_of_improvement(b, a, n=20).value == pytest.approx(1 - found)


def test_intervals_are_over_seeds_within_tasks():
    """Against resampling every task's seeds in a loop."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.3, 1, (6, 4)), rng.normal(0, 1, (6, 5))
    means, shares = [], []
    for _ in range(3000):
        x, y = ([rng.choice(task, len(task)) for task in side] for side in (a, b))
        means.append(trim_mean(np.concatenate(x), 0.25))
        above = [np.mean((u[:, None] > v) + 0.5 * (u[:, None] == v)) for u, v in zip(x, y)]
        shares.append(np.mean(above))
    assert iqm(list(a)).interval == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.03)
    found = probability_of_improvement(list(a), list(b))
    assert found.interval == pytest.approx(np.quantile(shares, [0.025, 0.975]), abs=0.02)
    assert iqm(list(a)) == iqm(list(a))


def test_tasks_without_spread_have_no_interval():
    same = [np.full(3, value) for value in (0.5, 0.6, 0.7, 0.8)]
    assert iqm(same).interval == pytest.approx((0.65, 0.65)) and iqm(same).value == pytest.approx(0.65)
    assert probability_of_improvement(same, same).interval == (0.5, 0.5)
    with pytest.raises(ValueError, match="4 tasks, B has 3"):
        probability_of_improvement(same, same[:3])
