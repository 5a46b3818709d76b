"""Effective rank against the formula spelled out, and its properties."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.models.rank import effective_rank, sample_rows


def literal(x_nD):
    """The paper's formula on the singular values of a full decomposition, term by term."""
    sigma = torch.linalg.svd(x_nD.double(), full_matrices=False).S.tolist()
    shares = [value / sum(sigma) for value in sigma]
    return math.exp(-sum(q * math.log(q) for q in shares if q > 0))


def features(n, D, seed=0, decay=0.0, dtype=torch.float64):
    """Gaussian features whose channels fade by ``decay`` powers of ten from first to last."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(n, D, generator=generator, dtype=torch.float64) * torch.logspace(0, -decay, D)).to(dtype)


sizes = st.integers(1, 12)
seeds = st.integers(0, 999)


@settings(max_examples=20, deadline=None)
@given(n=sizes, D=sizes, seed=seeds, decay=st.floats(0, 5))
def test_effective_rank_is_the_formula(n, D, seed, decay):
    x = features(n, D, seed, decay)
    assert float(effective_rank(x)) == pytest.approx(literal(x), rel=1e-6)
    if n > 1:
        assert float(effective_rank(x, centered=True)) == pytest.approx(literal(x - x.mean(0)), rel=1e-6)


@pytest.mark.parametrize("shape", [(1024, 96), (40, 200), (300, 300)])
@pytest.mark.parametrize("decay", [0, 3, 7])
def test_the_gram_matrix_is_accurate_enough(shape, decay):
    """Float32 features, spectra over seven powers of ten: within what the docstring says, and far within any rule."""
    x = features(*shape, decay=decay, dtype=torch.float32)
    assert abs(math.log(float(effective_rank(x)) / literal(x))) < min(shape) * 1e-6


@pytest.mark.parametrize("centered", [False, True])
def test_empty_and_zero_features_have_rank_zero(centered):
    broken = features(4, 3)
    broken[1, 2] = math.nan
    endless = features(4, 3)
    endless[0, 0] = math.inf
    for x in (torch.zeros(4, 3), torch.zeros(0, 3), torch.zeros(3, 0), broken, endless):
        assert float(effective_rank(x, centered=centered)) == 0.0
    assert float(effective_rank(torch.ones(5, 3), centered=True)) == 0.0
    assert float(effective_rank(features(4, 3) * 1e-300)) == pytest.approx(literal(features(4, 3)))


@given(n=st.integers(0, 5000), most=st.integers(1, 300))
@settings(max_examples=20, deadline=None)
def test_sampled_rows_are_spread_over_all(n, most):
    rows = sample_rows(torch.arange(n).unsqueeze(1), most)[:, 0]
    assert len(rows) == min(n, most)
    if n > most:
        stretch = (rows.double() * most / n).long()  # up to rounding: row k comes from stretch k
        assert (rows.diff() >= 0).all() and ((stretch - torch.arange(most)).abs() <= 1).all()
    else:
        assert torch.equal(rows, torch.arange(n))
