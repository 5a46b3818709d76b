"""Shared limits of settings of crops, augmentations and masks."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from skelbench.plugin.component import Component

Fraction = Annotated[float, Field(ge=0, le=1)]


class Bounded(Component):
    """Component whose ``lo`` is at most its ``hi``, if it has both."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        lo, hi = getattr(self, "lo", 0), getattr(self, "hi", 1)
        if lo > hi:
            raise ValueError(f"lo={lo} is above hi={hi}; swap them")
        return self
