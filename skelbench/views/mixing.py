"""Views with a region from another clip: body parts times a stretch of frames.

Shapes: B clips, M body slots, R rows, T frames, J joints, P body parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError
from skelbench.views.keyed import pick
from skelbench.views.skeleton.topology import Topology
from skelbench.views.transfer import send
from skelbench.views.view import View


@dataclass(frozen=True)
class Mixed:
    """A view with regions of other clips."""

    view: View
    other_R: Tensor
    """int64 [R]: the partner's rows (:func:`counterparts`)."""
    region_RTJ: Tensor
    """bool [R, T, J]: cells that come from the partner, fully or in part."""
    weight_RTJ: Tensor
    """float32 [R, T, J]: the partner's fraction of each cell."""
    fast_R: Tensor
    """bool [R]: whether the region shows the partner at double speed."""

    @property
    def weight_B(self) -> Tensor:
        """float32 [count * B]: the partner's fraction of a clip's cells, mean over its present bodies: the weight of
        the partner's key in a mixed key; the clip's own key has 1 - weight."""
        return self.view.per_clip(self.weight_RTJ.mean((1, 2))[:, None])[:, 0]


def region_swap(
    view: View,
    partner_B: Tensor,
    topology: Topology,
    uniform: Callable[..., Tensor],
    parts: tuple[int, int],
    frames: tuple[int, int],
    unit: int = 4,
    alike: bool = False,
    op: int = 0,
    fast: float = 0.0,
    whole: float = 0.0,
) -> Mixed:
    """``view`` with a region of each clip replaced by the same region of the clip ``partner_B`` (int64 [B], places in
    the batch of all processes).

    A region is a number of whole ``topology.parts`` times a number of consecutive frames, both uniform between limits
    that are included; stretches begin at multiples of ``unit`` frames and are multiples of it long. All bodies of a
    clip have one region; a body is unchanged if its slot is empty in the partner. Regions are drawn by ``uniform``
    (``step.uniform``) for every clip and view, or once for the batch (``alike``, as the codes do). With probability
    ``fast`` the region shows the partner's first frames, twice as many, at double speed; with probability ``whole``
    there is no region: the two clips are averaged with a uniform weight.

    LanglandsLin/ActCLR net/actclr.py (parts 2 to 3, frames 12 to 20), GitHubOfHyl97/SkeAttnCLR net/SkeAttnCLR.py (3 to
    4, 16 to 28), JHang2020/PCM3 moco/builder_mask_recons.py (2 to 3, 28 to 44); ``fast`` and ``whole`` are a quarter
    each in the first and the last.

    Raises:
        SkelbenchError: limits that the topology's parts or the view's frames do not allow.
    """
    _, T, _, _ = view.x_RTJC.shape
    P, units = len(topology.parts), [n // unit for n in frames]
    if not 1 <= parts[0] <= parts[1] <= P:
        raise SkelbenchError(f"regions of {parts[0]} to {parts[1]} parts: {topology.name} has {P}, give 1 to {P}")
    if not 1 <= units[0] <= units[1] <= T // unit or any(n % unit for n in frames):
        raise SkelbenchError(
            f"regions of {frames[0]} to {frames[1]} frames: give multiples of {unit} up to the view's {T} frames"
        )
    slot_R = view.rows_R % view.bodies
    assert view.keys_R is not None  # set by the view builder
    keys_R = torch.zeros_like(view.keys_R) if alike else view.keys_R - slot_R
    u_Rn = uniform(keys_R, 3 + P + 2 * (fast + whole > 0), op=op)
    number_R = parts[0] + pick(u_Rn[:, 0], parts[1] - parts[0] + 1)
    length_R = units[0] + pick(u_Rn[:, 1], units[1] - units[0] + 1)
    start_R = pick(u_Rn[:, 2], T // unit - length_R + 1)
    chosen_RP = u_Rn[:, 3 : 3 + P].argsort(1).argsort(1) < number_R[:, None]
    length_R, start_R = unit * length_R, unit * start_R
    past_RT = torch.arange(T, device=slot_R.device) - start_R[:, None]
    inside_RT = (past_RT >= 0) & (past_RT < length_R[:, None])

    other_R = counterparts(view, partner_B)
    there_R11 = (other_R >= 0)[:, None, None]
    region_RTJ = inside_RT[:, :, None] & chosen_RP[:, part_of(topology, slot_R.device)][:, None] & there_R11
    # Rows without a counterpart read the last row with weight 0.
    own_RTJC, other_RTJC = view.x_RTJC, distributed.gather(view.x_RTJC)[other_R]
    weight_RTJ, fast_R = region_RTJ.float(), torch.zeros_like(there_R11[:, 0, 0])
    if fast + whole > 0:
        way_R11, share_R11 = u_Rn[:, 3 + P, None, None], u_Rn[:, 4 + P, None, None]
        early_RT = past_RT.clamp(min=0) * (2 * length_R).clamp(max=T)[:, None] // length_R[:, None]
        early_RTJC = other_RTJC.take_along_dim(early_RT.clamp(max=T - 1)[:, :, None, None], 1)
        whole_R11 = way_R11 < whole
        fast_R = ((way_R11 < whole + fast) & ~whole_R11)[:, 0, 0]
        other_RTJC = torch.where(fast_R[:, None, None, None], early_RTJC, other_RTJC)
        weight_RTJ = torch.where(whole_R11, share_R11 * there_R11, weight_RTJ)
        region_RTJ = region_RTJ | whole_R11 & there_R11
        blend_RTJC = own_RTJC * (1 - weight_RTJ[..., None]) + other_RTJC * weight_RTJ[..., None]
        other_RTJC = torch.where(whole_R11[..., None], blend_RTJC, other_RTJC)
    mixed = view.with_x(torch.where(region_RTJ[..., None], other_RTJC, own_RTJC))
    if view.confidence_RTJ is not None:
        other_RTJ = distributed.gather(view.confidence_RTJ)[other_R]
        if fast + whole > 0:
            other_RTJ = torch.minimum(other_RTJ, view.confidence_RTJ)
        mixed = replace(mixed, confidence_RTJ=torch.where(region_RTJ, other_RTJ, view.confidence_RTJ))
    return Mixed(mixed, other_R, region_RTJ, weight_RTJ, fast_R)


def counterparts(view: View, partner_B: Tensor) -> Tensor:
    """int64 [R]: the row of the same body slot of the clip ``partner_B``, in the same view of it, among the rows of all
    processes (``distributed.gather``); -1 = there is none.

    >>> counterparts(View.of(torch.zeros(3, 1, 8, 25, 3)), torch.tensor([1, 2, 0]))
    tensor([1, 2, 0])
    """
    slot_R, device = view.rows_R % view.bodies, view.rows_R.device
    start, clips = distributed.own_place(view.clips)
    before_R = torch.div(view.rows_R, view.clips * view.bodies, rounding_mode="floor") * clips
    place_n = distributed.gather((before_R + start + view.clip_R) * view.bodies + slot_R)
    row_of = torch.full((view.count * clips * view.bodies,), -1, device=device)
    row_of[place_n] = torch.arange(len(place_n), device=device)
    return row_of[(before_R + partner_B[view.clip_R]) * view.bodies + slot_R]


def part_of(topology: Topology, device: torch.device) -> Tensor:
    """Return the index of each joint's part in ``topology.parts``, int64 [J].

    >>> from skelbench.views.skeleton.topology import NTU25
    >>> part_of(NTU25, torch.device("cpu"))[:6]
    tensor([0, 0, 0, 0, 1, 1])
    """
    part_J = torch.empty(topology.num_joints, dtype=torch.int64)
    for place, joints in enumerate(topology.parts.values()):
        part_J[list(joints)] = place
    return send(part_J, device)


def stretches(frames: int, shares: tuple[float, float], unit: int = 4) -> tuple[int, int]:
    """Return fractions of a view's ``frames`` as limits of :func:`region_swap`: whole units, at least one.

    >>> stretches(64, (0.25, 0.4375)), stretches(16, (0.25, 0.4375))
    ((16, 28), (4, 8))
    """
    low, high = (max(1, round(share * frames / unit)) * unit for share in shares)
    return low, high


def rolled(clips: int, u: Tensor) -> Tensor:
    """int64 [B]: a partner for each of this process's ``clips`` clips, at one random distance in the batch of all
    processes, never itself. ``u`` is one uniform draw.

    Raises:
        SkelbenchError: a batch of one clip.
    """
    start, every = distributed.own_place(clips)
    if every < 2:
        raise SkelbenchError("clips are mixed with others of their batch, which has 1; give a larger batch")
    return (torch.arange(start, start + clips, device=u.device) + 1 + pick(u.reshape(()), every - 1)) % every
