"""The views of ISC's family (CMD, UmURL, USDRL): a crop of any length, distorted in one of three ways."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from skelbench.methods.contract import Config
from skelbench.views import Distort, Free, ViewSpec
from skelbench.views.crops import Resampling
from skelbench.views.skeleton.grid import Grid


class DistortedConfig(Config):
    """Settings that these methods share.

    >>> DistortedConfig().view(Grid(frames=64, patch=8, joints=25)).augment[0].kind
    'distort'
    """

    resize: Resampling = "ends"

    def view(self, grid: Grid, **fields: Any) -> ViewSpec:
        """A tenth of the clip to all of it, at least 64 frames if it has them, distorted; ``fields`` of the view."""
        crop = Free(lo=0.1, hi=1.0, whole_frames=True, min_frames=64)
        return ViewSpec(
            **{"frames": grid.frames, "crop": crop, "augment": (Distort(),), "resize": self.resize} | fields
        )


class DistortedContrastConfig(DistortedConfig):
    """The same of momentum contrast of one stream; numbers are those of MoCo in CMD's and HaLP's codes.

    >>> DistortedContrastConfig(queue=1024).momentum
    0.999
    """

    stream: Literal["joint", "bone", "motion"] = Field("joint", description="what of the clip it is trained on")
    queue: int = Field(16384, ge=1, description="keys in the queue")
    embedding: int = Field(128, ge=1, description="width of the embedding")
    momentum: float = Field(0.999, ge=0, le=1, description="of the key encoder, constant")
    temperature: float = Field(0.07, gt=0, description="of the softmax over keys")
