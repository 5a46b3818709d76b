import math

import pytest
import torch

from skelbench.nn.losses import koleo, masked_mse, patch_standardise, token_uniformity


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


def test_koleo_is_float32_under_autocast():
    x = torch.randn(6, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(koleo(x), koleo(x.clone()))
        inside = koleo(x)
    assert inside.dtype == torch.float32 and torch.equal(inside, koleo(x))


def test_patch_standardise_by_loops():
    y = torch.randn(2, 3, 12, dtype=torch.float64) * 4 + 7
    out = patch_standardise(y)
    for token, standard in zip(y.view(-1, 12).tolist(), out.view(-1, 12).tolist()):
        mean = sum(token) / 12
        variance = sum((value - mean) ** 2 for value in token) / 11
        assert standard == pytest.approx([(value - mean) / math.sqrt(variance + 1e-6) for value in token])


def test_patch_standardise_of_a_still_body_is_zero():
    assert not patch_standardise(torch.full((1, 2, 12), 3.0)).any()


def test_masked_mse_by_loops():
    prediction, target = torch.randn(2, 2, 5, 3)
    mask = torch.tensor([[True, False, False, True, True], [False, True, False, False, False]])
    expected, hidden = 0.0, 0
    for r in range(2):
        for n in range(5):
            if mask[r, n]:
                expected += sum((prediction[r, n, l] - target[r, n, l]).item() ** 2 for l in range(3)) / 3
                hidden += 1
    total, count = masked_mse(prediction, target, mask)
    assert total.item() == pytest.approx(expected, rel=1e-5) and count.item() == hidden == 4


def test_token_uniformity_by_loops():
    x = torch.randn(2, 4, 5, dtype=torch.float64)
    for row, found in zip(x, token_uniformity(x)):
        cosines = [float(a @ b / (a.norm() * b.norm())) for a in row for b in row]
        assert found.item() == pytest.approx(sum(c**2 for c in cosines) / 16)


def test_token_uniformity_of_equal_and_of_orthogonal_tokens():
    x = torch.stack([torch.ones(3, 3), 5 * torch.eye(3)])
    assert token_uniformity(x).tolist() == pytest.approx([1.0, 1 / 3])
    with torch.autocast("cpu", torch.bfloat16):
        inside = token_uniformity(x)
    assert inside.dtype == torch.float32 and torch.equal(inside, token_uniformity(x))
