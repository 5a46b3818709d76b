"""Adaptive graph convolutions (2s-AGCN, Shi et al., CVPR 2019), as in ISC's graph-based encoder.

Facts: fmthoker/skeleton-contrast, moco/AGCN.py and graph/: ten blocks. The weights between joints are the sum of the
graph, learned weights, and similarities of joints in the clip. B clips, M body slots, R = B * M bodies, T frames, J
joints, C channels.
"""

from itertools import pairwise

import torch
from pydantic import Field
from torch import Tensor, nn

from skelbench.core.component import Spec
from skelbench.models.encoder import Encoded, Encoder, side_by_side
from skelbench.models.graph import SUBSETS, bone_subsets
from skelbench.plugin import EncoderSpec, hookimpl

WIDTHS = (1, 1, 1, 1, 2, 2, 2, 4, 4, 4)
"""Channels of the blocks, in multiples of ``base``."""
STRIDED = (4, 7)
"""Indices of the blocks that halve the number of frames."""


class AGCNConfig(Spec):
    """Defaults follow ISC's code."""

    base: int = Field(64, ge=1, description="channels of the first blocks; features are four times as wide")
    kernel: int = Field(9, ge=1, description="frames that a temporal convolution sees; odd")
    bodies: int = Field(2, ge=1, description="body slots of a clip, with a common batch norm; they are averaged")


class AGCN(Encoder):
    """``AGCN(config, topology, grid)``: a feature per clip, the mean over bodies (absent ones too), frames, joints."""

    Config = AGCNConfig
    abilities = frozenset({"short-views"})

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.bodies, self.width = config.bodies, config.base * WIDTHS[-1]
        self.features = self.width
        self.register_buffer("adjacency_SJJ", bone_subsets(topology), persistent=False)
        self.norm = nn.BatchNorm1d(config.bodies * topology.num_joints * 3)
        widths = [3, *(config.base * times for times in WIDTHS)]
        self.blocks = nn.ModuleList(
            Block(before, after, config.kernel, 1 + (place in STRIDED), first=not place, joints=topology.num_joints)
            for place, (before, after) in enumerate(pairwise(widths))
        )

    def forward(self, view, mask_RN=None, keep_RK=None):
        x_BMTJC = side_by_side(view, self.bodies)
        x_BLT = self.norm(x_BMTJC.permute(0, 1, 3, 4, 2).flatten(1, 3))  # body by body, joint by joint
        x_RCTJ = x_BLT.view(-1, *x_BMTJC.shape[3:], x_BMTJC.shape[2]).permute(0, 2, 3, 1)
        for block in self.blocks:
            x_RCTJ = block(x_RCTJ, self.adjacency_SJJ)
        tokens_BND = x_RCTJ.flatten(2).transpose(1, 2).reshape(len(x_BMTJC), -1, self.width)
        return Encoded(tokens_RND=tokens_BND, pooled_RD=tokens_BND.mean(1), per_clip=True)

    def closed_form_macs(self, grid, visible=None):
        """MACs of one clip: ``likeness`` of joints, ``graph`` (sums over neighbors, 1x1 convolutions), ``time``."""
        frames, joints = grid.frames, grid.joints
        macs = {"likeness": 0, "graph": 0, "time": 0, "residual": 0}
        for block in self.blocks:
            assert isinstance(block, Block)
            before, after, cells = block.before, block.after, self.bodies * frames * joints
            macs["likeness"] += cells * SUBSETS * _narrow(after) * (2 * before + joints)
            macs["graph"] += cells * SUBSETS * before * (joints + after)
            macs["residual"] += cells * before * after * isinstance(block.graph.residual, nn.Sequential)
            frames = -(-frames // block.stride)
            cells = self.bodies * frames * joints
            macs["time"] += cells * after * after * self.config.kernel
            macs["residual"] += cells * before * after * isinstance(block.residual, nn.Sequential)
        return macs


class Block(nn.Module):
    """An adaptive graph convolution, a convolution over time, a residual."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, first: bool, joints: int) -> None:
        super().__init__()
        self.before, self.after, self.stride, self.first = before, after, stride, first
        self.graph = AdaptiveGraph(before, after, joints)
        self.time = _temporal(after, after, kernel, stride)
        self.residual: nn.Module = nn.Identity()
        if not first and (before != after or stride > 1):
            self.residual = _temporal(before, after, 1, stride)

    def forward(self, x_RCTJ: Tensor, adjacency_SJJ: Tensor) -> Tensor:
        """[R, C, T, J] -> [R, C', T / stride, J]."""
        y_RCTJ = self.time(self.graph(x_RCTJ, adjacency_SJJ))
        return torch.relu(y_RCTJ if self.first else y_RCTJ + self.residual(x_RCTJ))


class AdaptiveGraph(nn.Module):
    """Sum over joints, weighted by the graph, by learned weights and by the similarity of joints in the clip."""

    def __init__(self, before: int, after: int, joints: int) -> None:
        super().__init__()
        self.own_SJJ = nn.Parameter(torch.full((SUBSETS, joints, joints), 1e-6))
        self.query, self.key = (
            nn.ModuleList(_convolution(before, _narrow(after)) for _ in range(SUBSETS)) for _ in range(2)
        )
        share = (2 / (SUBSETS * before * after)) ** 0.5
        self.value = nn.ModuleList(_convolution(before, after, std=share) for _ in range(SUBSETS))
        self.norm = nn.BatchNorm2d(after)
        self.residual: nn.Module = nn.Identity()
        if before != after:
            self.residual = _temporal(before, after, 1, 1)
        nn.init.constant_(self.norm.weight, 1e-6)

    def forward(self, x_RCTJ: Tensor, adjacency_SJJ: Tensor) -> Tensor:
        """[R, C, T, J] -> [R, C', T, J]."""
        x_RLJ, parts = x_RCTJ.flatten(1, 2), []
        for subset, graph_JJ in enumerate(adjacency_SJJ + self.own_SJJ):
            query_RLJ, key_RLJ = (side[subset](x_RCTJ).flatten(1, 2) for side in (self.query, self.key))
            alike_RJJ = (query_RLJ.transpose(1, 2) @ key_RLJ / query_RLJ.shape[1]).softmax(1)
            around_RCTJ = (x_RLJ @ (alike_RJJ + graph_JJ)).view_as(x_RCTJ)
            parts.append(self.value[subset](around_RCTJ))
        return torch.relu(self.norm(torch.stack(parts).sum(0)) + self.residual(x_RCTJ))


def _narrow(after: int) -> int:
    """Number of channels for the similarity of joints."""
    return max(1, after // 4)


def _temporal(before: int, after: int, kernel: int, stride: int) -> nn.Sequential:
    return nn.Sequential(_convolution(before, after, kernel, stride), nn.BatchNorm2d(after))


def _convolution(before: int, after: int, kernel: int = 1, stride: int = 1, std: float | None = None) -> nn.Conv2d:
    """Over time; normal weights, with deviation ``std`` or by the fan-out."""
    conv = nn.Conv2d(before, after, (kernel, 1), (stride, 1), (kernel // 2, 0))
    nn.init.normal_(conv.weight, 0.0, (2 / (after * kernel)) ** 0.5 if std is None else std)
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)
    return conv


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="agcn",
            target=":AGCN",
            config=":AGCNConfig",
            summary="adaptive graph convolutions over joints and convolutions over time, one feature per clip",
            presets={"small": {"base": 16}, "quick": {"base": 12}},
        )
    ]
