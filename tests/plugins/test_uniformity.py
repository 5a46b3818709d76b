import pytest
import torch
from skelbench_plugins._diffusion import token_uniformity


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
