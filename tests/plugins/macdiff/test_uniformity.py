import pytest
import torch
from skelbench_plugins.macdiff.uniformity import token_uniformity


def test_token_uniformity_of_equal_and_of_orthogonal_tokens():
    x = torch.stack([torch.ones(3, 3), 5 * torch.eye(3)])
    assert token_uniformity(x).tolist() == pytest.approx([1.0, 1 / 3])
    with torch.autocast("cpu", torch.bfloat16):
        inside = token_uniformity(x)
    assert inside.dtype == torch.float32 and torch.equal(inside, token_uniformity(x))
