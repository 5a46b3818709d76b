"""Self-attention with rotated queries and keys, written so that little is done besides its products.

Several groups of rows, each with a length of its own, go through the linear layers as one list of tokens and through
attention group by group; nothing is padded and nothing is masked (DINOv3's ``forward_list``).

Shapes: R rows of a group, n tokens of a row, t = sum of R * n, h heads, d head width, D = h d.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class Group(NamedTuple):
    """Rows of one length in a list of tokens."""

    rows: int
    tokens: int
    rope: Tensor | None = None
    """:func:`rope_table` of the group's tokens; None = nothing is rotated."""
    first: bool = False
    """Only the first token of each row, which is not rotated, is asked for; it sees all of them."""

    @property
    def left(self) -> Group:
        """The group of what comes out."""
        return Group(self.rows, 1) if self.first else self


def rope_table(time_Rn: Tensor, head_width: int, base: float, prefix: int = 0) -> Tensor:
    """Cosines and sines [R, prefix + n, d / 2, 2] for temporal indices [R, n]; 1 and 0 for ``prefix`` tokens in front.

    Pair (i, i + d/2) of a query or key turns by index * base^(-2 i / d); float32 whatever autocast says.

    >>> rope_table(torch.arange(8)[None], head_width=16, base=10000.0, prefix=1).shape
    torch.Size([1, 9, 8, 2])
    """
    i = torch.arange(0, head_width, 2, device=time_Rn.device, dtype=torch.float32)
    angle = F.pad(time_Rn.float(), (prefix, 0)).unsqueeze(-1) * base ** (-i / head_width)
    return torch.stack([angle.cos(), angle.sin()], -1)


