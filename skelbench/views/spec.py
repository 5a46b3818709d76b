"""What views a method asks for, as data: torch-free, frozen, hashed into the run's identity.

Crops say which stretch of the clip a view covers, augmentations what is done to it, masks which tokens are hidden.
Nothing here computes anything; :mod:`skelbench.views.builder` does.
"""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import Field

from skelbench.component import Spec


# ------------------------------------------------------------------------------------------------ crops
class Free(Spec):
    """An interval of the clip: duration a uniform share in [lo, hi] of the clip, start uniform.

    ``whole_frames`` uses MAMP's rule instead of continuous time: floor(share * length) frames, at least
    ``min_frames`` (if the clip has them), start a whole frame.
    """

    kind: Literal["free"] = "free"
    lo: float = 0.5
    hi: float = 1.0
    whole_frames: bool = False
    min_frames: int = 1


class Same(Spec):
    """Exactly the interval of the parent view (the target branch of S-JEPA, the noisy copy of MacDiff)."""

    kind: Literal["same"] = "same"
    parent: str


class Alike(Spec):
    """An interval as long as the parent view's, start uniform and its own."""

    kind: Literal["alike"] = "alike"
    parent: str


class Inside(Spec):
    """An interval inside the parent view's: duration a uniform share in [lo, hi] of the parent's, start uniform.

    Every one of the parent's views gets its own ``count`` crops (the paper's anchored local views).
    """

    kind: Literal["inside"] = "inside"
    parent: str
    lo: float
    hi: float


class Center(Spec):
    """The deterministic central ``share`` of the clip (evaluation)."""

    kind: Literal["center"] = "center"
    share: float = 0.95


Crop = Annotated[Union[Free, Same, Alike, Inside, Center], Field(discriminator="kind")]


# ------------------------------------------------------------------------------------------------ augmentations
class Rotate(Spec):
    """R = Rz Ry Rx (paper, Algorithm 2): vertical (Y) and tilt (X, Z) angles uniform in +- the limits, per clip."""

    kind: Literal["rotate"] = "rotate"
    p: float = 0.5
    vertical_deg: float = 180.0
    tilt_deg: float = 30.0


class Mirror(Spec):
    """Swap left and right joints and, with ``reflect``, negate X (Algorithm 3); without it the index swap alone."""

    kind: Literal["mirror"] = "mirror"
    p: float = 0.5
    reflect: bool = True


class BoneScale(Spec):
    """Scale bone lengths by a factor per group, uniform in [lo, hi], keep directions (Algorithm 4), per body.

    ``groups``: "parts" = the topology's parts (trunk and four limbs), "limbs" = torso / both arms / both legs.
    """

    kind: Literal["bone-scale"] = "bone-scale"
    p: float = 0.5
    lo: float = 0.85
    hi: float = 1.15
    groups: Literal["parts", "limbs"] = "parts"


class CoordinateScale(Spec):
    """Scale each coordinate axis by its own factor: the conventional counterpart of bone-aware scaling."""

    kind: Literal["coordinate-scale"] = "coordinate-scale"
    p: float = 0.5
    lo: float = 0.85
    hi: float = 1.15


class Noise(Spec):
    """Add independent Gaussian noise of ``std`` metres to every coordinate."""

    kind: Literal["noise"] = "noise"
    p: float = 0.5
    std: float = 0.01


class AxisDrop(Spec):
    """Set one uniformly drawn coordinate axis to zero."""

    kind: Literal["axis-drop"] = "axis-drop"
    p: float = 0.2


class Translate(Spec):
    """Shift the clip along each axis by a distance uniform in +- ``limit`` metres, all frames and bodies alike."""

    kind: Literal["translate"] = "translate"
    p: float = 0.5
    limit: float = 0.02


Augment = Annotated[
    Union[Rotate, Mirror, BoneScale, CoordinateScale, Noise, AxisDrop, Translate], Field(discriminator="kind")
]


