"""Joints and stretches of frames that are put at the origin (SCD-Net).

R rows, K rows that are changed, T frames, J joints, N stretches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.views.augmentations import Augment, Draws
from skelbench.views.bounds import in_unit
from skelbench.views.keyed import pick
from skelbench.views.transfer import send
from skelbench.views.transform import Change


class HideJoints(Augment):
    """Put joints near each other at the origin: the ``share`` of all to which most walks of two steps, along bones or
    staying, lead from ``seeds`` joints, which are drawn with repeats; where as many lead, chance decides.
    cong-wu/SCD-Net, feeder/augmentations.py: 8 of 25 joints.

    >>> HideJoints(seeds=3)
    HideJoints(p=0.5, seeds=3, share=0.32)
    """

    kind = "hide-joints"
    seeds: int = Field(5, ge=1)
    share: float = 0.32

    def draw(self, draws: Draws) -> Change:
        joints = draws.topology.num_joints
        near_JJ = torch.eye(joints) + torch.from_numpy(draws.topology.linked)
        u_KN = draws.per_clip(self.seeds + joints)
        walks_KJ = (near_JJ @ near_JJ)[pick(u_KN[:, : self.seeds], joints)].sum(1) + 0.5 * u_KN[:, self.seeds :]
        hidden_Kn = walks_KJ.topk(math.floor(self.share * joints + 0.5), dim=1).indices
        return draws.linear(joints_KJJ=torch.diag_embed(torch.ones(walks_KJ.shape).scatter(1, hidden_Kn, 0.0)))

    def check(self, where: str) -> None:
        super().check(where)
        in_unit(self.share, f"{where}: the share of joints of {self.kind!r}")


class HideFrames(Augment):
    """Put all joints at the origin in ``hidden`` of ``blocks`` equal stretches of frames (cong-wu/SCD-Net: of 4 each).

    >>> HideFrames(hidden=3)
    HideFrames(p=0.5, blocks=16, hidden=3)
    """

    kind = "hide-frames"
    blocks: int = Field(16, ge=1)
    hidden: int = Field(6, ge=1)

    def draw(self, draws: Draws) -> Change:
        order_KN = draws.per_clip(self.blocks).argsort(dim=1, stable=True).argsort(dim=1)
        hidden_RN = torch.zeros(len(draws.view_R), self.blocks, dtype=torch.bool)
        hidden_RN[draws.rows_K] = order_KN < self.hidden
        return Blank(hidden_RN)

    def check(self, where: str) -> None:
        super().check(where)
        if self.hidden > self.blocks:
            raise SkelbenchError(f"{where}: {self.kind!r} cannot hide {self.hidden} of {self.blocks} blocks")


@dataclass(frozen=True)
class Blank(Change):
    """Some of N equal stretches of a row's frames at the origin."""

    hidden_RN: Tensor
    """bool."""

    def take(self, index: Tensor) -> Blank:
        return Blank(self.hidden_RN[index])

    def apply(self, x_R3TJ: Tensor, keyed: object) -> Tensor:
        frames, blocks = x_R3TJ.shape[2], self.hidden_RN.shape[1]
        hidden_RT = self.hidden_RN[:, torch.arange(frames) * blocks // frames]
        return x_R3TJ.masked_fill_(send(hidden_RT, x_R3TJ.device)[:, None, :, None], 0.0)
