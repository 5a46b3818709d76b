"""HiCo's encoder: a clip's frames and its joints, each at several granularities (Dong et al., AAAI 2023).

Facts: HuiGuanLab/HiCo @cf39a93, hico/hi_encoder.py. B clips, M body slots, T frames, J joints, D width of a branch,
n tokens of a branch (T, or M * J, at the finest), G granularities.
"""

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.models.encoder import Encoded
from skelbench.models.two_branch import (
    Branches,
    Embedding,
    TwoBranchEncoder,
    embedding_macs,
    post_norm_macs,
    post_norm_stack,
)

KERNEL = 5


class HiCoEncoderConfig(Spec):
    """Defaults follow HiCo's code."""

    dim: int = Field(512, ge=1, description="width of each branch")
    depth: int = Field(1, ge=1, description="layers of each branch")
    heads: int = Field(4, ge=1, description="attention heads")
    granularities: int = Field(
        4, ge=2, description="number of token sequences of each branch, each half as long as the one before"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of attention and of both residual paths, in training")
    bodies: int = Field(2, ge=1, description="body slots of a clip, concatenated")

    @model_validator(mode="after")
    def _consistent(self):
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} must be a multiple of {self.heads} heads")
        return self


class HiCoEncoder(TwoBranchEncoder):
    """``HiCoEncoder(config, topology, grid)``: no positions. Embeddings are halved before the layers, which all
    granularities of a branch share. Features: G * D of time, then G * D of space.

    Raises:
        SkelbenchError: the grid has too few frames or joints to be halved so often.
    """

    Config = HiCoEncoderConfig
    abilities = frozenset({"time-and-space", "granularities"})

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid, config.dim, config.bodies)
        self.granularities, self.features = config.granularities, 2 * config.granularities * config.dim
        fewest, joints = 2 ** (config.granularities - 1), config.bodies * grid.joints
        if min(grid.frames, joints) < fewest:
            raise SkelbenchError(
                f"{config.granularities} granularities need {fewest} frames and as many joints of all bodies, the grid "
                f"has {grid.frames} and {joints}; set fewer encoder.granularities, or longer clips"
            )
        self.embed = Embedding(config.bodies, grid, config.dim)
        self.halve = nn.ModuleDict({branch: Halving(config.dim) for branch in Branches._fields})
        self.time, self.space = (
            post_norm_stack(config.depth, config.dim, config.heads, config.dropout) for _ in Branches._fields
        )
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)

    def forward(self, view, mask_RN=None, keep_RK=None):
        """Readouts: ``time`` and ``space`` of the finest granularity, ``times`` and ``spaces`` [B, G * D] of all."""
        embedded = self.embed(self.coordinates(view))
        finest: list[Tensor] = []
        outputs: dict[str, Tensor] = {}
        for branch, layers in zip(Branches._fields, (self.time, self.space)):
            x_BnD = getattr(embedded, branch)
            finest.append(layers(x_BnD))
            features = [finest[-1].amax(1)]
            for _ in range(self.config.granularities - 1):
                x_BnD = self.halve[branch](x_BnD)
                features.append(layers(x_BnD).amax(1))
            outputs |= {branch: features[0], f"{branch}s": torch.cat(features, 1)}
        pooled_BD = torch.cat([outputs["times"], outputs["spaces"]], 1)
        return Encoded(tokens_RND=torch.cat(finest, 1), pooled_RD=pooled_BD, per_clip=True, levels=outputs)

    def closed_form_macs(self, grid, visible=None):
        """MACs of one clip: ``embed``, ``halve`` (the depthwise convolutions) and the layers of each branch."""
        config, dim = self.config, self.config.dim
        parts = {"embed": embedding_macs(self.bodies, grid, dim), "halve": 0}
        for branch, n in zip(Branches._fields, (grid.frames, self.bodies * grid.joints)):
            lengths = [n >> halved for halved in range(config.granularities)]
            parts["halve"] += sum(lengths[:-1]) * dim * KERNEL
            parts[branch] = config.depth * sum(post_norm_macs(length, dim, dim) for length in lengths)
        return parts


class Halving(nn.Module):
    """A depthwise convolution along the tokens, layer norm, ReLU, and the maximum of every two tokens."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, KERNEL, padding=KERNEL // 2, groups=dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x_BnD: Tensor) -> Tensor:
        """[B, n // 2, D]."""
        x_BnD = torch.relu(self.norm(self.conv(x_BnD.transpose(1, 2)).transpose(1, 2)))
        return x_BnD[:, : x_BnD.shape[1] // 2 * 2].unflatten(1, (-1, 2)).amax(2)
