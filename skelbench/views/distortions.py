"""Distortions of the recurrent family (ISC, CMD, UmURL, USDRL): shear, joints at the origin, corrupted joints.

R rows, K rows that are changed, T frames, J joints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor

from skelbench.views.augmentations import Augment, Draws
from skelbench.views.bounds import Fraction
from skelbench.views.transfer import send
from skelbench.views.transform import Change, Matrices


class Distort(Augment):
    """One of three distortions, the same for all frames and bodies of a clip.

    ``shear``, ``zero`` and ``corrupt`` are their relative probabilities. Shear adds to each coordinate of every joint a
    multiple of each other coordinate, uniform in +- ``amplitude``. The others change ``share`` of the joints, drawn for
    each clip: "zero" puts them at the origin, "corrupt" multiplies them by one 3 x 3 matrix uniform in +- 1. Defaults:
    15 of 25 joints and the odds of maoyunyao/CMD, feeder/augmentations.py, the same in ISC, UmURL and USDRL.
    """

    kind = "distort"
    p: Fraction = 1.0
    shear: float = Field(0.5, ge=0, description="Weight of the shear in the draw.")
    zero: float = Field(0.25, ge=0, description="Weight of setting joints to zero in the draw.")
    corrupt: float = Field(0.25, ge=0, description="Weight of the corruption in the draw.")
    amplitude: float = Field(1.0, ge=0, description="Largest multiple of another coordinate.")
    share: Fraction = Field(0.6, description="Fraction of the joints.")

    def draw(self, draws: Draws) -> Change:
        joints = draws.topology.num_joints
        u_KN = draws.per_clip(10 + joints)
        which_K = u_KN[:, 0] * (self.shear + self.zero + self.corrupt)
        sheared_K, zeroed_K = which_K < self.shear, (which_K >= self.shear) & (which_K < self.shear + self.zero)
        space_K33 = 2 * u_KN[:, 1:10].unflatten(1, (3, 3)) - 1
        space_K33[sheared_K] = torch.where(torch.eye(3, dtype=torch.bool), 1.0, self.amplitude * space_K33[sheared_K])
        space_K33[zeroed_K] = 0.0
        if draws.dimensions == 2:  # flat poses stay flat
            space_K33[:, 2, :2] = 0.0
        first_KJ = u_KN[:, 10:].argsort(dim=1, stable=True).argsort(dim=1) < math.floor(self.share * joints + 0.5)
        space = Matrices.identity(len(draws.view_R), 3).put(draws.rows_K, space_K33.float())
        return OnJoints(space, first_KJ | sheared_K[:, None])


@dataclass(frozen=True)
class OnJoints(Change):
    """Change X -> S X at some joints of a row; other joints stay unchanged."""

    space: Matrices
    """S, [3, 3]."""
    joints_KJ: Tensor
    """bool, one row per matrix of ``space``: joints that it acts on."""

    def take(self, index: Tensor) -> OnJoints:
        return OnJoints(self.space.take(index), self.joints_KJ)

    def apply(self, x_R3TJ: Tensor, keyed: object) -> Tensor:
        rows_K = (self.space.slot_R >= 0).nonzero()[:, 0]
        if not len(rows_K):
            return x_R3TJ
        slot_K, device = self.space.slot_R[rows_K], x_R3TJ.device
        space_K33, joints_KJ = send(self.space.table_KDD[slot_K], device), send(self.joints_KJ[slot_K], device)
        rows_K = send(rows_K, device)
        x_K3TJ = x_R3TJ.index_select(0, rows_K)
        changed_K3TJ = (space_K33 @ x_K3TJ.flatten(2)).view_as(x_K3TJ)
        return x_R3TJ.index_copy_(0, rows_K, torch.where(joints_KJ[:, None, None], changed_K3TJ, x_K3TJ))
