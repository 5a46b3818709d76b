"""Mixes of two clips in ActCLR: bone lengths of the other clip, regions of the other clip, or a weighted mean.

B clips, R rows (bodies), T frames, J joints, P stretches of frames.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from skelbench.core import distributed
from skelbench.views import View
from skelbench.views.mixing import Mixed, counterparts, region_swap, rolled, stretches
from skelbench.views.transfer import send

PARTNER = 1
"""``op`` of the draws for a batch's partners."""


def partners(view: View, step, op: int) -> Tensor:
    """Return another clip of the batch for each clip, int64 [B]; ``op`` keys the draws."""
    return rolled(view.clips, step.once(view, op=8 * op + PARTNER))


def bone_transfer(view: View, partner_B: Tensor, topology) -> View:
    """Each bone of a body keeps its direction and gets, frame by frame, the length of the same bone of the counterpart.
    For motion, mean over joints and deviation over time are exchanged instead. Bodies without a counterpart are
    unchanged.
    """
    other_R, x_RTJC = counterparts(view, partner_B), view.x_RTJC
    if view.stream == "motion":
        mean_RT1C, std_R1JC = x_RTJC.mean(2, keepdim=True), x_RTJC.std(1, keepdim=True)
        moved_RTJC = (x_RTJC - mean_RT1C) / (std_R1JC + 1e-3) * theirs(std_R1JC, other_R) + theirs(mean_RT1C, other_R)
    else:
        bone_RTJC = x_RTJC
        if view.stream == "joint":
            from_J = send(torch.tensor(topology.bones), x_RTJC.device)
            bone_RTJC = x_RTJC - x_RTJC.index_select(2, from_J)
        length_RTJ1 = (bone_RTJC.square().sum(3, keepdim=True) + 1e-5).sqrt()
        moved_RTJC = bone_RTJC * (theirs(length_RTJ1, other_R) / length_RTJ1)
        if view.stream == "joint":
            path_JJ, root = send(_paths(topology.bones), x_RTJC.device), root_of(topology.bones)
            moved_RTJC = torch.einsum("rtkc,jk->rtjc", moved_RTJC, path_JJ) + x_RTJC[:, :, root : root + 1]
    return view.with_x(torch.where((other_R >= 0)[:, None, None, None], moved_RTJC, x_RTJC))


def theirs(x_R: Tensor, other_R: Tensor) -> Tensor:
    """Rows ``other_R`` (:func:`counterparts`) of ``x_R`` of all processes; an arbitrary row for -1."""
    return distributed.gather(x_R)[other_R]


def root_of(bones) -> int:
    """Return the joint whose bone begins at itself."""
    return next(j for j, start in enumerate(bones) if start == j)


def _paths(bones) -> Tensor:
    """float32 [J, J]: row j is 1 at the bones between the root and joint j."""
    path_JJ = torch.zeros(len(bones), len(bones))
    for joint in range(len(bones)):
        at = joint
        while bones[at] != at:
            path_JJ[joint, at] = 1.0
            at = bones[at]
    return path_JJ


def mix(view: View, partner_B: Tensor, topology, step, parts, shares, alike: bool, op: int) -> Mixed:
    """Half of the clips get a region of their partner's (``parts`` body parts, ``shares`` of the frames), a quarter get
    the beginning of their partner there, twice as fast, a quarter become a weighted mean of both. With ``alike`` all
    clips of a batch share one draw, as in the code.
    """
    frames = stretches(view.x_RTJC.shape[1], shares)
    return region_swap(
        view, partner_B, topology, step.uniform, parts, frames, alike=alike, op=8 * op, fast=0.25, whole=0.25
    )


def partner_share(mixed: Mixed, weight_RPJ: Tensor) -> Tensor:
    """Return the partner's fraction of each mixed clip, float32 [B], from the cells' weights ``weight_RPJ``; the
    clip's own fraction is 1 minus it. At double speed all frames of the partner's parts count, as in the code."""
    P, T = weight_RPJ.shape[1], mixed.weight_RTJ.shape[1]
    size = -(-T // P)
    frames_P1 = send(torch.tensor([[min(size, T - p * size)] for p in range(P)]), weight_RPJ.device)

    def by_cell(share_RTJ):  # the last cell may have fewer frames
        return F.pad(share_RTJ, (0, 0, 0, P * size - T)).unflatten(1, (P, size)).sum(2) / frames_P1

    parts_R1J = mixed.region_RTJ.any(1, keepdim=True).float()
    taken_RTJ = torch.where(mixed.fast_R[:, None, None], parts_R1J, mixed.weight_RTJ)
    theirs_RPJ = theirs(weight_RPJ, mixed.other_R)
    taken_R = (theirs_RPJ * by_cell(taken_RTJ)).sum((1, 2)) / (theirs_RPJ + 1e-5).sum((1, 2))
    left_R = (weight_RPJ * (1 - by_cell(mixed.weight_RTJ))).sum((1, 2)) / (weight_RPJ.sum((1, 2)) + 1e-5)
    taken_B, left_B = mixed.view.per_clip(torch.stack([taken_R, left_R], 1)).unbind(1)
    return taken_B / (taken_B + left_B)
