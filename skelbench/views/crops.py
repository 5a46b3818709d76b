"""Crops: the stretch of a clip that a view covers (paper, appendix B), on the host.

Time is in frames, continuous: the first frame of a clip is at 0, the last at length - 1. One entry per view and clip:
B here is views times clips. Your own crop is a subclass of :class:`Crop` with a ``kind``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from skelbench.plugin.plugin_errors import lacking
from skelbench.views.bounds import Bounded, Fraction
from skelbench.views.keyed import Keyed, pick

CROP = 0
"""``op`` of the draws for the interval."""

Resize = Literal["ends", "half-pixel", "pad", "strided", "release", "bin-starts", "uniform-frames"]
"""Method of resampling a crop to T frames, see :class:`~skelbench.views.spec.ViewSpec`."""
Resampling = Annotated[Literal["ends", "half-pixel"], Field(description="resampling of a crop to T frames")]
"""Resizes that a method may offer to its users."""
PADDED = ("pad", "strided")
"""Resizes that may end with padding."""
WHOLE_FRAMES = (*PADDED, "release", "bin-starts")
"""Resizes that read a crop of whole frames."""


Parent = Annotated[str, Field(description="Name of the view that decides the crop.")]
Lo = Annotated[Fraction, Field(description="Smallest duration, as a fraction of the clip (of the parent, if any).")]
Hi = Annotated[Fraction, Field(description="Largest duration, as a fraction of the clip (of the parent, if any).")]
Whole = Annotated[bool, Field(description="Whether a crop has whole frames, by MAMP's rule.")]
Least = Annotated[int, Field(description="Least number of frames of a crop, with whole_frames.")]


@dataclass(frozen=True)
class Interval:
    """From ``start`` to ``start + duration``, both ends included, in the clip after ``extend``.

    Outside the clip the interval shows the clip played backwards.

    >>> Interval(torch.tensor([0.0, 5.0]), torch.tensor([10.0, 20.0])).take(torch.tensor([1])).duration_B
    tensor([20.])
    """

    start_B: Tensor
    """float64 [B], frames."""
    duration_B: Tensor
    """float64 [B], frames; a crop of n whole frames lasts n - 1."""
    frames_B: Tensor | None = field(default=None, repr=False)
    """float64 [B]: number of frames that the interval fills in padded views; None = its own number."""

    def take(self, index: Tensor) -> Interval:
        """Entries ``index`` of this one."""
        frames_B = None if self.frames_B is None else self.frames_B[index]
        return Interval(self.start_B[index], self.duration_B[index], frames_B)


@dataclass(frozen=True)
class Cut:
    """Inputs of a crop: the clips that it cuts, and its random draws.

    >>> cut = Cut(torch.tensor([101]), "ends", Keyed(seed=0, step=0), torch.tensor([7]), torch.tensor([256]))
    >>> Center(share=0.5).cut(cut)
    Interval(start_B=tensor([25.], dtype=torch.float64), duration_B=tensor([50.], dtype=torch.float64))
    """

    length_B: Tensor
    """int64 [B], frames of the clip, after ``extend``."""
    resize: Resize
    keyed: Keyed
    keys_B: Tensor
    """int64 [B], one per clip."""
    view_B: Tensor
    """int64 [B], one per view."""
    within: Interval | None = None
    """The parent view's interval, for a crop with a ``parent``."""
    frames: int = 1
    """T, frames of the view."""

    @property
    def parent(self) -> Interval:
        """Return ``within``, which the check of declared views guarantees."""
        assert self.within is not None
        return self.within

    def uniform(self, n: int) -> Tensor:
        """float64 [B, n], uniform in [0, 1)."""
        return self.keyed.uniform(self.keys_B, n, view=self.view_B, op=CROP).double()

    def interval(self, start_B: Tensor, duration_B: Tensor) -> Interval:
        """Return the interval, rounded to whole frames for a resize that reads whole frames."""
        if self.resize not in WHOLE_FRAMES:
            return Interval(start_B, duration_B)
        first, last = torch.floor(start_B + 0.5), torch.floor(start_B + duration_B + 0.5)
        return Interval(first, last - first)


class Crop(Bounded):
    """Base class of crops. A crop of another view has a field ``parent``, the name of that view.

    >>> class Beginning(Crop):
    ...     kind = "beginning"
    ...     share: float = 0.5
    ...
    ...     def cut(self, cut):
    ...         duration_B = self.share * (cut.length_B - 1).double()
    ...         return cut.interval(torch.zeros_like(duration_B), duration_B)
    >>> cut = Cut(torch.tensor([101]), "ends", Keyed(seed=0, step=0), torch.tensor([7]), torch.tensor([256]))
    >>> Beginning().cut(cut).duration_B
    tensor([50.], dtype=torch.float64)
    """

    family: ClassVar[str] = "crops"
    parents_frames: ClassVar[bool] = False
    """Whether frames are drawn as in the parent (resize="release" draws them)."""
    reflects: ClassVar[bool] = False
    """Whether an interval may leave the clip, by at most the clip's length: outside the clip is played backwards."""

    def cut(self, cut: Cut) -> Interval:
        """The interval of every view and clip."""
        raise lacking(self, "cut(self, cut)")


