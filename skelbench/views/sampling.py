"""Frame positions at which a view reads its interval of the clip (paper, appendix B), on the host.

Time is in frames, continuous: the first frame of a clip is at 0, the last at length - 1. One entry per view and
clip: B here is views times clips, T the frames of a view.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from skelbench.views.crops import Interval, Resize
from skelbench.views.keyed import Keyed, pick

BINS = 1
"""``op`` of the draws for the frames of ``resize="release"``."""


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


def extended_length(length_B: Tensor, extend: int, below: int) -> Tensor:
    """Extend clips of fewer than ``below`` frames: they are played forth and back, in whole passes, to at least
    ``extend`` frames (KAIST-VICLab/SLiM: 16 and 150)."""
    passes = torch.div(extend - 1 + length_B, length_B, rounding_mode="floor")
    return torch.where(length_B < below, passes * length_B, length_B)


def frame_positions(
    interval: Interval, frames: int, resize: Resize, clip_length_B: Tensor, keyed: Keyed, keys_B: Tensor, view_B: Tensor
) -> Frames:
    """Return places of the ``frames`` frames of each view in clips of ``clip_length_B`` frames, before ``extend``."""
    t_T = torch.arange(frames, dtype=torch.float64)
    half_pixel = (t_T + 0.5) * (interval.duration_B[:, None] + 1) / frames - 0.5
    start_B1, duration_B1 = interval.start_B[:, None], interval.duration_B[:, None]
    real_BT = None
    if resize == "half-pixel":
        within = half_pixel.clamp(min=0)
    elif resize == "strided":
        stride_B1 = torch.floor((duration_B1 + 1) / frames).clamp(min=1)
        within = (t_T * stride_B1).expand(len(start_B1), -1)
        real_BT = within <= duration_B1
    elif resize == "pad":
        shown_B1 = duration_B1 + 1 if interval.frames_B is None else interval.frames_B[:, None]
        within = ((t_T + 0.5) * (duration_B1 + 1) / shown_B1 - 0.5).clamp(min=0)
        real_BT = t_T < shown_B1
    elif resize in ("release", "bin-starts"):
        count_B1 = duration_B1.long() + 1
        if resize == "release":
            chosen = _drawn_frames(count_B1, frames, keyed.uniform(keys_B, 2 * frames, view=view_B, op=BINS))
        else:
            chosen = torch.arange(frames) * count_B1 // frames
        within = torch.where(count_B1 < frames, half_pixel.clamp(min=0), chosen.double())
    else:
        within = _ends(duration_B1, frames)
    position_BT = start_B1 + torch.minimum(within, duration_B1)
    if resize == "uniform-frames":  # halves round up, so positions at least 1 apart never round to the same frame
        position_BT = torch.where(duration_B1 + 1 > frames, torch.floor(position_BT + 0.5), position_BT)
    last_B1 = (clip_length_B[:, None] - 1).double()
    # Outside of the clip it is played forth and back; the release's code shows the turning frames twice.
    twice = int(resize in ("release", "bin-starts"))
    period = (2 * last_B1 + 2 * twice).clamp(min=1)
    position_BT = torch.remainder(position_BT, period)
    position_BT = torch.minimum(position_BT, period - twice - position_BT).clamp(min=0).minimum(last_B1)
    first_BT = torch.floor(position_BT)
    weight_BT = (position_BT - first_BT).to(torch.float32)
    second_BT = torch.minimum(first_BT + 1, last_B1)
    return Frames(first_BT.long(), second_BT.long(), weight_BT, real_BT)


def _ends(duration_B1: Tensor, frames: int) -> Tensor:
    """Uniformly spaced offsets that include both ends; the middle when there is only one frame."""
    if frames == 1:
        return duration_B1 / 2
    return duration_B1 * (torch.arange(frames, dtype=torch.float64) / (frames - 1))


def _drawn_frames(count_B1: Tensor, frames: int, u_BN: Tensor) -> Tensor:
    """Offsets into ``count`` >= ``frames`` whole frames, int64 [B, T] (KAIST-VICLab/SLiM).

    With count >= 2 T: one random frame from each of T bins. Otherwise ``count - T`` random gaps (of T + 1 before,
    between and after the T frames) skip one frame each, so that frames are 1 or 2 apart.
    """
    t_T = torch.arange(frames)
    edge, following = t_T * count_B1 // frames, (t_T + 1) * count_B1 // frames
    binned = edge + pick(u_BN[:, :frames], following - edge)
    rank_BG = u_BN[:, : frames + 1].argsort(dim=1, stable=True).argsort(dim=1)
    dropped_BG = (rank_BG < count_B1 - frames).long()
    spread = t_T + dropped_BG.cumsum(1)[:, :-1]
    return torch.where(count_B1 >= 2 * frames, binned, spread)
