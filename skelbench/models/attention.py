"""Self-attention with queries and keys rotated by temporal index.

Shapes: R rows, n tokens of a row, h heads, d head width, D = h d.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rope_table(time_Rn: Tensor, head_width: int, base: float, prefix: int = 0) -> Tensor:
    """Cosines and sines [R, prefix + n, d / 2, 2] for temporal indices [R, n]; 1 and 0 for ``prefix`` tokens in front.

    Pair (i, i + d/2) of a query or key is rotated by index * base^(-2 i / d); float32 even within autocast.

    >>> rope_table(torch.arange(8)[None], head_width=16, base=10000.0, prefix=1).shape
    torch.Size([1, 9, 8, 2])
    """
    i = torch.arange(0, head_width, 2, device=time_Rn.device, dtype=torch.float32)
    angle = F.pad(time_Rn.float(), (prefix, 0)).unsqueeze(-1) * base ** (-i / head_width)
    return torch.stack([angle.cos(), angle.sin()], -1)


class Attention(nn.Module):
    """Multi-head self-attention; a :func:`rope_table` rotates queries and keys.

    >>> attention, x_RnD = Attention(16, heads=2), torch.randn(3, 5, 16)
    >>> attention(x_RnD).shape, attention(x_RnD, first=True).shape
    (torch.Size([3, 5, 16]), torch.Size([3, 1, 16]))
    """

    def __init__(self, dim: int, heads: int, qkv_bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x_RnD: Tensor, rope: Tensor | None = None, first: bool = False) -> Tensor:
        """Return tokens [R, n, D]; with ``first`` [R, 1, D]: only the first token, which attends to all tokens."""
        dim = x_RnD.shape[-1]
        q_weight, kv_weight = self.qkv.weight.split((dim, 2 * dim))
        q_bias, kv_bias = (None, None) if self.qkv.bias is None else self.qkv.bias.split((dim, 2 * dim))
        q = F.linear(x_RnD[:, :1] if first else x_RnD, q_weight, q_bias).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = F.linear(x_RnD, kv_weight, kv_bias).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if rope is not None:
            q, k = _rotated(q, rope[:, :1] if first else rope), _rotated(k, rope)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def _rotated(x_Rhnd: Tensor, rope: Tensor) -> Tensor:
    """Rotate pairs of channels, in at least float32."""
    cos, sin = rope[:, None].unbind(-1)
    a, b = x_Rhnd.to(torch.promote_types(x_Rhnd.dtype, torch.float32)).chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x_Rhnd.dtype)
