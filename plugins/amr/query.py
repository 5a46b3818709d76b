"""A decoder of learned queries that attend to the visible tokens and not to each other (AMR).

Shapes: R rows (bodies), P temporal tokens, J joints, N = P * J tokens, K visible tokens, r temporal tokens per query,
S = P / r segments, Q = S * J queries, D decoder width, Z width of the encoder's tokens, O output values per token.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from skelbench.models.initial import trunc_normal, xavier_linear
from skelbench.models.layers import Mlp
from skelbench.models.vit import ViTConfig
from skelbench.views.skeleton.grid import Grid


class CrossAttention(nn.Module):
    """Multi-head attention of queries [R, Q, D] over other tokens [R, K, Z]."""

    def __init__(self, dim: int, dim_memory: int, heads: int, bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim, bias=bias)
        self.key_value = nn.Linear(dim_memory, 2 * dim, bias=bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x_RQD: Tensor, memory_RKZ: Tensor) -> Tensor:
        """[R, Q, D]."""

        def by_head(y: Tensor) -> Tensor:
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        key, value = self.key_value(memory_RKZ).chunk(2, -1)
        out = F.scaled_dot_product_attention(by_head(self.query(x_RQD)), by_head(key), by_head(value))
        return self.proj(out.transpose(1, 2).flatten(2))


class CrossBlock(nn.Module):
    """x + attention(norm(x), memory), then x + mlp(norm(x)); the memory comes normalized from its encoder."""

    def __init__(self, config: ViTConfig, dim_memory: int) -> None:
        super().__init__()
        dim = config.dim
        self.norm1 = nn.LayerNorm(dim, eps=config.norm_eps)
        self.attn = CrossAttention(dim, dim_memory, config.heads, config.qkv_bias)
        self.norm2 = nn.LayerNorm(dim, eps=config.norm_eps)
        self.mlp = Mlp(dim, config.mlp_hidden)

    def forward(self, x_RQD: Tensor, memory_RKZ: Tensor) -> Tensor:
        """[R, Q, D]."""
        x_RQD = x_RQD + self.attn(self.norm1(x_RQD), memory_RKZ)
        return x_RQD + self.mlp(self.norm2(x_RQD))


def tokens_per_query(ratio: int, times: int) -> int:
    """Largest divisor of ``times`` that is not above ``ratio``, at least 1: for 6, 6 of 30 tokens, 5 of 15, 4 of 8."""
    return next((r for r in range(min(ratio, times), 1, -1) if times % r == 0), 1)


class QueryDecoder(nn.Module):
    """One query per joint and segment of r temporal tokens; each predicts all of its r tokens.

    Args:
        dim_in: Z, width of the encoder's tokens.
        dim, depth, heads, norm_eps: of the decoder's own blocks.
        ratio: temporal tokens per query; see :func:`tokens_per_query` for grids that it does not divide.
        grid: the full-length grid; all N tokens are decoded.
        out_dim: O, e.g. P_T * 3 coordinates.
        memory_positions: add learned embeddings of time and joint to the visible tokens.
    """

    def __init__(
        self,
        dim_in: int,
        dim: int,
        depth: int,
        heads: int,
        ratio: int,
        grid: Grid,
        out_dim: int,
        norm_eps: float = 1e-5,
        memory_positions: bool = True,
    ) -> None:
        super().__init__()
        self.config = ViTConfig(dim=dim, depth=depth, heads=heads, norm_eps=norm_eps, temporal="learned", cls=False)
        self.grid = grid
        self.per_query = tokens_per_query(ratio, grid.times)
        self.segments = grid.times // self.per_query
        self.query = nn.Parameter(torch.empty(self.segments * grid.joints, dim))
        self.segment_embed = nn.Parameter(torch.empty(self.segments, dim))
        self.joint_embed = nn.Parameter(torch.empty(grid.joints, dim))
        self.memory_time = nn.Parameter(torch.empty(grid.times, dim_in)) if memory_positions else None
        self.memory_joint = nn.Parameter(torch.empty(grid.joints, dim_in)) if memory_positions else None
        self.blocks = nn.ModuleList(CrossBlock(self.config, dim_in) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=norm_eps)
        self.predict = nn.Linear(dim, self.per_query * out_dim)
        self.reset_parameters()

    @property
    def queries(self) -> int:
        """Q."""
        return len(self.query)

    def reset_parameters(self) -> None:
        """Xavier-uniform matrices, zero biases, trunc-normal (0.02) queries and embeddings."""
        self.apply(xavier_linear)
        for embedding in (self.query, self.segment_embed, self.joint_embed, self.memory_time, self.memory_joint):
            if embedding is not None:
                trunc_normal(embedding)

    def forward(self, tokens_RKZ: Tensor, keep_RK: Tensor) -> Tensor:
        """[R, N, out_dim] from the visible tokens and their places (int64 [R, K])."""
        if self.memory_time is not None and self.memory_joint is not None:
            place_NZ = (self.memory_time.unsqueeze(1) + self.memory_joint).flatten(0, 1)
            tokens_RKZ = tokens_RKZ + place_NZ[keep_RK]
        x_QD = self.query + (self.segment_embed.unsqueeze(1) + self.joint_embed).flatten(0, 1)
        x_RQD = x_QD.expand(len(tokens_RKZ), -1, -1)
        for block in self.blocks:
            x_RQD = block(x_RQD, tokens_RKZ)
        y_RSJrO = self.predict(self.norm(x_RQD)).unflatten(-1, (self.per_query, -1))
        y_RSJrO = y_RSJrO.unflatten(1, (self.segments, self.grid.joints))
        return y_RSJrO.transpose(2, 3).flatten(1, 3)
