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
        weight, bias = (p if p is None or rope is None else self._paired(p) for p in (self.qkv.weight, self.qkv.bias))
        if first:
            D = len(weight) // 3
            biases = (None, None) if bias is None else (bias[:D], bias[D:])
            kv = F.linear(x_RnD, weight[D:], biases[1])
            parts = (F.linear(x_RnD[:, :1], weight[:D], biases[0]), *kv.chunk(2, -1))
        else:
            parts = F.linear(x_RnD, weight, bias).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in parts)
        if rope is not None:
            q, k = _rotated(q, rope[:, : q.shape[1]]), _rotated(k, rope)
            v = v.contiguous()  # a view would keep the unrotated queries and keys in memory
        attended = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        return self.proj(attended.transpose(1, 2).flatten(2))

    def _paired(self, rows: Tensor) -> Tensor:
        """Reorder rows of the weight or bias of queries and keys: channels i and i + d/2 become neighbors, a pair.
        Products of queries and keys do not depend on the order of channels."""
        qk, v = rows.split([len(rows) // 3 * 2, len(rows) // 3])
        return torch.cat([qk.unflatten(0, (2 * self.heads, 2, -1)).transpose(1, 2).flatten(0, 2), v])


def _rotated(x_Rnhd: Tensor, rope: Tensor) -> Tensor:
    """Rotate neighboring channels by cosines and sines [..., d / 2, 2]: one complex product, which torch.compile and
    ONNX lack."""
    pairs = x_Rnhd.to(torch.promote_types(x_Rnhd.dtype, torch.float32)).unflatten(-1, (-1, 2))
    if torch.compiler.is_compiling():
        (a, b), (cos, sin) = pairs.unbind(-1), rope.unbind(-1)
        rotated = torch.stack([a * cos - b * sin, b * cos + a * sin], -1)
    else:
        rotated = torch.view_as_real(torch.view_as_complex(pairs) * torch.view_as_complex(rope))
    return rotated.flatten(-2).to(x_Rnhd.dtype)