# ------------------------------------------------------------------------------------------------ masks
class Tube(Spec):
    """Semantic Tube Masking (paper, Algorithm 1 and section C), per body.

    ``p``: chance that a view is masked at all. ``a_min``: smallest proposal area in tokens (None = P of the grid).
    ``a_max``: largest proposal area (None = half of the grid's tokens).
    ``stop``: "clip" draws the area from what the remaining budget still allows, "printed" ends as soon as the
    remaining budget is below ``a_min`` (Algorithm 1 to the letter), "never" has no such rule at all.
    ``spans``: "connected" = width uniform in 1..|G|, then a uniformly drawn connected subset of that width;
    "ordered" = a contiguous slice of the part's joint list.
    ``stratified`` spreads the target ratios evenly over the batch instead of drawing them independently.
    """

    kind: Literal["tube"] = "tube"
    lo: float = 0.5
    hi: float = 0.9
    p: float = 1.0
    a_min: int | None = None
    a_max: int | None = None
    stop: Literal["clip", "printed", "never"] = "clip"
    spans: Literal["connected", "ordered"] = "connected"
    stratified: bool = False


class RandomTokens(Spec):
    """Independent random tokens: share uniform in [lo, hi] of N hidden, per body.

    With lo == hi the number of visible tokens is constant and views carry ``keep_RK``, the visible tokens:
    ``keep`` "int" keeps int(N * (1 - lo)) as MAMP's code does (74 of 750), "round" round(N * (1 - lo)) (75).
    """

    kind: Literal["random-tokens"] = "random-tokens"
    lo: float = 0.9
    hi: float = 0.9
    p: float = 1.0
    keep: Literal["int", "round"] = "int"


Mask = Annotated[Union[Tube, RandomTokens], Field(discriminator="kind")]


# ------------------------------------------------------------------------------------------------ views
Stream = Literal["joint", "bone", "motion"]
"""Coordinates; a joint's minus its parent's; the next frame's minus this one's, 0 in the last frame."""


class ViewSpec(Spec):
    """One kind of view a method asks for.

    ``frames``: length after resizing. ``crop``: where it comes from. ``inherit``: first apply the parent's own
    transform draws (crop must be Same or Inside); then the ops of ``augment`` in order, each with its own draws.
    ``resize``: "ends" = linear interpolation at uniformly spaced positions that include both ends of the interval;
    "half-pixel" = torch's bilinear resize without aligned corners (the MAMP family); "pad" = the frames as they
    are, cut or zero-padded to ``frames`` (views then carry ``real_RT``); "bins" = the SLiM release's sampling
    (random frame per bin when long, dropped frames when a little long, linear when short).
    ``extend``: clips shorter than this are first played forth and back to at least this many frames.
    ``count``: independent views per clip (per parent view for Inside / Same). ``stream``: joint, bone or motion.
    """

    frames: int
    crop: Crop = Free()
    augment: tuple[Augment, ...] = ()
    inherit: bool = False
    resize: Literal["ends", "half-pixel", "pad", "bins"] = "ends"
    extend: int = 0
    mask: Mask | None = None
    count: int = 1
    stream: Stream = "joint"

    @property
    def parent(self) -> str | None:
        """The view this one is cut from, if any."""
        return getattr(self.crop, "parent", None)


Bodies = Literal["valid", "all-slots", "first", "random-valid"]
"""Which bodies of a clip are trained on: the present ones, every slot (zero bodies included), slot 0, one at random."""

Centre = Literal["clip", "body"]
"""What is at the origin: the first body's centre joint in its first frame for all bodies (as stored, the NTU pipeline's
habit), or each body's own. With "clip" a second body's distance is the largest thing that its tokens show."""

SecondBody = Literal["zero", "repeat"]
"""A clip of one body where a data set has two: the second body is absent ("zero", no body at all where absent ones are
not computed, zeros where every slot is), or the first one again ("repeat", the NTU-120 files of CTR-GCN and MAMP)."""
