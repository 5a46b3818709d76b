import numpy as np
import pytest
import torch

from skelbench.models.decorrelation import barlow, covariance, cross_correlation, variance_hinge


@pytest.mark.parametrize("clips,width", [(12, 5), (5, 12), (2, 3)])
def test_losses_equal_sums_over_pairs_of_features(clips, width):
    generator = torch.Generator().manual_seed(clips)
    a, b = (torch.randn(clips, width, generator=generator, dtype=torch.float64) * 0.7 + 3 for _ in range(2))
    a[:, 0] = 1.5  # a feature that has collapsed
    expected = np.zeros((width, width))
    for i in range(width):
        for j in range(width):
            x, y = a[:, i].numpy(), b[:, j].numpy()
            expected[i, j] = ((x - x.mean()) * (y - y.mean())).mean() / np.sqrt((x.var() + 1e-5) * (y.var() + 1e-5))
    correlation = cross_correlation(a, b)
    assert np.allclose(correlation, expected, atol=1e-5)
    diagonal, off = np.diag(expected), expected[~np.eye(width, dtype=bool)]
    assert float(barlow(correlation, 0.1)) == pytest.approx(
        ((1 - diagonal) ** 2).sum() + 0.1 * (off**2).sum(), rel=1e-4
    )
    hinge = [max(0.0, 1 - np.sqrt(a[:, i].numpy().var(ddof=1) + 1e-4)) for i in range(width)]
    assert float(variance_hinge(a)) == pytest.approx(np.mean(hinge), rel=1e-4)
    table = np.cov(a.numpy().T)
    squares = sum(table[i, j] ** 2 for i in range(width) for j in range(width) if i != j)
    assert float(covariance(a)) == pytest.approx(squares / width, rel=1e-3, abs=1e-7)


def test_both_covariance_forms_have_equal_gradients():
    for clips, width in ((4, 9), (9, 4)):
        x = torch.randn(clips, width, generator=torch.Generator().manual_seed(1)).requires_grad_()
        table = torch.cov(x.T)
        direct = (table.square().sum() - table.diagonal().square().sum()) / width
        ours = torch.autograd.grad(covariance(x), x)[0]
        assert torch.allclose(ours, torch.autograd.grad(direct, x)[0], atol=1e-5)
