"""Resampling of clips and of whole subjects, against resampling one by one and against made data with known truth."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.evaluation.stats.bootstrap import design_effect, over_clips, over_subjects, sign_flips


def d_of(both: int, only_a: int, only_b: int) -> np.ndarray:
    return np.array([0] * both + [1] * only_a + [-1] * only_b)


def test_resampling_of_clips_equals_a_loop():
    d_C = d_of(65, 25, 10)
    rng = np.random.default_rng(1)
    naive = d_C[rng.integers(0, 100, (20_000, 100))].mean(1)
    found = over_clips(d_C, n=20_000)
    assert found.interval == pytest.approx(tuple(np.quantile(naive, [0.025, 0.975])), abs=0.0101)  # one clip
    assert over_clips(rng.permutation(d_C), n=20_000) == found and str(found) == "100 clips"
    assert over_clips(3 * d_C, unit=3, n=20_000).interval == pytest.approx(found.interval)


def test_subjects_are_resampled_whole():
    """Against a loop that draws subjects and puts their clips together, at the expanded quantiles."""
    from scipy.stats import norm, t

    rng = np.random.default_rng(2)
    subject_C = rng.integers(0, 7, 90) * 3
    d_C = rng.integers(-2, 3, 90) + (subject_C == 3)
    clips = {subject: d_C[subject_C == subject] for subject in np.unique(subject_C)}
    names = list(clips)
    naive = [np.concatenate([clips[s] for s in rng.choice(names, 7)]).mean() / 2 for _ in range(6000)]
    tail = norm.cdf(-np.sqrt(7 / 6) * t.ppf(0.975, 6))
    found = over_subjects(d_C, subject_C, unit=2, n=20_000)
    assert found.interval == pytest.approx(np.quantile(naive, [tail, 1 - tail]), abs=0.04)
    assert (found.over, found.count) == ("subjects", 7)
    order = rng.permutation(90)
    assert over_subjects(d_C[order], subject_C[order], unit=2, n=20_000) == found


@settings(max_examples=60)
@given(st.lists(st.integers(-40, 40), min_size=2, max_size=9))
def test_p_over_subjects_is_the_fraction_of_sign_flips(totals):
    flips = [abs(np.dot(signs, totals)) for signs in itertools.product((-1, 1), repeat=len(totals))]
    exact = float(np.mean(np.array(flips) >= abs(sum(totals))))
    found = over_subjects(np.array(totals), np.arange(len(totals)), n=50)
    assert found.p_value == pytest.approx(exact, abs=1e-12)
    assert sign_flips(*np.unique(totals, return_counts=True)) == pytest.approx(exact, abs=1e-12)


def made(rng: np.random.Generator, subjects: int, clips: int, between: float) -> tuple[np.ndarray, np.ndarray]:
    """Differences of outcomes with mean 0.05 where each subject has a mean of its own."""
    subject_C = np.repeat(np.arange(subjects), clips)
    mean_C = (0.05 + between * rng.normal(size=subjects))[subject_C]
    up, down = np.clip(0.2 + mean_C / 2, 0, 1), np.clip(0.2 - mean_C / 2, 0, 1)
    u = rng.random(len(subject_C))
    return (u < up).astype(int) - (u > 1 - down).astype(int), subject_C


def test_design_effect_equals_the_cluster_formula():
    """1 + (m - 1) rho for m equally correlated clips of each subject; 1 for one subject, and where nothing differs."""
    rng = np.random.default_rng(6)
    effects = []
    for _ in range(40):
        d_C, subject_C = made(rng, 100, 30, between=0.12)
        effects.append(design_effect(d_C, subject_C))
    variance, between = 0.4 - 0.05**2, 0.12**2
    assert np.mean(effects) == pytest.approx(1 + 29 * between / variance, rel=0.1)
    assert design_effect(np.array([1, 0]), np.zeros(2)) == 1 == design_effect(np.zeros(4), np.arange(4))
