"""SCD-Net's graph convolutions: a sum over neighbors that depends on the clip, then convolutions over time.

Facts: cong-wu/SCD-Net, model/ctrgcn.py (CTR-GCN: Chen et al., ICCV 2021). B clips, M body slots, R = B * M bodies, T
frames, J joints (U: joints that a sum is computed for), C = 3, L channels, S = 3 subsets of neighbors.
"""

import torch
from torch import Tensor, nn

from skelbench.models.graph import SUBSETS, bone_subsets

KERNEL, DILATIONS = 5, (1, 2)
PATHS = len(DILATIONS) + 2
"""Branches of a convolution over time: dilated ones, a maximum over three frames, and the frame itself."""


class Graph(nn.Module):
    """Batch norm of every number of a frame, and three units over graph and time, body by body."""

    def __init__(self, channels: int, bodies: int, topology) -> None:
        super().__init__()
        # Rows and columns are swapped, as in CTR-GCN: row k has the joints whose bones begin at k.
        adjacency_SJJ = bone_subsets(topology)
        self.norm = nn.BatchNorm1d(bodies * topology.num_joints * 3)
        self.units = nn.ModuleList(
            Unit(before, after, adjacency_SJJ)
            for before, after in ((3, channels), (channels, 4 * channels), (4 * channels, channels))
        )

    def forward(self, x_BMTJC: Tensor) -> Tensor:
        """[B, M, T, J, L]."""
        bodies, _, joints = x_BMTJC.shape[1:4]
        x_BNT = self.norm(x_BMTJC.permute(0, 1, 3, 4, 2).flatten(1, 3))
        x_RLTJ = x_BNT.unflatten(1, (bodies, joints, 3)).permute(0, 1, 3, 4, 2).flatten(0, 1)
        for unit in self.units:
            x_RLTJ = unit(x_RLTJ)
        return x_RLTJ.unflatten(0, (-1, bodies)).permute(0, 1, 3, 4, 2)


class Unit(nn.Module):
    """A sum over neighbors, convolutions over time, a residual (not of coordinates)."""

    def __init__(self, before: int, after: int, adjacency_SJJ: Tensor) -> None:
        super().__init__()
        self.space, self.time = Neighbors(before, after, adjacency_SJJ), Time(after)
        self.residual = None if before == 3 else _point(before, after)

    def forward(self, x_RLTJ: Tensor) -> Tensor:
        """[R, L, T, J] -> [R, L', T, J]."""
        y_RLTJ = self.time(self.space(x_RLTJ))
        return torch.relu(y_RLTJ if self.residual is None else y_RLTJ + self.residual(x_RLTJ))

    def macs(self, frames: int, joints: int) -> int:
        """Multiply-accumulates of matrix products, of one body."""
        space, cells = self.space, frames * joints
        before, after, related = space.value.in_channels, len(space.norm.weight), space.left.out_channels
        graph = cells * before * (2 * related + SUBSETS * after) + joints**2 * related * after
        time = cells * (after**2 + len(DILATIONS) * KERNEL * (after // PATHS) ** 2)
        points = cells * before * after * (1 if self.residual is None else 2)
        return graph + SUBSETS * cells * joints * after + time + points


class Neighbors(nn.Module):
    """Weighted sum over joints with a residual. Weights are learned, plus a correction per channel from the difference
    of two joints' means over time."""

    def __init__(self, before: int, after: int, adjacency_SJJ: Tensor) -> None:
        super().__init__()
        related = 8 if before == 3 else before // 8
        self.left, self.right = (nn.Conv2d(before, SUBSETS * related, 1) for _ in range(2))
        self.value = nn.Conv2d(before, SUBSETS * after, 1)
        self.spread = nn.Conv2d(SUBSETS * related, SUBSETS * after, 1, groups=SUBSETS)
        self.weight_SJJ, self.corrected = nn.Parameter(adjacency_SJJ.clone()), nn.Parameter(torch.zeros(1))
        self.norm, self.residual = nn.BatchNorm2d(after), _point(before, after)
        for conv in (self.left, self.right, self.value, self.spread):
            _kaiming(conv, SUBSETS)
        nn.init.constant_(self.norm.weight, 1e-6)

    def forward(self, x_RLTJ: Tensor) -> Tensor:
        """[R, L, T, J] -> [R, L', T, J]."""
        left_RLJ, right_RLJ = (conv(x_RLTJ).mean(2) for conv in (self.left, self.right))
        differ_RLUJ = torch.tanh(left_RLJ[..., None] - right_RLJ[..., None, :])
        weight_RSLUJ = self.spread(differ_RLUJ).unflatten(1, (SUBSETS, -1)) * self.corrected
        weight_RSLUJ = weight_RSLUJ + self.weight_SJJ[:, None]
        value_RSLTJ = self.value(x_RLTJ).unflatten(1, (SUBSETS, -1))
        y_RLTU = torch.einsum("rslvw,rsltw->rltv", weight_RSLUJ, value_RSLTJ)
        return torch.relu(self.norm(y_RLTU) + self.residual(x_RLTJ))


class Time(nn.Module):
    """Four paths over time side by side, a quarter of the channels each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        part = width // PATHS
        self.paths = nn.ModuleList()
        for dilation in DILATIONS:
            reach = dilation * (KERNEL // 2)
            over_time = nn.Conv2d(part, part, (KERNEL, 1), padding=(reach, 0), dilation=(dilation, 1))
            self.paths.append(nn.Sequential(*_point(width, part), nn.ReLU(), over_time, nn.BatchNorm2d(part)))
        nearest = nn.MaxPool2d((3, 1), stride=1, padding=(1, 0))
        self.paths.append(nn.Sequential(*_point(width, part), nn.ReLU(), nearest, nn.BatchNorm2d(part)))
        self.paths.append(_point(width, part))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                _kaiming(module)
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.normal_(module.weight, 1.0, 0.02)

    def forward(self, x_RLTJ: Tensor) -> Tensor:
        """Same shape."""
        return torch.cat([path(x_RLTJ) for path in self.paths], 1)


def _point(before: int, after: int) -> nn.Sequential:
    """A 1x1 convolution and batch norm."""
    conv = nn.Conv2d(before, after, 1)
    _kaiming(conv)
    return nn.Sequential(conv, nn.BatchNorm2d(after))


def _kaiming(conv: nn.Conv2d, subsets: int = 1) -> None:
    """He's normal weights by the outputs of a subset, zero biases."""
    outputs = conv.out_channels // subsets * conv.kernel_size[0]
    nn.init.normal_(conv.weight, std=(2 / outputs) ** 0.5)
    assert conv.bias is not None
    nn.init.zeros_(conv.bias)
