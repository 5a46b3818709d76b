"""Losses that compare features over a batch: Barlow Twins and VICReg.

B clips, E width. All take embeddings of the *global* batch (``step.gather(x, gradient=True)``), so that every
process computes the same loss from the same statistics, in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from skelbench.models.precision import no_autocast


def cross_correlation(a_BE: Tensor, b_BE: Tensor, eps: float = 1e-5) -> Tensor:
    """float32 [E, E]: correlation over the batch of each feature of ``a`` with each of ``b``.

    Features are standardized by the batch (biased variance + ``eps``), as batch norm without affine does; no running
    statistics are kept, as none are used.

    >>> x_BE = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    >>> cross_correlation(x_BE, x_BE).round(decimals=3).abs()
    tensor([[1., 0.],
            [0., 1.]])
    """
    a_BE, b_BE = (_standardized(x.float(), eps) for x in (a_BE, b_BE))
    with no_autocast(a_BE):
        return a_BE.T @ b_BE / len(a_BE)


def barlow(correlation_EE: Tensor, off_diagonal: float) -> Tensor:
    """Scalar: sum (1 - C_ii)^2 + ``off_diagonal`` x sum C_ij^2 (Zbontar et al., arXiv 2103.03230).

    >>> barlow(torch.eye(3), off_diagonal=0.005)
    tensor(0.)
    """
    diagonal_E = correlation_EE.diagonal()
    return (1 - diagonal_E).square().sum() + off_diagonal * (correlation_EE.square().sum() - diagonal_E.square().sum())


def variance_hinge(x_BE: Tensor, eps: float = 1e-4) -> Tensor:
    """Scalar: mean over features of max(0, 1 - sqrt(unbiased variance + ``eps``)) (VICReg, Bardes et al., arXiv
    2105.04906).

    >>> round(float(variance_hinge(torch.ones(4, 2))), 2)  # constant features
    0.99
    """
    return torch.relu(1 - (x_BE.float().var(0) + eps).sqrt()).mean()


def covariance(x_BE: Tensor) -> Tensor:
    """Sum of squared covariances between different features, over E (VICReg), a scalar.

    Computed from the smaller Gram matrix: the squared entries of X^T X and X X^T have the same sum.

    >>> covariance(torch.tensor([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]]))
    tensor(0.)
    """
    x_BE = x_BE.float()
    x_BE = x_BE - x_BE.mean(0)
    clips, width = x_BE.shape
    with no_autocast(x_BE):
        gram = x_BE @ x_BE.T if clips < width else x_BE.T @ x_BE
    squares = gram.square().sum() - x_BE.square().sum(0).square().sum()
    return squares / (clips - 1) ** 2 / width


def _standardized(x_BE: Tensor, eps: float) -> Tensor:
    variance_E, mean_E = torch.var_mean(x_BE, 0, correction=0)
    return (x_BE - mean_E) * (variance_E + eps).rsqrt()
