"""Variance and covariance terms that keep learned targets from collapsing (VICReg, Bardes et al., ICLR 2022).

Shapes: n samples, D channels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from skelbench.core.distributed import all_reduce_sum, global_sum
from skelbench.models.precision import no_autocast


class Spread(NamedTuple):
    """Spread of samples over their channels; scalars."""

    variance: Tensor
    """Mean over channels of max(0, gamma - sqrt(variance + eps))."""
    covariance: Tensor
    """Sum of the squared covariances between different channels, over D."""
    std: Tensor
    """Mean standard deviation of a channel, without gradient: 0 after a collapse."""


def spread(z_nD: Tensor, gamma: float = 1.0, eps: float = 1e-4) -> Spread:
    """Both terms over the samples of all ranks, with the unbiased (co)variance, in at least float32.

    Every rank gets the global value and, after DDP's averaging, its gradient. A single sample has no variance.
    """
    z_nD = z_nD.to(torch.promote_types(z_nD.dtype, torch.float32))
    with no_autocast(z_nD):
        count = all_reduce_sum(z_nD.new_full((), z_nD.shape[0]))
        # The mean minimizes the sum of products, so it needs no gradient.
        apart_nD = z_nD - all_reduce_sum(z_nD.detach().sum(0)) / count
        covariance_DD = global_sum(apart_nD.T @ apart_nD) / (count - 1).clamp_min(1.0)
        variance_D = covariance_DD.diagonal()
        between = covariance_DD.square().sum() - variance_D.square().sum()
    return Spread(
        (gamma - (variance_D + eps).sqrt()).relu().mean(), between / z_nD.shape[1], variance_D.detach().sqrt().mean()
    )
