"""Decoders of masked autoencoders: visible tokens and mask tokens on the full grid, one output per token.

Shapes: R rows (bodies), K visible tokens, N = P * J tokens, D width, O output values per token.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from skelbench.models.initial import trunc_normal, xavier_linear
from skelbench.models.tokenizer import put
from skelbench.models.vit import Block, ViTConfig
from skelbench.views.skeleton.grid import Grid


class FilledGrid(nn.Module):
    """Front of a decoder: projected visible tokens, mask tokens elsewhere, plus embeddings of time and joint.

    A subclass adds layers that read the full grid and calls :meth:`reset_parameters`.

    >>> grid = FilledGrid(8, 4, Grid(frames=16, patch=8, joints=25))
    >>> grid.reset_parameters()
    >>> grid.fill(torch.randn(2, 5, 8), torch.arange(5).repeat(2, 1)).shape
    torch.Size([2, 50, 4])
    """

    def __init__(self, dim_in: int, dim: int, grid: Grid) -> None:
        super().__init__()
        self.grid = grid
        self.embed = nn.Linear(dim_in, dim)
        self.mask_token = nn.Parameter(torch.empty(1, dim))  # 2-D, so that it decays as in MAE's code
        self.time_embed = nn.Parameter(torch.empty(grid.times, dim))
        self.joint_embed = nn.Parameter(torch.empty(grid.joints, dim))

    def reset_parameters(self) -> None:
        """Xavier-uniform matrices, zero biases, trunc-normal (0.02) embeddings and mask token."""
        self.apply(xavier_linear)
        for embedding in (self.mask_token, self.time_embed, self.joint_embed):
            trunc_normal(embedding)

    def fill(self, tokens_RKD: Tensor, keep_RK: Tensor) -> Tensor:
        """Return [R, N, D] from the visible tokens and their positions (int64 [R, K])."""
        x_RKD = self.embed(tokens_RKD)
        filler_RND = self.mask_token.to(x_RKD.dtype).expand(x_RKD.shape[0], self.grid.tokens, -1)
        position_ND = (self.time_embed.unsqueeze(1) + self.joint_embed).flatten(0, 1)
        return put(x_RKD, keep_RK, filler_RND) + position_ND


class MaskedDecoder(FilledGrid):
    """The filled grid through ``depth`` blocks, norm and a linear layer (MAE, MAMP).

    Args:
        dim_in: width of the encoder's tokens.
        dim, depth, heads, norm_eps: of the decoder's own blocks (no class token, learned positions).
        grid: the full-length grid; all N tokens are decoded.
        out_dim: values per token, e.g. P_T * 3 coordinates.

    >>> decoder = MaskedDecoder(8, dim=4, depth=1, heads=2, grid=Grid(16, 8, 25), out_dim=24)
    >>> decoder(torch.randn(2, 5, 8), torch.arange(5).repeat(2, 1)).shape
    torch.Size([2, 50, 24])
    """

    def __init__(
        self, dim_in: int, dim: int, depth: int, heads: int, grid: Grid, out_dim: int, norm_eps: float = 1e-6
    ) -> None:
        super().__init__(dim_in, dim, grid)
        self.config = ViTConfig(dim=dim, depth=depth, heads=heads, norm_eps=norm_eps, temporal="learned", cls=False)
        self.blocks = nn.ModuleList(Block(self.config) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=self.config.norm_eps)
        self.predict = nn.Linear(dim, out_dim)
        self.reset_parameters()

    def forward(self, tokens_RKD: Tensor, keep_RK: Tensor) -> Tensor:
        """Return [R, N, out_dim] from the visible tokens and their positions (int64 [R, K])."""
        x_RND = self.fill(tokens_RKD, keep_RK)
        for block in self.blocks:
            x_RND = block(x_RND)
        return self.predict(self.norm(x_RND))
