"""GL-Transformer's encoder: attention over all joints of a frame, then over frames (Kim et al., ECCV 2022).

A frame of both bodies is one sequence of joints; over time a frame is one token, all its joints side by side. Frames
that are padding are not keys. Facts: Boeun-Kim/GL-Transformer, model/transformer.py. B clips (times views), M body
slots, T frames, J joints, C = 3, K = J * M places, joint by joint, D width of a place, W = K * D width of a frame.
"""

import torch
from pydantic import Field, model_validator
from torch import nn

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.models.encoder import Encoded, Encoder, real_frames, side_by_side
from skelbench.models.layers import set_drop_path
from skelbench.plugin import EncoderSpec, hookimpl


class GLTConfig(Spec):
    """Defaults follow the authors' code."""

    dim: int = Field(48, ge=1, description="width of a joint of a body; a frame of both is 2 J times as wide")
    depth: int = Field(4, ge=1, description="blocks")
    heads: int = Field(8, ge=1, description="attention heads, over joints and over frames")
    expand: float = Field(2.0, gt=0, description="hidden width of the feed-forward parts, times a frame's width")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of embeddings, attention and every branch")
    drop_path: float = Field(0.1, ge=0, lt=1, description="stochastic depth of the last block, 0 in the first")
    bodies: int = Field(2, ge=1, description="body slots of a clip, concatenated into one sequence")

    @model_validator(mode="after")
    def _consistent(self):
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} cannot be split into {self.heads} heads; choose a multiple")
        return self


class Block(nn.Module):
    """Attention over places, over frames, feed-forward; positions are added before both attentions."""

    def __init__(self, frames, places, config):
        from timm.layers import Attention  # slow to import

        super().__init__()
        width, hidden, rate = places * config.dim, int(places * config.dim * config.expand), config.dropout
        how = {"num_heads": config.heads, "qkv_bias": True, "attn_drop": rate, "proj_drop": rate}
        self.positions = nn.Parameter(torch.zeros(frames, places, config.dim))
        self.norm_space, self.norm_time, self.norm = (nn.LayerNorm(n) for n in (config.dim, width, width))
        self.space, self.time = Attention(config.dim, **how), Attention(width, **how)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Dropout(rate), nn.Linear(hidden, width), nn.Dropout(rate)
        )
        self.drop_path = nn.Identity()

    def forward(self, x_BTKD, real_B11T):
        x_FKD = (x_BTKD + self.positions).flatten(0, 1)  # frames are dropped one by one, as in the code
        x_FKD = x_FKD + self.drop_path(self.space(self.norm_space(x_FKD)))
        x_BTW = (x_FKD.view_as(x_BTKD) + self.positions).flatten(2)
        x_BTW = x_BTW + self.drop_path(self.time(self.norm_time(x_BTW), attn_mask=real_B11T))
        x_BTW = x_BTW + self.drop_path(self.mlp(self.norm(x_BTW)))
        return x_BTW.view_as(x_BTKD)


class GLT(Encoder):
    """``GLT(config, topology, grid)``: one row per clip, a token per frame, read out by the mean of real frames.

    The joint between the shoulders (the topology's center where there is none) has an embedding of its own: in clips
    aligned "frames-with-path" it carries the position of the body. All body slots are read, absent bodies as zeros;
    clips have exactly the grid's frames.
    """

    Config = GLTConfig
    abilities = frozenset({"steps"})

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        places = topology.num_joints * config.bodies
        self.bodies, self.width = config.bodies, places * config.dim
        self.features = self.width
        self.embed, self.embed_path = nn.Linear(3, config.dim), nn.Linear(3, config.dim)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(grid.frames, places, config) for _ in range(config.depth))
        self.set_drop_path(config.drop_path)
        self.norm = nn.LayerNorm(self.width)
        layers = ((nn.Linear(self.width, self.width), nn.GELU(), nn.LayerNorm(self.width)) for _ in range(2))
        self.head = nn.Sequential(*(layer for part in layers for layer in part))

    def set_drop_path(self, rate):
        set_drop_path(list(self.blocks), rate)
        return True

    def forward(self, view, mask_RN=None, keep_RK=None):
        if (frames := view.x_RTJC.shape[1]) != self.grid.frames:
            raise SkelbenchError(f"this encoder reads clips of {self.grid.frames} frames, not of {frames}")
        x_BTJMC = side_by_side(view, self.bodies).permute(0, 2, 3, 1, 4)
        joint = self.topology.anchor
        before, path, after = x_BTJMC.split([joint, 1, x_BTJMC.shape[2] - joint - 1], 2)
        tokens_BTJMD = torch.cat([self.embed(before), self.embed_path(path), self.embed(after)], 2)
        x_BTKD = self.dropout(tokens_BTJMD.flatten(2, 3))
        real_BT = real_frames(view)
        real_B11T = None if real_BT is None else real_BT[:, None, None]
        for block in self.blocks:
            x_BTKD = block(x_BTKD, real_B11T)
        tokens_BTW = self.head(self.norm(x_BTKD.flatten(2)))
        if real_BT is None:
            pooled_BW = tokens_BTW.mean(1)
        else:
            pooled_BW = (tokens_BTW * real_BT[:, :, None]).sum(1) / real_BT.sum(1, keepdim=True)
        return Encoded(tokens_RND=tokens_BTW, pooled_RD=pooled_BW, per_clip=True, by_frame=True)

    def closed_form_macs(self, grid, visible=None):
        """MACs of one clip: ``embed``, attention over ``space`` and ``time``, ``mlp`` and ``head``."""
        config, frames, width = self.config, grid.frames, self.width
        places = width // config.dim
        return {
            "embed": frames * 3 * width,
            "space": config.depth * frames * (4 * width * config.dim + 2 * places * width),
            "time": config.depth * (4 * frames * width**2 + 2 * frames**2 * width),
            "mlp": config.depth * 2 * frames * width * int(width * config.expand),
            "head": 2 * frames * width**2,
        }


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="glt",
            target=":GLT",
            config=":GLTConfig",
            summary="attention over the joints of both bodies in a frame, then over frames",
            presets={"small": {"dim": 8, "depth": 2, "heads": 4}, "quick": {"dim": 4, "depth": 2, "heads": 2}},
        )
    ]