class Attention(nn.Module):
    """Multi-head self-attention; queries and keys are rotated by a group's table.

    >>> attention = Attention(16, heads=2)
    >>> attention(torch.randn(6 + 4, 16), [Group(2, 3), Group(1, 4)]).shape
    torch.Size([10, 16])
    """

    def __init__(self, dim: int, heads: int, qkv_bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, groups: Sequence[Group] | None = None) -> Tensor:
        """Same shape: [t, D] of ``groups``, or [R, n, D] of rows that are not rotated; of groups with ``first`` one
        token a row."""
        if groups is not None and any(group.first for group in groups):
            parts = zip(split(x, groups), groups)
            return torch.cat([self.first(part, group) if group.first else self(part, [group]) for part, group in parts])
        x_tD, of = x.flatten(0, -2), [Group(*x.shape[:2])] if groups is None else groups
        turned = any(group.rope is not None for group in of)
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            qkv = _plain(self.qkv(x_tD), self.heads, of)
        else:
            qkv = _Heads.apply(self._pairs(x_tD) if turned else self.qkv(x_tD), self.heads, of)
        mixed = [
            F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, x.shape[-1])
            for q, k, v in zip(qkv[::3], qkv[1::3], qkv[2::3])
        ]
        return self.proj(mixed[0] if len(mixed) == 1 else torch.cat(mixed)).view_as(x)

    def first(self, x_tD: Tensor, group: Group) -> Tensor:
        """[R, D] of the first token of every row of one group [R * n, D]."""
        rows, n, rope = group[:3]
        dim = x_tD.shape[-1]
        q_weight, kv_weight = self.qkv.weight.split((dim, 2 * dim))
        q_bias, kv_bias = (None, None) if self.qkv.bias is None else self.qkv.bias.split((dim, 2 * dim))
        q_RD = F.linear(x_tD.view(rows, n, dim)[:, 0], q_weight, q_bias)
        q = q_RD.view(rows, 1, self.heads, -1).transpose(1, 2)
        k, v = F.linear(x_tD, kv_weight, kv_bias).view(rows, n, 2, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if rope is not None:
            k = _turned(k.float(), *rope[:, None].unbind(-1)).to(v.dtype)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(rows, dim))

    def _pairs(self, x_tD: Tensor) -> Tensor:
        """Queries, keys and values with the two channels that turn together side by side, as complex numbers have
        them. Scores do not depend on the order of channels, and to reorder weights costs next to nothing."""
        bias = None if self.qkv.bias is None else self._paired(self.qkv.bias)
        return F.linear(x_tD, self._paired(self.qkv.weight), bias)

    def _paired(self, part: Tensor) -> Tensor:
        queries_keys, values = part.tensor_split((2 * len(part) // 3,))
        return torch.cat([queries_keys.unflatten(0, (2 * self.heads, 2, -1)).transpose(1, 2).flatten(0, 2), values])


def _plain(qkv_tE: Tensor, heads: int, groups: Sequence[Group]) -> tuple[Tensor, ...]:
    """What :class:`_Heads` does to channels as the weights order them, in operations that a compiler fuses."""
    parts: list[Tensor] = []
    for part_tE, (rows, n, rope, _) in zip(split(qkv_tE, groups), groups):
        q, k, v = part_tE.view(rows, n, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if rope is not None:
            cos, sin = rope[:, None].unbind(-1)
            q, k = (_turned(x.float(), cos, sin).to(v.dtype) for x in (q, k))
        parts += q, k, v
    return tuple(parts)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class _Heads(torch.autograd.Function):
    """q, k, v [R, h, n, d] of every group from [t, 3 D], whose memory they take over: one pass there, one back."""

    @staticmethod
    def forward(ctx: Any, qkv_tE: Tensor, heads: int, groups: Sequence[Group]) -> tuple[Tensor, ...]:
        # Turned in place: nothing else reads what the linear layer put out. All heads' numbers stand in the table, for
        # long inner loops.
        width = qkv_tE.shape[1] // 3
        ctx.turns = [
            None if rope is None else torch.view_as_complex(rope).repeat(1, 1, heads) for _, _, rope, _ in groups
        ]
        ctx.heads, ctx.groups = heads, groups
        parts: list[Tensor] = []
        for part_tE, (rows, n, *_), turn in zip(split(qkv_tE.detach(), groups), groups, ctx.turns):
            part = part_tE.view(rows, n, 3, width)
            if turn is not None:
                _turn(part[:, :, :2], turn[:, :, None], out=part[:, :, :2])
            parts += (part[:, :, i].unflatten(-1, (heads, -1)).transpose(1, 2) for i in range(3))
        return tuple(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        width = grads[0].shape[1] * grads[0].shape[3]
        grad_tE = grads[0].new_empty(sum(group.rows * group.tokens for group in ctx.groups), 3 * width)
        for place, (part_tE, (rows, n, *_), turn) in enumerate(zip(split(grad_tE, ctx.groups), ctx.groups, ctx.turns)):
            part = part_tE.view(rows, n, 3, width)
            for i in range(3):
                grad = grads[3 * place + i].transpose(1, 2).flatten(2).contiguous()  # as flash attention leaves it
                if turn is None or i == 2:
                    part[:, :, i].copy_(grad)
                else:
                    _turn(grad, turn.conj(), out=part[:, :, i])
        return grad_tE, None, None


def split(x_tE: Tensor, groups: Sequence[Group]) -> tuple[Tensor, ...]:
    """The tokens of each group.

    >>> [len(part) for part in split(torch.zeros(10, 4), [Group(2, 3), Group(1, 4)])]
    [6, 4]
    """
    return x_tE.split([group.rows * group.tokens for group in groups])


def _turn(x: Tensor, by: Tensor, out: Tensor) -> None:
    """Pairs of channels times complex numbers, in at least float32."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    pairs = torch.view_as_complex(wide.unflatten(-1, (-1, 2)))
    if out.dtype == wide.dtype:
        torch.mul(pairs, by, out=torch.view_as_complex(out.unflatten(-1, (-1, 2))))
    else:
        out.copy_(torch.view_as_real(pairs * by).flatten(-2))
