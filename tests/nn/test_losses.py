"""The formulas themselves are spelled out in tests/plugins/mamp."""

import torch

from skelbench.nn.losses import patch_standardise


def test_patch_standardise_of_a_still_body_is_zero():
    assert not patch_standardise(torch.full((1, 2, 12), 3.0)).any()
