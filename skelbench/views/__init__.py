"""From clips to the batched views that a method asks for: what a method's file imports stands here."""

from skelbench.views.augmentations import (
    Augment,
    AxisDrop,
    AxisRotate,
    Blur,
    BoneScale,
    CoordinateScale,
    Draws,
    Mirror,
    Noise,
    Pace,
    Rotate,
    Shear,
    TimeFlip,
    Translate,
)
from skelbench.views.crops import Alike, Center, Crop, Cut, Free, Inside, Interval, ReflectCrop, Same, Tempo
from skelbench.views.degradations import Degrade, JointNoise, MissingJoints, ParentFill, Poses, ZeroFill
from skelbench.views.distortions import Distort
from skelbench.views.masks import Mask, MaskRows, RandomTokens, TokenMask
from skelbench.views.spec import ViewSpec
from skelbench.views.transform import Change
from skelbench.views.tubes import Tube
from skelbench.views.view import View

__all__ = [
    "Alike",
    "Augment",
    "AxisDrop",
    "AxisRotate",
    "Blur",
    "BoneScale",
    "Center",
    "Change",
    "CoordinateScale",
    "Crop",
    "Cut",
    "Degrade",
    "Distort",
    "Draws",
    "Free",
    "Inside",
    "Interval",
    "JointNoise",
    "Mask",
    "MaskRows",
    "Mirror",
    "MissingJoints",
    "Noise",
    "Pace",
    "ParentFill",
    "Poses",
    "RandomTokens",
    "ReflectCrop",
    "Rotate",
    "Same",
    "Shear",
    "Tempo",
    "TimeFlip",
    "TokenMask",
    "Translate",
    "Tube",
    "View",
    "ViewSpec",
    "ZeroFill",
]
