"""Effective rank of features, by entropy: the number of directions that they use.

Shapes: n samples, D channels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from skelbench.models.precision import no_autocast

_GOLDEN = 0.6180339887498949


@torch.no_grad()
def effective_rank(x_nD: Tensor, *, centered: bool = False) -> Tensor:
    """exp(-sum_j q_j log q_j) with q_j = sigma_j / sum_k sigma_k over the singular values of ``x_nD``: float64 scalar.

    Between 1 (all rows are multiples of one) and min(n, D) (all singular values equal); the scale does not matter.
    Source: SLiM, equation "effective rank" in the controlled analysis of targets (Roy and Vetterli's).

    Args:
        x_nD: [n, D], not centered: a common offset of all rows counts as a direction, and in a collapse it
            outweighs the rest.
        centered: subtract the mean of the rows first, for features that share a large offset.

    0 without rows or channels, for zeros alone, and for values that are not finite. Singular values are roots of the
    eigenvalues of the smaller Gram matrix in float64; values below 6e-8 of the largest are rounding errors and skipped,
    which moves log r by less than D * 1e-6.

    >>> [round(float(effective_rank(x_nD)), 3) for x_nD in (torch.eye(4), torch.ones(4, 4))]
    [4.0, 1.0]
    """
    with no_autocast(x_nD):
        x_nD = x_nD.double()
        x_nD = x_nD - x_nD.mean(0) if centered else x_nD
        if not x_nD.numel():
            return x_nD.new_zeros(())
        largest = x_nD.abs().amax()
        usable = torch.isfinite(largest) & (largest > 0)
        x_nD = torch.where(usable, x_nD / largest, torch.zeros_like(x_nD))
        n, D = x_nD.shape
        square = torch.linalg.eigvalsh(x_nD.mT @ x_nD if D <= n else x_nD @ x_nD.mT)
        noise = 16 * torch.finfo(square.dtype).eps * square.amax()
        sigma = torch.where(square > noise, square, 0.0).sqrt()
        q = sigma / sigma.sum().clamp_min(torch.finfo(sigma.dtype).tiny)
        return torch.special.entr(q).sum().exp() * usable


def sample_rows(x_nD: Tensor, most: int) -> Tensor:
    """Return at most ``most`` rows, evenly spread: one from each of ``most`` equal stretches.

    The position inside a stretch advances by the golden ratio, so that a regular order of rows (token by token, body
    by body) does not select the same joint every time. No random number is drawn.

    >>> sample_rows(torch.randn(1000, 8), most=64).shape
    torch.Size([64, 8])
    """
    n = x_nD.shape[0]
    if n <= most:
        return x_nD
    k = torch.arange(most, dtype=torch.float64)
    rows = ((k + (k * _GOLDEN).frac()) * (n / most)).long().clamp_(max=n - 1)
    return x_nD[rows.to(x_nD.device)]
