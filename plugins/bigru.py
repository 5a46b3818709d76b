"""Recurrent encoder of ISC, CMD, HaLP and PCM3: three layers of two GRUs over a clip's frames, bodies side by side.

Facts: maoyunyao/CMD and fmthoker/skeleton-contrast, moco/GRU.py. A "bidirectional" GRU is fed one frame at a time,
so both of its directions run forwards: two causal GRUs per layer, each reading both of the layer below. B clips (times
views), M body slots, T frames, J joints, C = 3, L = J * C * M numbers of a frame, H width of a GRU.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import nn

from skelbench.component import Spec
from skelbench.nn.encoder import Encoded, Encoder, side_by_side
from skelbench.plugin import EncoderSpec, hookimpl


class BiGRUConfig(Spec):
    """Defaults are those of CMD's code."""

    hidden: int = Field(1024, ge=1, description="width of each GRU; features are twice as wide")
    depth: int = Field(3, ge=1, description="layers")
    bodies: int = Field(2, ge=1, description="body slots of a clip, read side by side")
    input_norm: bool = Field(True, description="batch norm of every number of a frame; ISC has none")
    second: Literal["forward", "backward"] = Field(
        "forward", description="how the second GRU of a layer reads the frames: as the code does, or as its name says"
    )


class BiGRU(Encoder):
    """``BiGRU(config, topology, grid)``: one feature per clip, the last states of both GRUs of the last layer."""

    Config = BiGRUConfig
    abilities = frozenset({"short-views", "steps"})

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.bodies, self.width = config.bodies, 2 * config.hidden
        self.features = self.width
        numbers = topology.num_joints * 3 * config.bodies
        self.input_norm = nn.BatchNorm1d(numbers) if config.input_norm else nn.Identity()
        widths = [numbers, *[self.width] * (config.depth - 1)]
        self.first, self.second = (
            nn.ModuleList(nn.GRU(width, config.hidden, batch_first=True) for width in widths) for _ in range(2)
        )
        for parameter in (*self.first.parameters(), *self.second.parameters()):
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)

    def forward(self, view, mask_RN=None, keep_RK=None):
        x_BTL = side_by_side(view, self.bodies).permute(0, 2, 3, 4, 1).flatten(2)  # as in the code: bodies innermost
        x_BTH = self.input_norm(x_BTL.transpose(1, 2)).transpose(1, 2)
        for first, second in zip(self.first, self.second):
            x_BTH = torch.cat([first(x_BTH)[0], self._second(second, x_BTH)], 2)
        hidden = self.config.hidden
        ends = -1 if self.config.second == "forward" else 0
        pooled_BD = torch.cat([x_BTH[:, -1, :hidden], x_BTH[:, ends, hidden:]], 1)
        return Encoded(tokens_RND=x_BTH, pooled_RD=pooled_BD, per_clip=True)

    def _second(self, gru, x_BTH):
        if self.config.second == "forward":
            return gru(x_BTH)[0]
        return gru(x_BTH.flip(1))[0].flip(1)

    def closed_form_macs(self, grid, visible=None):
        """Of one clip, by layer: three gates of each GRU, from its input and from its state."""
        hidden = self.config.hidden
        grus = enumerate(self.first)
        return {
            f"layer {place}": 2 * grid.frames * 3 * hidden * (gru.input_size + hidden)
            for place, gru in grus
            if isinstance(gru, nn.GRU)
        }


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="bigru",
            target=":BiGRU",
            config=":BiGRUConfig",
            summary="three layers of two GRUs over the frames of both bodies, one feature per clip",
            presets={"small": {"hidden": 64}, "quick": {"hidden": 48}},
        )
    ]
