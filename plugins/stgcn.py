"""ST-GCN: convolutions over the skeleton's graph and over time (Yan et al., AAAI 2018), as contrastive methods use it.

Facts: LinguoLi/CrosSCLR, net/st_gcn.py: ten blocks, spatial partition of the neighbors, learned edge importance, 16
base channels; 821,380 parameters on Kinect v2. R rows (bodies), T frames, J joints, C channels, S = 3 subsets of
neighbors.
"""

from itertools import pairwise
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from skelbench.core.component import Spec
from skelbench.models.encoder import Encoded, Encoder
from skelbench.models.graph import bone_subsets
from skelbench.models.tokenizer import take
from skelbench.plugin import EncoderSpec, hookimpl

SUBSETS = 3
WIDTHS = (1, 1, 1, 1, 2, 2, 2, 4, 4)
"""Channels of the first nine blocks, in multiples of ``base``; the last has ``out``."""
STRIDED = (4, 7)
"""Blocks, from 0, that halve the frames."""


class STGCNConfig(Spec):
    """Defaults follow the contrastive methods' code.

    Its partition equals ST-GCN's only next to the hub: distances of more than one hop are infinite, hence equal
    (net/utils/graph.py with max_hop 1). Published numbers use it ("one-hop"). "spatial" is the paper's partition,
    "directed" is 2s-AGCN's, which SkeAttnCLR uses (GitHubOfHyl97/SkeAttnCLR, net/utils/ntu_rgb_d.py).
    """

    base: int = Field(16, ge=1, description="channels of the first blocks: 16, or 64 in ST-GCN's own paper")
    out: int = Field(256, ge=1, description="channels of the last block: the width of features")
    kernel: int = Field(9, ge=1, description="frames that a temporal convolution sees; odd")
    partition: Literal["one-hop", "spatial", "directed"] = Field(
        "one-hop",
        description="separate weights of neighbors nearer to the hub: only next to the hub, or everywhere; directed: a "
        "joint itself, its parent, and the mean of its children",
    )
    dropout: float = Field(0.5, ge=0, lt=1, description="dropout after every temporal convolution except the first")
    init: Literal["normal", "torch"] = Field("normal", description="weights from N(0, 0.02), or as PyTorch draws them")


