"""Bounds that settings of crops, augmentations and masks have in common."""

from __future__ import annotations

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError


def in_order(spec: Spec, what: str) -> None:
    """:class:`SkelbenchError` where ``lo`` is above ``hi``, for settings that have both."""
    lo, hi = getattr(spec, "lo", 0), getattr(spec, "hi", 0)
    if not lo <= hi:
        raise SkelbenchError(f"{what}: lo={lo} is above hi={hi}; swap them")


def in_unit(value: float, what: str) -> None:
    """:class:`SkelbenchError` for a share or a chance outside [0, 1]."""
    if not 0 <= value <= 1:
        raise SkelbenchError(f"{what} is {value}; it must lie in [0, 1]")
