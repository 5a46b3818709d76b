"""Temporal rotary positions (RoPE) for attention: half-split rotation of the whole head width.

Shapes: R rows or 1, n tokens, d head width.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rope_table(time_Rn: Tensor, head_width: int, base: float) -> Tensor:
    """Sines and cosines [R, 1, n, 2 d] for temporal indices [R, n], in the layout of timm's ``AttentionRope``.

    Pair (i, i + d/2) of a query or key turns by index * base^(-2 i / d); float32 whatever autocast says.
    """
    i = torch.arange(0, head_width, 2, device=time_Rn.device, dtype=torch.float32)
    angle = time_Rn.unsqueeze(-1).float() * base ** (-i / head_width)
    angle = torch.cat([angle, angle], -1)
    return torch.cat([angle.sin(), angle.cos()], -1).unsqueeze(1)