class STGCN(Encoder):
    """``STGCN(config, topology, grid)``: one feature per body, the mean over frames and joints of the last block."""

    Config = STGCNConfig
    abilities = frozenset({"short-views", "drop-lines", "cells"})

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.width = self.features = config.out
        if config.partition == "directed":
            partition_SJJ = bone_subsets(topology)
        else:
            partition_SJJ = spatial_partition(topology, seen=1 if config.partition == "one-hop" else None)
        self.register_buffer("adjacency_SJJ", partition_SJJ, persistent=False)
        self.norm = nn.BatchNorm1d(3 * topology.num_joints)
        widths = [3, *(config.base * times for times in WIDTHS), config.out]
        self.blocks = nn.ModuleList(
            Block(before, after, config, stride=1 + (place in STRIDED), first=not place, joints=topology.num_joints)
            for place, (before, after) in enumerate(pairwise(widths))
        )
        if config.init == "normal":
            self.apply(_initialize)

    def forward(self, view, mask_RN=None, keep_RK=None):
        """Encode a view. Masked frames and joints are removed from the graph (YujieOuO/PSTL, module/gcn/st_gcn.py)."""
        x_RTJC, joints_RJ = view.x_RTJC, None
        if keep_RK is not None:
            x_RTJC = _frames(x_RTJC, keep_RK[:, :, 0].div(self.grid.joints, rounding_mode="floor"), self.grid.patch)
        x_RLT = x_RTJC.permute(0, 2, 3, 1).flatten(1, 2)  # rows: coordinates of joint 0, then of joint 1, ...
        x_RJL = self.norm(x_RLT).unflatten(1, (-1, 3)).flatten(2)
        if keep_RK is not None and keep_RK.shape[2] < self.grid.joints:
            joints_RJ = keep_RK[:, 0] % self.grid.joints
            x_RJL = take(x_RJL, joints_RJ)
        x_RCTJ = x_RJL.unflatten(2, (3, -1)).permute(0, 2, 3, 1)
        for block in self.blocks:
            x_RCTJ = block(x_RCTJ, self.adjacency_SJJ, joints_RJ)
        tokens_RND = x_RCTJ.flatten(2).transpose(1, 2)
        return Encoded(tokens_RND=tokens_RND, pooled_RD=tokens_RND.mean(1))

    def closed_form_macs(self, grid, visible=None):
        """Matrix products of one body: ``graph`` (per block 1x1 convolution and sum over neighbors) and ``time``."""
        frames, joints, macs = grid.frames, grid.joints, {"graph": 0, "time": 0, "residual": 0}
        for block in self.blocks:
            assert isinstance(block, Block)
            before, after = block.spread.in_channels, block.spread.out_channels // SUBSETS
            macs["graph"] += frames * joints * SUBSETS * after * (before + joints)
            frames = -(-frames // block.stride)
            macs["time"] += frames * joints * after * after * self.config.kernel
            macs["residual"] += frames * joints * before * after * isinstance(block.residual, nn.Sequential)
        return macs


class Block(nn.Module):
    """A sum over neighbors, a convolution over time, a residual."""

    def __init__(self, before: int, after: int, config: STGCNConfig, stride: int, first: bool, joints: int) -> None:
        super().__init__()
        self.stride, self.first = stride, first
        self.spread = nn.Conv2d(before, SUBSETS * after, 1)
        self.importance_SJJ = nn.Parameter(torch.ones(SUBSETS, joints, joints))
        self.time = nn.Sequential(
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, (config.kernel, 1), (stride, 1), (config.kernel // 2, 0)),
            nn.BatchNorm2d(after),
            nn.Dropout(0.0 if first else config.dropout),
        )
        self.residual: nn.Module = nn.Identity()
        if not first and (before != after or stride > 1):
            self.residual = nn.Sequential(nn.Conv2d(before, after, 1, (stride, 1)), nn.BatchNorm2d(after))

    def forward(self, x_RCTJ: Tensor, adjacency_SJJ: Tensor, joints_RJ: Tensor | None = None) -> Tensor:
        """[R, C, T, J] -> [R, C', T / stride, J]. ``joints_RJ``: the joints in ``x_RCTJ``, if not all."""
        x_RSCTJ = self.spread(x_RCTJ).unflatten(1, (SUBSETS, -1))
        adjacency_SJJ = adjacency_SJJ * self.importance_SJJ
        if joints_RJ is None:
            y_RCTJ = torch.einsum("rsctj,sjk->rctk", x_RSCTJ, adjacency_SJJ)
        else:
            adjacency_SRJJ = adjacency_SJJ[:, joints_RJ[:, :, None], joints_RJ[:, None]]
            y_RCTJ = torch.einsum("rsctj,srjk->rctk", x_RSCTJ, adjacency_SRJJ)
        y_RCTJ = self.time(y_RCTJ)
        return torch.relu(y_RCTJ if self.first else y_RCTJ + self.residual(x_RCTJ))


def _frames(x_RTJC: Tensor, patches_RP: Tensor, patch: int) -> Tensor:
    """The frames of the given patches, one after another."""
    frames_RT = (patches_RP[:, :, None] * patch + torch.arange(patch, device=x_RTJC.device)).flatten(1)
    return take(x_RTJC.flatten(2), frames_RT).unflatten(2, x_RTJC.shape[2:])


def spatial_partition(topology, seen: int | None = None) -> Tensor:
    """float32 [S, J, J]: column k has the weights in joint k of itself, of neighbors at the same or a larger distance
    from the body's hub, and of nearer neighbors; a joint's neighbors count equally (columns sum to 1).

    Neighbors share one of :attr:`Topology.bones`; the hub is the joint with most of them, the spine between the
    shoulders of Kinect's skeletons, as in ST-GCN's code. ``seen``: larger distances, in hops, count as equal.
    """
    joints = topology.num_joints
    bones = torch.from_numpy(topology.linked).float()
    hops_J, reached_J = torch.full((joints,), joints), torch.zeros(joints)
    reached_J[int(bones.sum(0).argmax())] = 1
    for hop in range(joints):
        hops_J = torch.where((reached_J > 0) & (hops_J == joints), hop, hops_J)
        reached_J = reached_J + bones @ reached_J
    if seen is not None:
        hops_J = hops_J.clamp(max=seen + 1)
    linked_JJ = bones + torch.eye(joints)
    share_JJ = linked_JJ / linked_JJ.sum(0)
    farther_JJ = hops_J[:, None] - hops_J[None, :]
    own = torch.eye(joints) * share_JJ
    return torch.stack([own, (farther_JJ >= 0) * share_JJ - own, (farther_JJ < 0) * share_JJ])


def _initialize(module: nn.Module) -> None:
    """Normal (0.02) convolutions, batch norm around 1: the contrastive methods' code."""
    if isinstance(module, nn.Conv2d | nn.BatchNorm1d | nn.BatchNorm2d):
        nn.init.normal_(module.weight, 0.0 if isinstance(module, nn.Conv2d) else 1.0, 0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="stgcn",
            target=":STGCN",
            config=":STGCNConfig",
            summary="graph convolutions over joints and convolutions over time, 10 blocks",
            presets={"small": {"base": 8, "out": 64}, "quick": {"base": 4, "out": 48}},
        )
    ]
