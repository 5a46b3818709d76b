"""Small losses and targets shared by methods. Shapes: R rows, N tokens, L values per token, D width."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from skelbench.nn.precision import no_autocast


def koleo(x_RD: Tensor, eps: float = 1e-8) -> Tensor:
    """Minus the mean log distance of each unit-normalised row to its nearest other row (Kozachenko-Leonenko).

    Spreads features over the sphere. One view at a time: two views of a clip must not be each other's neighbours.
    Computed in float32; zero for fewer than two rows. Source: DINOv2.
    """
    x_RD = F.normalize(x_RD.to(torch.promote_types(x_RD.dtype, torch.float32)), dim=-1, eps=eps)
    if x_RD.shape[0] < 2:
        return x_RD.sum() * 0.0
    with torch.no_grad(), no_autocast(x_RD):
        nearest_R = (x_RD @ x_RD.t()).fill_diagonal_(-2.0).argmax(1)
    return -(F.pairwise_distance(x_RD, x_RD[nearest_R], eps=eps) + eps).log().mean()


def patch_standardise(y_RNL: Tensor) -> Tensor:
    """Each token's values minus their mean, over sqrt(unbiased variance + 1e-6) (MAE's normalised targets)."""
    variance, mean = torch.var_mean(y_RNL, dim=-1, keepdim=True)
    return (y_RNL - mean) * (variance + 1e-6).rsqrt()


def masked_mse(prediction_RNL: Tensor, target_RNL: Tensor, mask_RN: Tensor) -> tuple[Tensor, Tensor]:
    """Squared error over hidden tokens (``mask_RN`` True), mean over a token's values: its sum and the token count.

    Sum and count rather than their ratio, so that ``step.mean(*masked_mse(...))`` is right over many processes.
    """
    error_RN = (prediction_RNL.to(target_RNL.dtype) - target_RNL).square().mean(-1)
    return (error_RN * mask_RN).sum(), mask_RN.sum()


def token_uniformity(x_RKD: Tensor) -> Tensor:
    """[R]: mean squared cosine between all pairs of a row's tokens, each with itself included, in float32.

    1 when all tokens point the same way, 1 / K when all are at right angles (MacDiff's code).
    """
    x_RKD = F.normalize(x_RKD.to(torch.promote_types(x_RKD.dtype, torch.float32)), dim=-1)
    with no_autocast(x_RKD):
        return (x_RKD @ x_RKD.mT).square().mean((1, 2))
