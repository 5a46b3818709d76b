import pytest
import torch
from skelbench_plugins.gfp.vicreg import spread


def slow(rows, gamma, eps):
    """VICReg's two terms, entry by entry."""
    n, channels = len(rows), len(rows[0])
    mean = [sum(row[c] for row in rows) / n for c in range(channels)]
    cov = [
        [sum((row[a] - mean[a]) * (row[b] - mean[b]) for row in rows) / (n - 1) for b in range(channels)]
        for a in range(channels)
    ]
    variance = sum(max(0.0, gamma - (cov[c][c] + eps) ** 0.5) for c in range(channels)) / channels
    covariance = sum(cov[a][b] ** 2 for a in range(channels) for b in range(channels) if a != b) / channels
    return variance, covariance, sum(cov[c][c] ** 0.5 for c in range(channels)) / channels


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_both_terms_by_loops(scale):
    z = scale * torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 5
    out = spread(z, gamma=1.2, eps=1e-3)
    assert [float(value) for value in out] == pytest.approx(slow(z.tolist(), 1.2, 1e-3))


def test_gradient_pushes_a_collapsed_channel_apart_and_leaves_a_wide_one_alone():
    z = torch.tensor([[0.01, 5.0], [-0.01, -5.0], [0.0, 5.0], [0.0, -5.0]], requires_grad=True)
    (grad,) = torch.autograd.grad(spread(z).variance, z)
    assert grad[0, 0] < 0 < grad[1, 0] and not grad[:, 1].any()


def test_copies_of_one_channel_covary_and_independent_ones_do_not():
    sign = torch.tensor([1.0, 1.0, -1.0, -1.0])
    other = torch.tensor([1.0, -1.0, 1.0, -1.0])
    assert float(spread(torch.stack([sign, other], 1)).covariance) == pytest.approx(0.0, abs=1e-7)
    assert float(spread(torch.stack([sign, sign], 1)).covariance) == pytest.approx((4 / 3) ** 2)


def test_the_gradient_is_finite_after_a_collapse_and_for_one_sample():
    for z in (torch.ones(5, 3, requires_grad=True), torch.ones(1, 3, requires_grad=True)):
        out = spread(z)
        (out.variance + out.covariance).backward()
        assert torch.isfinite(z.grad).all() and float(out.std) == 0.0
        assert out.variance.item() == pytest.approx(1 - 1e-2)


def test_it_is_float32_under_autocast():
    z = torch.randn(20, 4)
    with torch.autocast("cpu", torch.bfloat16):
        inside = spread(z)
    assert torch.equal(inside.covariance, spread(z).covariance) and inside.covariance.dtype == torch.float32
