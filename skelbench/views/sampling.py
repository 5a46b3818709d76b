"""At which frame positions a view reads its stretch of the clip (paper, appendix B), on the host.

Time is in frames, continuous: the first frame of a clip is at 0, the last at length - 1. One entry per view and clip:
B here is views times clips, T the frames of a view.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from skelbench.views.crops import Interval, Resize
from skelbench.views.keyed import Keyed, pick

BINS = 1
"""``op`` of the draws for the frames of ``resize="bins"``."""


@dataclass(frozen=True)
class Frames:
    """Frame t of view b is ``lerp(frame first, frame second, weight)``, or padding where ``real`` is False."""

    first_BT: Tensor
    """int64 [B, T]."""
    second_BT: Tensor
    """int64 [B, T]: the frame after ``first``, or the last one."""
    weight_BT: Tensor
    """float32 [B, T] in [0, 1)."""
    real_BT: Tensor | None = None
    """bool [B, T] for ``resize="pad"`` and "strided"."""

    def take(self, index: Tensor) -> Frames:
        """Entries ``index`` of this one."""
        real = None if self.real_BT is None else self.real_BT[index]
        return Frames(self.first_BT[index], self.second_BT[index], self.weight_BT[index], real)


def extended_length(length_B: Tensor, extend: int) -> Tensor:
    """Frames after playing short clips forth and back: whole passes, turning frames once, at least ``extend``.

    SLiM's release extends to 150 this way; a clip of one frame is held.
    """
    passes = torch.div(extend - 1 + (length_B - 2), (length_B - 1).clamp(min=1), rounding_mode="floor")
    long = torch.where(length_B > 1, 1 + passes * (length_B - 1), extend)
    return torch.where(length_B < extend, long, length_B)


def frame_positions(
    interval: Interval, frames: int, resize: Resize, clip_length_B: Tensor, keyed: Keyed, keys_B: Tensor, view_B: Tensor
) -> Frames:
    """Where the ``frames`` frames of each view lie in its clip of ``clip_length_B`` frames (before ``extend``)."""
    t_T = torch.arange(frames, dtype=torch.float64)
    start_B1, duration_B1 = interval.start_B[:, None], interval.duration_B[:, None]
    real_BT = None
    if resize == "half-pixel":
        within = ((t_T + 0.5) * (duration_B1 + 1) / frames - 0.5).clamp(min=0)
    elif resize == "strided":
        stride_B1 = torch.floor((duration_B1 + 1) / frames).clamp(min=1)
        within = (t_T * stride_B1).expand(len(start_B1), -1)
        real_BT = within <= duration_B1
    elif resize == "pad":
        shown_B1 = duration_B1 + 1 if interval.frames_B is None else interval.frames_B[:, None]
        within = ((t_T + 0.5) * (duration_B1 + 1) / shown_B1 - 0.5).clamp(min=0)
        real_BT = t_T < shown_B1
    elif resize == "bins":
        within = _bins(duration_B1.long() + 1, frames, keyed.uniform(keys_B, 2 * frames, view=view_B, op=BINS))
    else:
        within = _ends(duration_B1, frames)
    position_BT = start_B1 + torch.minimum(within, duration_B1)
    if resize == "uniform-frames":  # halves up: frames that are at least 1 apart never fall on one
        position_BT = torch.where(duration_B1 + 1 > frames, torch.floor(position_BT + 0.5), position_BT)
    last_B1 = (clip_length_B[:, None] - 1).double()
    period = (2 * last_B1).clamp(min=1)
    position_BT = torch.remainder(position_BT, period)  # played forth and back; no change where nothing is extended
    position_BT = torch.minimum(position_BT, period - position_BT).clamp(min=0).minimum(last_B1)
    first_BT = torch.floor(position_BT)
    weight_BT = (position_BT - first_BT).to(torch.float32)
    second_BT = torch.minimum(first_BT + 1, last_B1)
    return Frames(first_BT.long(), second_BT.long(), weight_BT, real_BT)


def _ends(duration_B1: Tensor, frames: int) -> Tensor:
    """Uniformly spaced offsets that include both ends; the middle when there is only one frame."""
    if frames == 1:
        return duration_B1 / 2
    return duration_B1 * (torch.arange(frames, dtype=torch.float64) / (frames - 1))


def _bins(count_B1: Tensor, frames: int, u_BN: Tensor) -> Tensor:
    """SLiM's release: offsets into ``count`` whole frames, float64 [B, T].

    At least twice too many: one random frame from each of T bins. Too many: random frames dropped. Too few: "ends".
    """
    t_T = torch.arange(frames)
    edge, following = t_T * count_B1 // frames, (t_T + 1) * count_B1 // frames
    binned = edge + pick(u_BN[:, :frames], following - edge)
    chance = torch.where(torch.arange(2 * frames) < count_B1, u_BN, 2.0)
    kept = torch.argsort(chance, dim=1, stable=True)[:, :frames].sort(dim=1).values
    few = _ends((count_B1 - 1).double(), frames)
    return torch.where(count_B1 >= 2 * frames, binned, torch.where(count_B1 >= frames, kept, few)).double()
