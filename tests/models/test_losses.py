import math

import pytest
import torch

from skelbench.models.losses import masked_mse, patch_standardize


def test_patch_standardize_by_loops():
    y = torch.randn(2, 3, 12, dtype=torch.float64) * 4 + 7
    out = patch_standardize(y)
    for token, standard in zip(y.view(-1, 12).tolist(), out.view(-1, 12).tolist()):
        mean = sum(token) / 12
        variance = sum((value - mean) ** 2 for value in token) / 11
        assert standard == pytest.approx([(value - mean) / math.sqrt(variance + 1e-6) for value in token])


def test_patch_standardize_of_a_still_body_is_zero():
    assert not patch_standardize(torch.full((1, 2, 12), 3.0)).any()


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
