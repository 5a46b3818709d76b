"""Imports for method files that declare views.

A name is imported when it is first used, so that skeletons (:mod:`skelbench.views.skeleton`) need no torch.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "augmentations": (
        "Augment",
        "AxisDrop",
        "AxisRotate",
        "Blur",
        "BoneScale",
        "CoordinateScale",
        "Draws",
        "Mirror",
        "Noise",
        "Pace",
        "Rotate",
        "Shear",
        "TimeFlip",
        "Translate",
    ),
    "crops": ("Alike", "Center", "Crop", "Cut", "Free", "Inside", "Interval", "ReflectCrop", "Same", "Tempo"),
    "degradations": ("Degrade", "JointNoise", "MissingJoints", "ParentFill", "Poses", "ZeroFill"),
    "distortions": ("Distort",),
    "masks": ("Mask", "MaskRows", "RandomTokens", "TokenMask"),
    "spec": ("ViewSpec",),
    "transform": ("Change",),
    "tubes": ("Tube",),
    "view": ("View",),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'skelbench.views' has no attribute {name!r}")
    return getattr(import_module(f"skelbench.views.{_PLACES[name]}"), name)
