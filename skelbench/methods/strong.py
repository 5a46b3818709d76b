"""The strong augmentation of AimCLR, which later methods of its family took over (Levigty/AimCLR, feeder/tools.py)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skelbench.methods.contract import Config
from skelbench.views import Augment, AxisDrop, AxisRotate, Blur, Mirror, Noise, TimeFlip


class StrongConfig(Config):
    """What configs of these methods have for it; defaults follow AimCLR's code.

    >>> [augment.kind for augment in StrongConfig().strong()]
    ['mirror', 'axis-rotate', 'noise', 'blur', 'axis-drop']
    """

    flip: Literal["swap", "mirror"] = Field("swap", description="sides change places; mirror: and x is negated")
    blur: Literal["released", "normalised"] = Field(
        "released", description="weights of the blur as released, summing to up to 5, or summing to 1"
    )
    time_flip: bool = Field(False, description="play half of the strong views backwards")

    def strong(self) -> tuple[Augment, ...]:
        """What is done to a clip after it was sheared."""
        return (
            Mirror(reflect=self.flip == "mirror"),
            AxisRotate(),
            Noise(std=0.01),
            Blur(normalised=self.blur == "normalised"),
            AxisDrop(p=0.5),
            *([TimeFlip()] if self.time_flip else []),
        )
