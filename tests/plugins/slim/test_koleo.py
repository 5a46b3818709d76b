import pytest
import torch
from skelbench_plugins.slim.koleo import koleo


def test_koleo_by_loops():
    x = torch.randn(9, 5, dtype=torch.float64, requires_grad=True)
    unit = [row / row.norm() for row in x]
    terms = [min((a - b).norm() for j, b in enumerate(unit) if j != i).log() for i, a in enumerate(unit)]
    expected = -sum(terms) / 9
    loss = koleo(x)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(
        torch.autograd.grad(loss, x)[0], torch.autograd.grad(expected, x)[0], rtol=1e-5, atol=1e-6
    )


def test_koleo_pushes_neighbours_apart_and_survives_twins():
    x = torch.tensor([[1.0, 0.0], [1.0, 0.05], [0.0, 1.0]], requires_grad=True)
    (grad,) = torch.autograd.grad(koleo(x), x)
    assert grad[1, 1] < 0 < grad[0, 1]
    twins = torch.ones(4, 3, requires_grad=True)
    loss = koleo(twins)
    assert torch.isfinite(loss) and torch.isfinite(torch.autograd.grad(loss, twins)[0]).all()


@pytest.mark.parametrize("rows", [0, 1])
def test_koleo_of_fewer_than_two_rows_is_zero(rows):
    x = torch.randn(rows, 3, requires_grad=True)
    loss = koleo(x)
    loss.backward()
    assert loss.item() == 0.0 and not x.grad.any()
