"""GFP's compact decoder and target generator: few outputs, each for a joint over a window of time, or for the whole
clip.

Shapes: R rows (bodies), T frames, P temporal tokens, J joints, K visible tokens, D decoder width, E width of the
outputs, W windows of a level, M_l = W * J outputs of a local level (1 of the global one).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from skelbench.models.decoder import FilledGrid
from skelbench.models.heads import projection_mlp
from skelbench.models.initial import xavier_linear
from skelbench.models.vit import Block, ViTConfig
from skelbench.views.skeleton.grid import Grid


def windows(length: int, count: int) -> list[slice]:
    """Return ``count`` evenly spread windows of equal, smallest possible length that cover 0 .. length - 1.

    Windows are disjoint if ``count`` divides ``length``; otherwise they overlap as little as possible. Beginnings
    are rounded to the nearest, so that windows of tokens match the windows of their frames.
    """
    size, gaps = -(-length // count), max(1, count - 1)
    starts = [(2 * i * (length - size) + gaps) // (2 * gaps) for i in range(count)]
    return [slice(start, start + size) for start in starts]


def levels(counts: Sequence[int], times: int) -> list[int]:
    """Return the numbers of windows of each local level on a grid of ``times`` temporal tokens: at most ``times``."""
    return [min(count, times) for count in counts]


class PyramidDecoder(FilledGrid):
    """The filled grid, averaged over ever longer windows of time, with blocks and a linear output after each.

    Args:
        dim_in: width of the encoder's tokens.
        dim, heads, norm_eps: of the decoder's blocks.
        depth: blocks of the first level; the others have one each.
        counts: windows of each local level, from fine to coarse.
        grid: the full-length grid.
        out_dim: E.
    """

    def __init__(
        self,
        dim_in: int,
        dim: int,
        depth: int,
        heads: int,
        counts: Sequence[int],
        grid: Grid,
        out_dim: int,
        norm_eps: float = 1e-6,
    ) -> None:
        super().__init__(dim_in, dim, grid)
        self.config = ViTConfig(dim=dim, heads=heads, norm_eps=norm_eps, temporal="learned", cls=False)
        self.counts = levels(counts, grid.times)
        depths = [depth] + [1] * (len(counts) - 1)
        self.blocks = nn.ModuleList(nn.Sequential(*(Block(self.config) for _ in range(d))) for d in depths)
        self.norms = nn.ModuleList(nn.LayerNorm(dim, eps=norm_eps) for _ in range(len(counts) + 1))
        self.predict = nn.ModuleList(nn.Linear(dim, out_dim) for _ in range(len(counts) + 1))
        self.reset_parameters()

    def forward(self, tokens_RKD: Tensor, keep_RK: Tensor) -> list[Tensor]:
        """[R, M_l, E] of each level, fine to coarse, the global one last."""
        x_RPJD = self.fill(tokens_RKD, keep_RK).unflatten(1, (self.grid.times, self.grid.joints))
        outputs = []
        for count, blocks, norm, predict in zip(self.counts, self.blocks, self.norms, self.predict):
            x_RPJD = torch.stack([x_RPJD[:, window].mean(1) for window in windows(x_RPJD.shape[1], count)], 1)
            x_RMD = blocks(x_RPJD.flatten(1, 2))
            outputs.append(predict(norm(x_RMD)))
            x_RPJD = x_RMD.view_as(x_RPJD)
        outputs.append(self.predict[-1](self.norms[-1](x_RMD.mean(1, keepdim=True))))
        return outputs


class TargetGenerator(nn.Module):
    """One three-layer MLP per level on the motion of an unmasked body: the targets of :class:`PyramidDecoder`.

    A local level reads the motion of one joint over one window, the global one the motion of the whole body.
    Windows consist of frames, so they do not depend on the token grid.
    """

    def __init__(self, counts: Sequence[int], grid: Grid, hidden: int, hidden_global: int, out_dim: int) -> None:
        super().__init__()
        self.counts = levels(counts, grid.times)
        sizes = [3 * -(-grid.frames // count) for count in self.counts]
        self.local = nn.ModuleList(projection_mlp(size, hidden, out_dim) for size in sizes)
        self.whole = projection_mlp(3 * grid.frames * grid.joints, hidden_global, out_dim)
        self.apply(xavier_linear)

    def forward(self, motion_RTJC: Tensor) -> list[Tensor]:
        """[R, M_l, E] of each level, in the order of :class:`PyramidDecoder`."""
        targets = []
        for count, mlp in zip(self.counts, self.local):
            parts = [motion_RTJC[:, window].transpose(1, 2) for window in windows(motion_RTJC.shape[1], count)]
            targets.append(mlp(torch.cat(parts, 1).flatten(2)))
        targets.append(self.whole(motion_RTJC.flatten(1)).unsqueeze(1))
        return targets
