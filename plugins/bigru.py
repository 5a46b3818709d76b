"""Recurrent encoder of ISC, CMD, HaLP and PCM3: three layers of two GRUs over a clip's frames, bodies side by side.

Facts: maoyunyao/CMD and fmthoker/skeleton-contrast, moco/GRU.py. A "bidirectional" GRU is fed one frame at a time,
so both of its directions run forwards: two causal GRUs per layer, each reads both GRUs of the layer below. B clips
(times views), M body slots, T frames, J joints, C = 3, L = J * C * M numbers of a frame, H width of a GRU.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import nn

from skelbench.core.component import Grown
from skelbench.models.encoder import Encoded, Encoder, real_frames, side_by_side
from skelbench.models.recurrent import GRU, last_real, turned, unit_range
from skelbench.plugin import EncoderSpec, hookimpl


class BiGRUConfig(Grown):
    """Defaults follow CMD's code."""

    ADDED = frozenset({"unit_range"})

    hidden: int = Field(1024, ge=1, description="width of each GRU; features are twice as wide")
    depth: int = Field(3, ge=1, description="layers")
    bodies: int = Field(2, ge=0, description="body slots of a clip, concatenated; 0 = each body separately")
    input_norm: bool = Field(True, description="batch norm of every number of a frame; ISC has none")
    second: Literal["forward", "backward"] = Field(
        "forward", description="direction of the second GRU of a layer: as in the code, or backwards as in its name"
    )
    unit_range: bool = Field(False, description="scale each coordinate of a body to [-1, 1] over a clip (P&C)")


class BiGRU(Encoder):
    """``BiGRU(config, topology, grid)``: one feature per clip, or per body, the last states of both GRUs of the last
    layer. Padding has no influence, also not on the layers that read backwards."""

    Config = BiGRUConfig
    abilities = frozenset({"short-views", "steps"})

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.bodies = max(1, config.bodies)
        self.width = self.features = 2 * config.hidden
        numbers = topology.num_joints * 3 * self.bodies
        self.input_norm = nn.BatchNorm1d(numbers) if config.input_norm else nn.Identity()
        widths = [numbers, *[self.width] * (config.depth - 1)]
        self.first, self.second = (
            nn.ModuleList(GRU(width, config.hidden, batch_first=True) for width in widths) for _ in range(2)
        )
        for parameter in (*self.first.parameters(), *self.second.parameters()):
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)

    def forward(self, view, mask_RN=None, keep_RK=None):
        together, real_BT = self.config.bodies > 0, view.real_RT
        if self.config.unit_range:
            view = view.with_x(unit_range(view.x_RTJC, real_BT))
        x_BTL = view.x_RTJC.flatten(2)
        if together:
            # layout of the authors' code: bodies are the innermost dimension
            x_BTL, real_BT = side_by_side(view, self.bodies).permute(0, 2, 3, 4, 1).flatten(2), real_frames(view)
        x_BTH = self.input_norm(x_BTL.transpose(1, 2)).transpose(1, 2)
        for first, second in zip(self.first, self.second):
            x_BTH = torch.cat([first(x_BTH)[0], self._second(second, x_BTH, real_BT)], 2)
        first_BTH, second_BTH = x_BTH.chunk(2, 2)
        ends_BH = last_real(second_BTH, real_BT) if self.config.second == "forward" else second_BTH[:, 0]
        pooled_BD = torch.cat([last_real(first_BTH, real_BT), ends_BH], 1)
        return Encoded(tokens_RND=x_BTH, pooled_RD=pooled_BD, per_clip=together, by_frame=True)

    def _second(self, gru, x_BTH, real_BT):
        if self.config.second == "forward":
            return gru(x_BTH)[0]
        return turned(gru(turned(x_BTH, real_BT))[0], real_BT)

    def closed_form_macs(self, grid, visible=None):
        """MACs of one clip, or body, by layer: three gates of each GRU, from its input and from its state."""
        hidden = self.config.hidden
        grus = enumerate(self.first)
        return {
            f"layer {place}": 2 * grid.frames * 3 * hidden * (gru.input_size + hidden)
            for place, gru in grus
            if isinstance(gru, GRU)
        }


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="bigru",
            target=":BiGRU",
            config=":BiGRUConfig",
            summary="three layers of two GRUs over the frames of both bodies, one feature per clip, or of each body",
            presets={"small": {"hidden": 64}, "quick": {"hidden": 48}},
        )
    ]
