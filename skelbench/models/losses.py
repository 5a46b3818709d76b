"""Losses and targets of masked autoencoders. Shapes: R rows, N tokens, L values per token."""

from __future__ import annotations

import torch
from torch import Tensor


def patch_standardize(y_RNL: Tensor) -> Tensor:
    """Each token's values minus their mean, over sqrt(unbiased variance + 1e-6) (MAE's normalized targets).

    >>> patch_standardize(torch.tensor([[[1.0, 3.0]]]))
    tensor([[[-0.7071,  0.7071]]])
    """
    variance, mean = torch.var_mean(y_RNL, dim=-1, keepdim=True)
    return (y_RNL - mean) * (variance + 1e-6).rsqrt()


def masked_mse(prediction_RNL: Tensor, target_RNL: Tensor, mask_RN: Tensor) -> tuple[Tensor, Tensor]:
    """Squared error over masked tokens (``mask_RN`` True), mean over a token's values: its sum and the token count.

    Sum and count rather than their ratio, so that ``step.mean(*masked_mse(...))`` is right over many processes.

    >>> hidden = torch.tensor([[True, True, False]])
    >>> masked_mse(torch.zeros(1, 3, 2), torch.full((1, 3, 2), 2.0), hidden)
    (tensor(8.), tensor(2))
    """
    error_RN = (prediction_RNL.to(target_RNL.dtype) - target_RNL).square().mean(-1)
    return (error_RN * mask_RN).sum(), mask_RN.sum()
