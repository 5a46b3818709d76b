"""MacDiff's regulariser of the encoder's tokens. Shapes: R rows, K visible tokens, D width."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from skelbench.models.precision import no_autocast


def token_uniformity(x_RKD: Tensor) -> Tensor:
    """[R]: mean squared cosine between all pairs of a row's tokens, each with itself included, in float32.

    1 when all tokens point the same way, 1 / K when all are at right angles (MacDiff's code).
    """
    x_RKD = F.normalize(x_RKD.to(torch.promote_types(x_RKD.dtype, torch.float32)), dim=-1)
    with no_autocast(x_RKD):
        return (x_RKD @ x_RKD.mT).square().mean((1, 2))
