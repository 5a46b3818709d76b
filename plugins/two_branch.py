"""Two-branch transformer: one post-norm layer over a clip's frames, one over its joints (Sun et al., MM 2023).

Facts: HuiGuanLab/UmURL @744278b, umurl.py. B clips, M body slots, T frames, J joints, C = 3, D width of a branch.
"""

import torch
from pydantic import Field, model_validator
from torch import nn

from skelbench.core.component import Spec
from skelbench.models.initial import trunc_normal
from skelbench.models.two_branch import (
    Branches,
    Embedding,
    TwoBranchEncoder,
    embedding_macs,
    pooled,
    post_norm_macs,
    post_norm_stack,
    sine_positions,
)
from skelbench.plugin import EncoderSpec, hookimpl
from skelbench.views.streams import SINGLE, as_stream


class TwoBranchConfig(Spec):
    """Defaults follow UmURL's code."""

    dim: int = Field(1024, ge=2, description="width of each branch; features are twice as wide")
    depth: int = Field(1, ge=1, description="layers of each branch")
    heads: int = Field(1, ge=1, description="attention heads")
    bodies: int = Field(2, ge=1, description="body slots of a clip, concatenated")
    joint_positions: bool = Field(False, description="learned positions in space; with depth 2 USDRL's STTR")
    fused: bool = Field(False, description="separate embeddings of joints, bones and motion, which may be fused")

    @model_validator(mode="after")
    def _consistent(self):
        if self.dim % self.heads or self.dim % 2:
            raise ValueError(f"dim {self.dim} must be even and a multiple of {self.heads} heads")
        return self


class TwoBranch(TwoBranchEncoder):
    """``TwoBranch(config, topology, grid)``: sine positions in time, none or learned ones in space, feed-forward parts
    as wide as D.

    With ``fused`` every stream has its own embedding, and all streams share the layers. For a view with stream "fused",
    each branch encodes a linear map of the mean of all three embeddings.
    """

    Config = TwoBranchConfig

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid, config.dim, config.bodies)
        streams = SINGLE if config.fused else SINGLE[:1]
        self.embed = nn.ModuleDict({stream: Embedding(config.bodies, grid, config.dim) for stream in streams})
        self.fuse = nn.ModuleList()
        if config.fused:
            self.abilities = self.abilities | {"fuse-streams"}
            self.fuse.extend(nn.Linear(config.dim, config.dim, bias=False) for _ in Branches._fields)
        positions = torch.empty(config.bodies * grid.joints, config.dim) if config.joint_positions else None
        self.space_KD = None if positions is None else nn.Parameter(trunc_normal(positions))
        self.register_buffer("time_TD", sine_positions(grid.frames, config.dim), persistent=False)
        self.time, self.space = (post_norm_stack(config.depth, config.dim, config.heads) for _ in Branches._fields)

    def forward(self, view, mask_RN=None, keep_RK=None):
        x_BMTJC = self.coordinates(view)
        if not self.config.fused:  # whatever the stream
            tokens = self.embed["joint"](x_BMTJC)
        elif view.stream != "fused":
            tokens = self.embed[view.stream](x_BMTJC)
        else:
            layers = [
                embed(as_stream(x_BMTJC, stream, self.topology, time=2, joint=3))
                for stream, embed in zip(SINGLE, self.embed.values())
            ]
            tokens = Branches(*(fuse(sum(branch) / len(layers)) for fuse, branch in zip(self.fuse, zip(*layers))))
        space_BKD = tokens.space if self.space_KD is None else tokens.space + self.space_KD
        return pooled(Branches(self.time(tokens.time + self.time_TD), self.space(space_BKD)))

    def closed_form_macs(self, grid, visible=None):
        """MACs of one clip: ``embed`` (all streams, fused, where it can), and the layers of each branch."""
        config, joints = self.config, self.bodies * grid.joints
        fusion = len(self.fuse) and (grid.frames + joints) * config.dim**2
        return {
            "embed": len(self.embed) * embedding_macs(self.bodies, grid, config.dim) + fusion,
            "time": config.depth * post_norm_macs(grid.frames, config.dim, config.dim),
            "space": config.depth * post_norm_macs(joints, config.dim, config.dim),
        }


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="two-branch",
            target=":TwoBranch",
            config=":TwoBranchConfig",
            summary="one transformer layer over frames and one over joints of both bodies, max over tokens",
            presets={"small": {"dim": 64}, "quick": {"dim": 48}},
        )
    ]
