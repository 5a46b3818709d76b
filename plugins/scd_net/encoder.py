"""SCD-Net's encoder: graph convolutions and a transformer layer over a clip's frames, and the same over its joints,
with other weights.

Facts: cong-wu/SCD-Net, scd/scd_encoder.py. B clips, M body slots, T frames, K = M * J joints of all slots, D width of a
branch.
"""

from pydantic import Field, model_validator
from torch import nn

from skelbench.core.component import Spec
from skelbench.models.two_branch import (
    Branches,
    Embedding,
    TwoBranchEncoder,
    embedding_macs,
    post_norm_macs,
    post_norm_stack,
    sequences,
)

from .graph import Graph, Unit


class SCDNetEncoderConfig(Spec):
    """Defaults follow SCD-Net's code."""

    dim: int = Field(2048, ge=1, description="width of each branch; features are twice as wide")
    depth: int = Field(1, ge=1, description="transformer layers of each branch")
    heads: int = Field(8, ge=1, description="attention heads")
    channels: int = Field(
        64, ge=8, description="channels of graph convolutions; four times as many between two of them"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of attention and of both residual paths, in training")
    bodies: int = Field(2, ge=1, description="body slots of a clip, concatenated")

    @model_validator(mode="after")
    def _consistent(self):
        if self.dim % self.heads or self.channels % 8:
            raise ValueError(
                f"dim {self.dim} must be a multiple of {self.heads} heads, channels {self.channels} one of 8"
            )
        return self


class SCDNetEncoder(TwoBranchEncoder):
    """``SCDNetEncoder(config, topology, grid)``: no positions, no shared weights between the branches."""

    Config = SCDNetEncoderConfig

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid, config.dim, config.bodies)
        self.graph = nn.ModuleDict(
            {branch: Graph(config.channels, config.bodies, topology) for branch in Branches._fields}
        )
        self.embed = Embedding(config.bodies, grid, config.dim, config.channels)
        self.time, self.space = (
            post_norm_stack(config.depth, config.dim, config.heads, config.dropout) for _ in Branches._fields
        )
        for parameter in (*self.embed.parameters(), *self.time.parameters(), *self.space.parameters()):
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)

    def branches(self, x_BMTJC):
        time_BTD = self.embed.time(sequences(self.graph["time"](x_BMTJC)).time)
        space_BKD = self.embed.space(sequences(self.graph["space"](x_BMTJC)).space)
        return Branches(self.time(time_BTD), self.space(space_BKD))

    def closed_form_macs(self, grid, visible=None):
        """MACs of one clip: ``graph`` (of both branches), ``embed``, and the layers of each branch."""
        config, bodies = self.config, self.bodies
        units = sum(unit.macs(grid.frames, grid.joints) for unit in self.modules() if isinstance(unit, Unit))
        return {
            "graph": bodies * units,
            "embed": embedding_macs(bodies, grid, config.dim, config.channels),
            "time": config.depth * post_norm_macs(grid.frames, config.dim, config.dim),
            "space": config.depth * post_norm_macs(bodies * grid.joints, config.dim, config.dim),
        }
