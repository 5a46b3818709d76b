"""Which stretch of a clip a view covers and at which frame positions it is read (paper, appendix B), on the host.

Time is in frames, continuous: the first frame of a clip is at 0, the last at length - 1. One entry per view and clip:
B here is views times clips, T the frames of a view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from skelbench.views.keyed import Keyed, pick
from skelbench.views.spec import Alike, Center, Crop, Free, Inside, Same

CROP, BINS = 0, 1
"""``op`` of the draws for the interval and for the frames of ``resize="bins"``."""

Resize = Literal["ends", "half-pixel", "pad", "bins"]


@dataclass(frozen=True)
class Interval:
    """From ``start`` to ``start + duration``, both ends included, in the clip after ``extend``."""

    start_B: Tensor
    """float64 [B], frames."""
    duration_B: Tensor
    """float64 [B], frames; a crop of n whole frames lasts n - 1."""

    def take(self, index: Tensor) -> Interval:
        """Entries ``index`` of this one."""
        return Interval(self.start_B[index], self.duration_B[index])


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
    """bool [B, T] for ``resize="pad"``."""

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


def crop_interval(
    crop: Crop,
    resize: Resize,
    length_B: Tensor,
    keyed: Keyed,
    keys_B: Tensor,
    view_B: Tensor,
    parent: Interval | None = None,
) -> Interval:
    """The interval of each view.

    ``length_B`` (int64, already extended), ``keys_B`` (one per clip), ``view_B`` (one per view) and ``parent`` (needed
    by Same, Alike and Inside) have one entry per view and clip. ``resize`` "pad" and "bins" take frames as they are, so
    their intervals are moved to the nearest whole frames; a central crop for anything but "ends" cuts
    int((1 - share) * length / 2) whole frames from both ends (the MAMP family's evaluation).
    """
    if isinstance(crop, Same):
        assert parent is not None
        return _whole(parent, resize)
    length = length_B.double()
    if isinstance(crop, Center):
        if resize == "ends":
            return Interval((1 - crop.share) / 2 * (length - 1), crop.share * (length - 1))
        cut = torch.floor((1 - crop.share) * length / 2)
        return Interval(cut, length - 1 - 2 * cut)
    u_B2 = keyed.uniform(keys_B, 2, view=view_B, op=CROP).double()
    if isinstance(crop, Alike):
        assert parent is not None
        return _whole(Interval(u_B2[:, 1] * (length - 1 - parent.duration_B), parent.duration_B), resize)
    share = crop.lo + u_B2[:, 0] * (crop.hi - crop.lo)
    if isinstance(crop, Inside):
        assert parent is not None
        duration = share * parent.duration_B
        start = parent.start_B + u_B2[:, 1] * (parent.duration_B - duration)
        return _whole(Interval(start, duration), resize)
    assert isinstance(crop, Free)
    if crop.whole_frames:
        frames = torch.minimum(torch.floor(share * length).clamp(min=max(1, crop.min_frames)), length)
        return Interval(pick(u_B2[:, 1], length_B - frames.long() + 1).double(), frames - 1)
    duration = share * (length - 1)
    return _whole(Interval(u_B2[:, 1] * (length - 1 - duration), duration), resize)


def _whole(interval: Interval, resize: Resize) -> Interval:
    """The interval, or for a resize that takes frames as they are, the one between the nearest whole frames."""
    if resize in ("ends", "half-pixel"):
        return interval
    first = torch.floor(interval.start_B + 0.5)
    last = torch.floor(interval.start_B + interval.duration_B + 0.5)
    return Interval(first, last - first)


def frame_positions(
    interval: Interval, frames: int, resize: Resize, clip_length_B: Tensor, keyed: Keyed, keys_B: Tensor, view_B: Tensor
) -> Frames:
    """Where the ``frames`` frames of each view lie in its clip of ``clip_length_B`` frames (before ``extend``)."""
    t_T = torch.arange(frames, dtype=torch.float64)
    start_B1, duration_B1 = interval.start_B[:, None], interval.duration_B[:, None]
    real_BT = None
    if resize == "half-pixel":
        within = ((t_T + 0.5) * (duration_B1 + 1) / frames - 0.5).clamp(min=0)
    elif resize == "pad":
        within = t_T.expand(len(start_B1), -1)
        real_BT = within <= duration_B1
    elif resize == "bins":
        within = _bins(duration_B1.long() + 1, frames, keyed.uniform(keys_B, 2 * frames, view=view_B, op=BINS))
    else:
        within = _ends(duration_B1, frames)
    position_BT = start_B1 + torch.minimum(within, duration_B1)
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
