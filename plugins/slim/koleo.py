"""The spread term of DINOv2. Shapes: R rows, D width."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from skelbench.core.distributed import global_rows
from skelbench.models.precision import no_autocast


def koleo(x_RD: Tensor, eps: float = 1e-8) -> Tensor:
    """Minus the mean log distance of each unit-normalised row to its nearest other row (Kozachenko-Leonenko), over the
    rows of all processes.

    Spreads features over the sphere. One view at a time: two views of a clip must not be each other's neighbours.
    DINOv2's code looks at the rows of each process alone: how far apart neighbours are would then depend on how many
    processes share the batch. Computed in float32; zero for fewer than two rows. Source: DINOv2.
    """
    x_RD = global_rows(x_RD.to(torch.promote_types(x_RD.dtype, torch.float32)))
    x_RD = F.normalize(x_RD, dim=-1, eps=eps)
    if x_RD.shape[0] < 2:
        return x_RD.sum() * 0.0
    with torch.no_grad(), no_autocast(x_RD):
        nearest_R = (x_RD @ x_RD.t()).fill_diagonal_(-2.0).argmax(1)
    return -(F.pairwise_distance(x_RD, x_RD[nearest_R], eps=eps) + eps).log().mean()
