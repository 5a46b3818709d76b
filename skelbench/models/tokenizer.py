"""Tokens from coordinates: patches, their projection, and position embeddings.

Shapes: R rows (bodies), T frames, J joints, P = T / P_T temporal tokens, N = P * J tokens, L = P_T * 3 patch values,
D width, K visible tokens of a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from skelbench.core.errors import SkelbenchError
from skelbench.models.initial import trunc_normal
from skelbench.views.skeleton.grid import Grid


def patchify(x_RTJC: Tensor, patch: int) -> Tensor:
    """[R, T, J, C] -> [R, N, patch * C]; token n is temporal index n // J, joint n % J; values time by coordinate.

    >>> patchify(torch.randn(2, 16, 25, 3), patch=8).shape
    torch.Size([2, 50, 24])
    """
    R, T, J, C = x_RTJC.shape
    x = x_RTJC.reshape(R, T // patch, patch, J, C).transpose(2, 3)
    return x.reshape(R, (T // patch) * J, patch * C)


def unpatchify(x_RNL: Tensor, patch: int, joints: int) -> Tensor:
    """[R, N, patch * C] -> [R, T, J, C]: the inverse of :func:`patchify`.

    >>> x_RTJC = torch.randn(2, 16, 25, 3)
    >>> torch.equal(unpatchify(patchify(x_RTJC, patch=8), patch=8, joints=25), x_RTJC)
    True
    """
    x_RPJpC = x_RNL.unflatten(1, (-1, joints)).unflatten(3, (patch, -1))
    return x_RPJpC.transpose(2, 3).flatten(1, 2)


def take(x_RND: Tensor, keep_RK: Tensor) -> Tensor:
    """The tokens ``keep_RK`` (int64 [R, K]) of each row: [R, K, D].

    >>> take(torch.arange(4.0).view(1, 4, 1), torch.tensor([[1, 3]])).flatten()
    tensor([1., 3.])
    """
    return x_RND.gather(1, keep_RK.unsqueeze(-1).expand(-1, -1, x_RND.shape[-1]))


def put(x_RKD: Tensor, keep_RK: Tensor, filler_RND: Tensor) -> Tensor:
    """``filler_RND`` with each row's tokens ``keep_RK`` replaced by ``x_RKD``.

    >>> put(torch.ones(1, 2, 1), torch.tensor([[1, 3]]), torch.zeros(1, 4, 1)).flatten()
    tensor([0., 1., 0., 1.])
    """
    return torch.scatter(filler_RND, 1, keep_RK.unsqueeze(-1).expand_as(x_RKD), x_RKD)


class Standardize(nn.Module):
    """(x - mean) / std with constants per coordinate; they are settings, so the state dict does not contain them.

    >>> Standardize((0.0, 0.0, 3.0), (1.0, 1.0, 2.0))(torch.tensor([1.0, 1.0, 5.0]))
    tensor([1., 1., 1.])
    """

    mean_C: Tensor
    std_C: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean_C", torch.tensor(mean), persistent=False)
        self.register_buffer("std_C", torch.tensor(std), persistent=False)

    def forward(self, x_RTJC: Tensor) -> Tensor:
        """Same shape."""
        return (x_RTJC - self.mean_C) / self.std_C


class Tokenizer(nn.Module):
    """Patch projection, joint embedding and, where positions in time are learned, temporal embedding.

    Args:
        grid: grid of the longest view; shorter views take the first temporal embeddings.
        dim: D.
        learned_time: add one learned vector per temporal index.
        class_position: one more row of the joint embedding, for a class token.
        standardize: applied to coordinates before they are cut into patches.

    >>> tokenizer = Tokenizer(Grid(frames=16, patch=8, joints=25), dim=8, learned_time=True)
    >>> tokenizer(torch.randn(2, 16, 25, 3)).shape
    torch.Size([2, 50, 8])
    """

    def __init__(
        self,
        grid: Grid,
        dim: int,
        *,
        learned_time: bool,
        class_position: bool = False,
        standardize: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.grid = grid
        self.standardize = standardize or nn.Identity()
        self.project = nn.Linear(grid.patch * 3, dim)
        self.mask_token: nn.Parameter | None
        self.register_parameter("mask_token", None)
        self.joint_embed = nn.Parameter(torch.empty(grid.joints + class_position, dim))
        self.time_embed = nn.Parameter(torch.empty(grid.times, dim)) if learned_time else None
        with torch.random.fork_rng(devices=[]):  # an encoder draws again, with the same state of the generator
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize: PyTorch's default for the projection (the public codes' Xavier rule skips their convolution),
        trunc-normal (0.02) embeddings."""
        self.project.reset_parameters()
        for embedding in (self.joint_embed, self.time_embed):
            if embedding is not None:
                trunc_normal(embedding)

    def forward(self, x_RTJC: Tensor, mask_RN: Tensor | None = None) -> Tensor:
        """Return tokens [R, N, D]. Masked tokens are replaced before positions are added, so they keep theirs."""
        grid = self.grid.at(x_RTJC.shape[1])
        if x_RTJC.shape[2] != grid.joints:
            raise SkelbenchError(
                f"the view has {x_RTJC.shape[2]} joints but the encoder was built for {grid.joints}; "
                f"use data of the encoder's skeleton or build the encoder for this one"
            )
        x_RND = self.project(patchify(self.standardize(x_RTJC), grid.patch))
        if mask_RN is not None:
            if self.mask_token is None:
                raise SkelbenchError(
                    "this encoder was not prepared to replace tokens; add replace-tokens to what the method requires"
                )
            x_RND = torch.where(mask_RN.unsqueeze(-1), self.mask_token.to(x_RND.dtype), x_RND)
        position_ND = self.joint_embed[: grid.joints].repeat(grid.times, 1)
        if self.time_embed is not None:
            if grid.times > self.grid.times:
                raise SkelbenchError(
                    f"the view has {grid.times} temporal tokens but the encoder learned positions for "
                    f"{self.grid.times}; shorten the view or use temporal='rope'"
                )
            position_ND = position_ND + self.time_embed[: grid.times].repeat_interleave(grid.joints, 0)
        return x_RND + position_ND
