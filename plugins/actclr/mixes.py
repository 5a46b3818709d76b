"""What ActCLR makes of two clips: bone lengths of the other, regions of the other, both on top of each other.

B clips, R rows (bodies), T frames, J joints, P stretches of frames.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from skelbench import distributed
from skelbench.views import View
from skelbench.views.mixing import counterparts, region_swap, rolled, stretches
from skelbench.views.transfer import send

PARTNER, KIND = 1, 2
"""``op`` of the draws of a batch's partners and of what is done with them."""


def partners(view: View, step, op: int) -> Tensor:
    """int64 [B]: another clip of the batch for each; ``op`` tells draws apart."""
    return rolled(view.clips, step.uniform(torch.zeros_like(view.rows_R[:1]), 1, op=8 * op + PARTNER))


def bone_transfer(view: View, partner_B: Tensor, topology) -> View:
    """Each bone of a body gets, frame by frame, the length of its counterpart's, and keeps its direction; of motion,
    mean over joints and deviation over time take the place of lengths. Bodies without a counterpart stay as they are.
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
    """Rows ``other_R`` (:func:`counterparts`) of ``x_R`` of all processes; any for -1."""
    return distributed.gather(x_R)[other_R]


def root_of(bones) -> int:
    """The joint whose bone begins at itself."""
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


@dataclass(frozen=True)
class Mix:
    """A view with something of other clips in it."""

    view: View
    other_R: Tensor
    """int64: the row of all processes that it comes from; -1 = none."""
    taken_RTJ: Tensor
    """float32: what share of each joint at each time was taken of the other."""
    gone_RTJ: Tensor
    """float32: what share of the own clip was overwritten."""

    def shares(self, weight_RPJ: Tensor) -> Tensor:
        """float32 [B]: how much of a mixed clip is the partner's, 1 - it is its own, by ``weight_RPJ`` of cells."""
        P, T = weight_RPJ.shape[1], self.taken_RTJ.shape[1]
        size = -(-T // P)

        def by_cell(share_RTJ):
            padded = torch.nn.functional.pad(share_RTJ, (0, 0, 0, P * size - T))
            return padded.unflatten(1, (P, size)).mean(2)

        theirs_RPJ = theirs(weight_RPJ, self.other_R)
        taken_R = (theirs_RPJ * by_cell(self.taken_RTJ)).sum((1, 2)) / (theirs_RPJ + 1e-5).sum((1, 2))
        left_R = (weight_RPJ * (1 - by_cell(self.gone_RTJ))).sum((1, 2)) / (weight_RPJ.sum((1, 2)) + 1e-5)
        taken_B, left_B = self.view.per_clip(torch.stack([taken_R, left_R], 1)).unbind(1)
        return taken_B / (taken_B + left_B)


def mix(view: View, partner_B: Tensor, topology, step, parts, shares, alike: bool, op: int) -> Mix:
    """Half of the clips get a region of their partner's (``parts`` body parts, ``shares`` of the frames), a quarter get
    the beginning of their partner there, twice as fast, a quarter become a weighted mean of both. With ``alike`` all
    clips of a batch have one draw, as in the code."""
    frames = stretches(view.x_RTJC.shape[1], shares)
    region = region_swap(view, partner_B, topology, step.uniform, parts, frames, alike=alike, op=8 * op)
    other_R, region_RTJ = counterparts(view, partner_B), region.region_RTJ
    assert view.keys_R is not None  # views of the builder have them
    keys_R = torch.zeros_like(view.keys_R) if alike else view.keys_R - view.rows_R % view.bodies
    kind_R, blend_R = step.uniform(keys_R, 2, op=8 * op + KIND).unbind(1)
    cut_R, blend_R11 = (kind_R <= 0.5)[:, None, None], torch.where(other_R >= 0, blend_R, 0.0)[:, None, None]
    blended_R = (kind_R <= 0.25)[:, None, None]

    place_RT = (region_RTJ.any(2).cumsum(1) - 1).clamp(min=0) * 2
    place_RT = place_RT.clamp(max=view.x_RTJC.shape[1] - 1)[:, :, None, None].expand_as(view.x_RTJC)
    theirs_RTJC = theirs(view.x_RTJC, other_R)
    fast_RTJC = torch.where(region_RTJ[..., None], theirs_RTJC.gather(1, place_RT), view.x_RTJC)
    blend_RTJC = view.x_RTJC * (1 - blend_R11[..., None]) + theirs_RTJC * blend_R11[..., None]
    x_RTJC = torch.where(cut_R[..., None], fast_RTJC, region.view.x_RTJC)
    x_RTJC = torch.where(blended_R[..., None], blend_RTJC, x_RTJC)

    gone_RTJ = torch.where(blended_R, blend_R11, region_RTJ.float())
    taken_RTJ = torch.where(cut_R & ~blended_R, region_RTJ.any(1, keepdim=True).float(), gone_RTJ)
    return Mix(replace(region.view, x_RTJC=x_RTJC), other_R, taken_RTJ, gone_RTJ)
