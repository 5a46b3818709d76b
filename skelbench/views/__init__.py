"""From clips to the batched views that a method asks for: everything that a method's file imports.

The names are loaded when they are first used: packages below this one (skeletons, token grids) do without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from skelbench.views.hidden import HideFrames, HideJoints
    from skelbench.views.masks import Mask, MaskRows, RandomTokens, TokenMask
    from skelbench.views.spec import ViewSpec
    from skelbench.views.transform import Change
    from skelbench.views.tubes import Tube
    from skelbench.views.view import View

__all__ = [
    "Alike", "Augment", "AxisDrop", "AxisRotate", "Blur", "BoneScale", "Center", "Change", "CoordinateScale", "Crop",
    "Cut", "Degrade", "Distort", "Draws", "Free", "HideFrames", "HideJoints", "Inside", "Interval", "JointNoise",
    "Mask", "MaskRows", "Mirror", "MissingJoints", "Noise", "Pace", "ParentFill", "Poses", "RandomTokens",
    "ReflectCrop", "Rotate", "Same", "Shear", "Tempo", "TimeFlip", "TokenMask", "Translate", "Tube", "View",
    "ViewSpec", "ZeroFill",
]  # fmt: skip

_MODULES = (
    "augmentations", "crops", "degradations", "distortions", "hidden", "masks", "spec", "transform", "tubes", "view",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            if (found := vars(import_module(f"skelbench.views.{module}")).get(name)) is not None:
                return found
    raise AttributeError(f"module 'skelbench.views' has no attribute {name!r}")
