"""Shared parts of encoders with two token sequences, frames and joints of a clip (HiCo, SCD-Net, UmURL, USDRL).

A token in time is a frame of all joints of all bodies, a token in space is a joint of one body over all frames. Each
branch has an embedding and layers of its own; the features of a branch are the maximum over its tokens. Shapes: B clips
(times views), M body slots, T frames, J joints, C = 3, K = M * J tokens in space, D width of a branch, n tokens.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from skelbench.core.errors import SkelbenchError
from skelbench.models.encoder import Encoded, Encoder, side_by_side
from skelbench.plugin.plugin_errors import lacking
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import Topology
from skelbench.views.view import View


class Branches(NamedTuple):
    """The two token sequences of a batch."""

    time: Tensor
    """[B, T, ...]."""
    space: Tensor
    """[B, K, ...], body by body."""


def sequences(x_BMTJC: Tensor) -> Branches:
    """[B, T, M * J * C] and [B, M * J, T * C]: the same coordinates, frame by frame and joint by joint."""
    return Branches(x_BMTJC.transpose(1, 2).flatten(2), x_BMTJC.transpose(2, 3).flatten(3).flatten(1, 2))


class Embedding(nn.Module):
    """MLP of each branch: linear, layer norm, ReLU, linear; C ``channels`` at every joint and frame."""

    def __init__(self, bodies: int, grid: Grid, width: int, channels: int = 3) -> None:
        super().__init__()
        self.time = self._mlp(bodies * grid.joints * channels, width)
        self.space = self._mlp(grid.frames * channels, width)

    def forward(self, x_BMTJC: Tensor) -> Branches:
        """Tokens [B, T, D] and [B, K, D]."""
        time, space = sequences(x_BMTJC)
        return Branches(self.time(time), self.space(space))

    @staticmethod
    def _mlp(values: int, width: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(values, width), nn.LayerNorm(width), nn.ReLU(inplace=True), nn.Linear(width, width)
        )


def sine_positions(places: int, width: int) -> Tensor:
    """float32 [n, D], D even: alternating sine and cosine, wavelengths 2 pi to 10000 x 2 pi (Vaswani et al., 2017)."""
    i = torch.arange(0, width, 2)
    angle = torch.arange(places)[:, None] * torch.exp(i * (-math.log(10000.0) / width))
    return torch.stack([angle.sin(), angle.cos()], 2).flatten(1)


class PostNormLayer(nn.Module):
    """norm(x + attention(x)), then norm(x + mlp(x)) with ReLU: PyTorch's ``TransformerEncoderLayer`` with the same
    initial weights, in operators that every counter knows."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float = 0.0) -> None:
        from timm.layers import Attention  # slow to import

        super().__init__()
        self.attn = Attention(width, heads, qkv_bias=True, attn_drop=dropout, proj_drop=dropout)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width), nn.Dropout(dropout)
        )
        nn.init.xavier_uniform_(self.attn.qkv.weight)
        for layer in (self.attn.qkv, self.attn.proj):
            nn.init.zeros_(layer.bias)

    def forward(self, x_BnD: Tensor) -> Tensor:
        """Same shape."""
        x_BnD = self.norm1(x_BnD + self.attn(x_BnD))
        return self.norm2(x_BnD + self.mlp(x_BnD))


TORCH_LAYER = {
    "self_attn.in_proj_weight": "attn.qkv.weight",
    "self_attn.in_proj_bias": "attn.qkv.bias",
    "self_attn.out_proj": "attn.proj",
    "linear1": "mlp.0",
    "linear2": "mlp.3",
    "norm1": "norm1",
    "norm2": "norm2",
}
"""Names inside a ``TransformerEncoderLayer`` of PyTorch and, after the arrow, inside a :class:`PostNormLayer`."""


def post_norm_stack(depth: int, width: int, heads: int, dropout: float = 0.0) -> nn.Sequential:
    """Stack of ``depth`` layers whose feed-forward parts are as wide as D.

    >>> len(post_norm_stack(2, width=8, heads=2))
    2
    """
    return nn.Sequential(*(PostNormLayer(width, heads, width, dropout) for _ in range(depth)))


class TwoBranchEncoder(Encoder):
    """Base class: a subclass turns coordinates into the final tokens of both branches in :meth:`branches`.

    One row per clip with time and space concatenated: 2 D wide, so ``pooled_RD.chunk(2, 1)`` separates them. All
    body slots are read, absent bodies as zeros, as in the authors' codes; clips have exactly the grid's frames.
    """

    abilities = frozenset({"time-and-space"})

    def __init__(self, config: Any, topology: Topology, grid: Grid, width: int, bodies: int) -> None:
        super().__init__(config, topology, grid)
        self.width, self.features, self.bodies = width, 2 * width, bodies

    def branches(self, x_BMTJC: Tensor) -> Branches:
        """Tokens [B, T, D] and [B, K, D] after the last layer."""
        raise lacking(self, "branches(self, x_BMTJC)")

    def forward(self, view: View, mask_RN: Tensor | None = None, keep_RK: Tensor | None = None) -> Encoded:
        """See :meth:`Encoder.forward`; readouts ``time`` and ``space`` are the branches' own."""
        return pooled(self.branches(self.coordinates(view)))

    def coordinates(self, view: View) -> Tensor:
        """Return coordinates [B, M, T, J, 3] of a view that fits the encoder, else raise :class:`SkelbenchError`."""
        frames, joints = view.x_RTJC.shape[1:3]
        if (frames, joints) != (self.grid.frames, self.grid.joints):
            raise SkelbenchError(
                f"this encoder reads clips of {self.grid.frames} frames and {self.grid.joints} joints, not of {frames} "
                f"and {joints}; use views of the grid's length and data of the encoder's skeleton"
            )
        return side_by_side(view, self.bodies)


def pooled(tokens: Branches) -> Encoded:
    """Readouts of both branches: the maximum over tokens."""
    time_BD, space_BD = (x_BnD.amax(1) for x_BnD in tokens)
    return Encoded(
        tokens_RND=torch.cat(tokens, 1),
        pooled_RD=torch.cat([time_BD, space_BD], 1),
        per_clip=True,
        levels={"time": time_BD, "space": space_BD},
    )


def post_norm_macs(tokens: int, width: int, hidden: int) -> int:
    """Multiply-accumulates of matrix products of one :class:`PostNormLayer`."""
    return 4 * tokens * width**2 + 2 * tokens**2 * width + 2 * tokens * width * hidden


def embedding_macs(bodies: int, grid: Grid, width: int, channels: int = 3) -> int:
    """Multiply-accumulates of matrix products of one :class:`Embedding`."""
    joints = bodies * grid.joints
    values = 2 * grid.frames * joints * channels  # all numbers of a clip, once per branch
    return values * width + (grid.frames + joints) * width**2
