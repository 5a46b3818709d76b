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


def test_the_gradient_is_finite_after_a_collapse_and_for_one_sample():
    for z in (torch.ones(5, 3, requires_grad=True), torch.ones(1, 3, requires_grad=True)):
        out = spread(z)
        (out.variance + out.covariance).backward()
        assert torch.isfinite(z.grad).all() and float(out.std) == 0.0
        assert out.variance.item() == pytest.approx(1 - 1e-2)
