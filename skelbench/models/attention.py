"""Self-attention with queries and keys rotated by temporal index.

Shapes: R rows, n tokens of a row, h heads, d head width, D = h d.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rope_table(time_Rn: Tensor, head_width: int, base: float, prefix: int = 0) -> Tensor:
    """Cosines and sines [R, prefix + n, 1, d / 2, 2] for temporal indices [R, n]; 1 and 0 for ``prefix`` tokens.

    Pair (i, i + d/2) of a query or key is rotated by index * base^(-2 i / d); float32 even within autocast.

    >>> rope_table(torch.arange(8)[None], head_width=16, base=10000.0, prefix=1).shape
    torch.Size([1, 9, 1, 8, 2])
    """
    i = torch.arange(0, head_width, 2, device=time_Rn.device, dtype=torch.float32)
    angle = F.pad(time_Rn.float(), (prefix, 0))[..., None, None] * base ** (-i / head_width)
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
        biases = (None, None, None) if self.qkv.bias is None else self.qkv.bias.chunk(3)
        q_layer, k_layer, v_layer = zip(self.qkv.weight.chunk(3), biases)
        q = self._heads(x_RnD[:, :1] if first else x_RnD, *q_layer, rope)
        k, v = self._heads(x_RnD, *k_layer, rope), self._heads(x_RnD, *v_layer)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def _heads(self, x_RnD: Tensor, weight: Tensor, bias: Tensor | None, rope: Tensor | None = None) -> Tensor:
        """Return queries, keys or values [R, h, n, d]. With ``rope``, channels i and i + d/2 become neighbors, a pair:
        products of queries and keys do not depend on the order of channels."""
        if rope is None:
            return F.linear(x_RnD, weight, bias).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        halves = (self.heads, 2, -1)
        weight = weight.unflatten(0, halves).transpose(1, 2).flatten(0, 2)
        bias = None if bias is None else bias.unflatten(0, halves).transpose(1, 2).flatten()
        x_Rnhd2 = F.linear(x_RnD, weight, bias).unflatten(-1, (self.heads, -1, 2))
        rotated = _rotated(x_Rnhd2.to(torch.promote_types(x_Rnhd2.dtype, torch.float32)), rope[:, : x_Rnhd2.shape[1]])
        return rotated.flatten(-2).to(x_Rnhd2.dtype).transpose(1, 2)


def _rotated(pairs: Tensor, rope: Tensor) -> Tensor:
    """Rotate pairs [..., 2] by cosines and sines [..., 2]: one complex product, which torch.compile and ONNX lack."""
    if not torch.compiler.is_compiling():
        return torch.view_as_real(torch.view_as_complex(pairs) * torch.view_as_complex(rope))
    (a, b), (cos, sin) = pairs.unbind(-1), rope.unbind(-1)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1)
