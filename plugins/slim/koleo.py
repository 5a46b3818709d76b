"""The spread term of DINOv2. Shapes: R rows, D width."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from skelbench.core.distributed import global_rows
from skelbench.models.precision import no_autocast


def koleo(x_RD: Tensor, rows: int | None = None, eps: float = 1e-8) -> Tensor:
    """Minus the mean log distance of each unit-normalized row to its nearest other row (Kozachenko-Leonenko), over the
    rows of all processes, in groups of ``rows`` consecutive ones (None = all together).

    Spreads features over the sphere. One view at a time: two views of a clip must not be each other's neighbors.
    DINOv2's code searches only the rows of each process, so distances depend on the number of processes (192 clips per
    process in KAIST-VICLab/SLiM). Computed in float32; zero for fewer than two rows. Source: DINOv2.
    """
    x_RD = global_rows(x_RD.to(torch.promote_types(x_RD.dtype, torch.float32)))
    x_RD = F.normalize(x_RD, dim=-1, eps=eps)
    if x_RD.shape[0] < 2:
        return x_RD.sum() * 0.0
    with torch.no_grad(), no_autocast(x_RD):
        similarity_RR = (x_RD @ x_RD.t()).fill_diagonal_(-2.0)
        if rows is not None:
            group_R = torch.arange(len(x_RD), device=x_RD.device) // rows
            similarity_RR.masked_fill_(group_R[:, None] != group_R, -2.0)
        nearest_R = similarity_RR.argmax(1)
    return -(F.pairwise_distance(x_RD, x_RD[nearest_R], eps=eps) + eps).log().mean()