class Free(Crop):
    """An interval of the clip: the duration is a uniform fraction in [lo, hi] of the clip, the start is uniform.

    ``whole_frames`` uses MAMP's rule instead of continuous time: floor(share * length) frames, at least
    ``min_frames`` (if the clip has them), start a whole frame.
    """

    kind = "free"
    lo: Lo = 0.5
    hi: Hi = 1.0
    whole_frames: Whole = False
    min_frames: Least = 1

    def cut(self, cut: Cut) -> Interval:
        u_B2, length = cut.uniform(2), cut.length_B.double()
        share = self.lo + u_B2[:, 0] * (self.hi - self.lo)
        if self.whole_frames:
            return _whole_frames(share, u_B2[:, 1], torch.zeros_like(length), length, self.min_frames)
        duration = share * (length - 1)
        return cut.interval(u_B2[:, 1] * (length - 1 - duration), duration)


class Same(Crop):
    """Exactly the interval of the parent view (the target branch of S-JEPA, the noisy copy of MacDiff)."""

    kind = "same"
    parents_frames = True
    parent: Parent

    def cut(self, cut: Cut) -> Interval:
        interval = cut.interval(cut.parent.start_B, cut.parent.duration_B)
        return replace(interval, frames_B=cut.parent.frames_B)


class Alike(Crop):
    """An interval as long as the parent view's, with its own uniform start."""

    kind = "alike"
    parent: Parent

    def cut(self, cut: Cut) -> Interval:
        duration = cut.parent.duration_B
        return cut.interval(cut.uniform(2)[:, 1] * (cut.length_B.double() - 1 - duration), duration)


class Inside(Crop):
    """An interval inside the parent view's: duration a uniform fraction in [lo, hi] of the parent's, start uniform.

    Every one of the parent's views gets its own ``count`` crops (the paper's anchored local views). ``whole_frames``
    and ``min_frames`` as in :class:`Free`, with the parent's frames in the place of the clip's.
    """

    ADDED = frozenset({"whole_frames", "min_frames"})

    kind = "inside"
    parent: Parent
    lo: Lo
    hi: Hi
    whole_frames: Whole = False
    min_frames: Least = 1

    def cut(self, cut: Cut) -> Interval:
        u_B2, parent = cut.uniform(2), cut.parent
        share = self.lo + u_B2[:, 0] * (self.hi - self.lo)
        if self.whole_frames:
            return _whole_frames(share, u_B2[:, 1], parent.start_B, parent.duration_B + 1, self.min_frames)
        duration = share * parent.duration_B
        return cut.interval(parent.start_B + u_B2[:, 1] * (parent.duration_B - duration), duration)


class ReflectCrop(Crop):
    """A stretch of the clip's length, moved by up to ``pad`` of its length; outside the clip is played backwards.

    The crop of CrosSCLR's family (LinguoLi/CrosSCLR, feeder/tools.py), in continuous time.
    """

    kind = "reflect"
    reflects = True
    pad: float = Field(1 / 6, ge=0, lt=1, description="Largest shift, as a fraction of the clip.")

    def cut(self, cut: Cut) -> Interval:
        duration_B = cut.length_B.double() - 1
        return cut.interval((2 * cut.uniform(1)[:, 0] - 1) * self.pad * duration_B, duration_B)


class Tempo(Crop):
    """The whole clip, played slower or faster: its number of frames is multiplied by a uniform factor in
    1 +- ``amount`` and rounded down.

    Only for ``resize="pad"``, where a slower clip fills more frames. Boeun-Kim/GL-Transformer, feeder/tools.py.
    """

    kind = "tempo"
    amount: float = Field(0.1, ge=0, lt=1, description="Largest relative change of the duration.")

    def cut(self, cut: Cut) -> Interval:
        length_B = cut.length_B.double()
        frames_B = torch.floor(length_B * (1 + (2 * cut.uniform(1)[:, 0] - 1) * self.amount)).clamp(min=1)
        return Interval(torch.zeros_like(length_B), length_B - 1, frames_B)


class Center(Crop):
    """The deterministic central ``share`` of the clip (evaluation)."""

    kind = "center"
    share: float = Field(0.95, gt=0, le=1, description="Fraction of the clip.")

    def cut(self, cut: Cut) -> Interval:
        """Nothing is rounded for "ends" and "uniform-frames"; for other resizes int((1 - share) * length / 2) whole
        frames are cut from both ends (the MAMP family's evaluation).

        For "bin-starts" the crop has floor(share * length) frames, or T if that is fewer than T and the clip has
        enough, and begins at frame int((1 - share) * length / 2). It may end one frame behind the clip, which repeats
        the last frame (KAIST-VICLab/SLiM)."""
        length = cut.length_B.double()
        if cut.resize == "bin-starts":
            count = torch.floor(self.share * length).clamp(min=cut.frames).minimum(length)
            return Interval(torch.floor((1 - self.share) * length / 2), count - 1)
        if cut.resize in ("ends", "uniform-frames"):
            return Interval((1 - self.share) / 2 * (length - 1), self.share * (length - 1))
        margin = torch.floor((1 - self.share) * length / 2)
        return Interval(margin, length - 1 - 2 * margin)


def _whole_frames(share: Tensor, u_B: Tensor, first_B: Tensor, count_B: Tensor, least: int) -> Interval:
    """An interval of floor(share * count) of the ``count`` frames from ``first`` on, at least ``least``; uniform."""
    frames = torch.minimum(torch.floor(share * count_B).clamp(min=max(1, least)), count_B)
    return Interval(first_B + pick(u_B, count_B.long() - frames.long() + 1), frames - 1)
