"""Views that a method asks for, as data: frozen, hashed into the run id.

Crops say which stretch of the clip a view covers, augmentations how it is changed, masks which tokens are masked;
:mod:`skelbench.views.builder` builds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from pydantic import Field

from skelbench.core.component import Grown
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.spec import Bodies, Stream
from skelbench.views.augmentations import Augment
from skelbench.views.crops import PADDED, Crop, Free, Resize
from skelbench.views.masks import Mask

MAX_VIEWS = 255
"""Largest number of kinds of views, and of views of one kind per clip; the key of a draw has eight bits for each."""


class ViewSpec(Grown):
    """One kind of view a method asks for.

    ``frames``: length after resizing. ``crop``: where it comes from. ``inherit``: first apply the parent's own
    transform draws (crop must be Same or Inside); then the ops of ``augment`` in order, each with its own draws.
    ``resize``: "ends" = linear interpolation at uniformly spaced positions that include both ends of the interval;
    "half-pixel" = torch's bilinear resize without aligned corners (the MAMP family); "pad" = the frames unchanged (with
    a ``Tempo`` crop resized half-pixel to its number), cut or zero-padded to ``frames`` (views then carry ``real_RT``);
    "strided" = like "pad", but only every floor(n / ``frames``)-th of n frames (Predict and Cluster); "release" = the
    sampling of SLiM's released code in training: one random frame per bin for long clips, frames 1 or 2 apart for
    slightly long ones, half-pixel for short ones; "bin-starts" = its sampling at test: the first frame of each bin,
    half-pixel when short; "uniform-frames" = like "ends", but an interval of more than ``frames`` frames is read at the
    nearest recorded frames, without interpolation. ``extend``: clips of fewer than ``extend_below`` frames are first
    played forth and back to at least ``extend`` frames; a view that is cut from another one follows its parent.
    ``count``: independent views per clip (per parent view for Inside / Same). ``stream``: joint, bone, motion or fused.
    ``draws``: crop and augmentations are drawn for each clip, or once for all clips of a step ("batch"; PSTL's code).

    >>> from skelbench.views import Inside, Mirror, Tube
    >>> views = {
    ...     "global": ViewSpec(frames=64, crop=Free(lo=0.5), augment=(Mirror(),), mask=Tube(), count=2),
    ...     "local": ViewSpec(frames=16, crop=Inside(parent="global", lo=0.2, hi=0.5)),
    ... }
    >>> views["local"].parent
    'global'
    >>> ViewSpec(frames=64, augment=({"kind": "rotate", "tilt_deg": 10},)).augment
    (Rotate(p=0.5, vertical_deg=180.0, tilt_deg=10.0),)
    """

    ADDED = frozenset({"draws", "extend_below"})

    frames: int = Field(ge=1)
    crop: Crop = Free()
    augment: tuple[Augment, ...] = ()
    inherit: bool = False
    resize: Resize = "ends"
    extend: int = Field(0, ge=0)
    extend_below: int = Field(0, ge=0)
    mask: Mask | None = None
    count: int = Field(1, ge=1)
    stream: Stream = "joint"
    draws: Literal["clip", "batch"] = "clip"

    @property
    def parent(self) -> str | None:
        """The view this one is cut from, if any."""
        return getattr(self.crop, "parent", None)


def checked_counts(specs: Mapping[str, ViewSpec], patch: int, bodies: Bodies) -> dict[str, int]:
    """Views per clip of each kind (``count`` times the parent's), after checking everything else.

    Raises :class:`SkelbenchError` naming the first view that cannot be built.
    """
    if bodies not in get_args(Bodies):
        raise SkelbenchError(did_you_mean(bodies, get_args(Bodies), "choice of bodies"))
    if len(specs) > MAX_VIEWS:
        raise SkelbenchError(f"{len(specs)} kinds of views are asked for; declare at most {MAX_VIEWS}")
    counts: dict[str, int] = {}
    for name, spec in specs.items():
        where = f"view {name!r}"
        if spec.parent is not None and spec.parent not in counts:
            why = "is declared after it" if spec.parent in specs else "is not among the declared views"
            raise SkelbenchError(f"{where} is cut from {spec.parent!r}, which {why}; declare the parent first")
        if spec.inherit and spec.parent is None:
            raise SkelbenchError(f"{where} inherits a transform but has no parent; use a Same, Alike or Inside crop")
        if spec.parent is not None and spec.extend not in (0, specs[spec.parent].extend):
            raise SkelbenchError(f"{where} has extend={spec.extend}, unlike its parent; leave extend out, it follows")
        if not (spec.extend == spec.extend_below == 0 or 0 < spec.extend_below <= spec.extend):
            raise SkelbenchError(
                f"{where} has extend={spec.extend} and extend_below={spec.extend_below}; give both, extend the larger, "
                "or neither"
            )
        counts[name] = spec.count * counts.get(spec.parent or "", 1)
        if counts[name] > MAX_VIEWS:
            raise SkelbenchError(f"{where} makes {counts[name]} views of every clip; ask for at most {MAX_VIEWS}")
        if spec.stream == "fused" and spec.resize in PADDED:
            how = f"use another resize than {spec.resize!r}"
            raise SkelbenchError(f"{where} is padded, which makes no motion at its end; {how}")
        if spec.resize in PADDED and not all(augmentation.of_padded for augmentation in spec.augment):
            raise SkelbenchError(f"{where} is padded at its end and would begin with it when flipped in time")
        if spec.mask is not None and (spec.frames < patch or spec.frames % patch):
            raise SkelbenchError(
                f"{where} is masked but its {spec.frames} frames cannot be cut into patches of {patch}; "
                "choose a view length that is a multiple of the patch"
            )
    return counts
