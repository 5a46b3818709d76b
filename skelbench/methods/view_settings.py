"""Views that families of methods share: strong augmentations, distorted crops, whole clips."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from skelbench.methods.contract import Config
from skelbench.views import (
    Augment,
    AxisDrop,
    AxisRotate,
    Blur,
    Center,
    Distort,
    Free,
    Mirror,
    Noise,
    TimeFlip,
    ViewSpec,
)
from skelbench.views.crops import Resampling
from skelbench.views.skeleton.grid import Grid


class StrongConfig(Config):
    """Strong augmentation of AimCLR and later methods of its family; defaults follow its code (feeder/tools.py).

    >>> [augment.kind for augment in StrongConfig().strong()]
    ['mirror', 'axis-rotate', 'noise', 'blur', 'axis-drop']
    """

    flip: Literal["swap", "mirror"] = Field("swap", description="swap: exchange left and right; mirror: negate x too")
    blur: Literal["released", "normalized"] = Field(
        "released", description="weights of the blur as released, summing to up to 5, or summing to 1"
    )
    time_flip: bool = Field(False, description="play half of the strong views backwards")

    def strong(self) -> tuple[Augment, ...]:
        """Augmentations of a clip after it was sheared."""
        return (
            Mirror(reflect=self.flip == "mirror"),
            AxisRotate(),
            Noise(std=0.01),
            Blur(normalized=self.blur == "normalized"),
            AxisDrop(p=0.5),
            *([TimeFlip()] if self.time_flip else []),
        )


class DistortedConfig(Config):
    """Views of ISC's family (CMD, UmURL, USDRL): a crop of any length, distorted in one of three ways.

    >>> DistortedConfig().view(Grid(frames=64, patch=8, joints=25)).augment[0].kind
    'distort'
    """

    resize: Resampling = "ends"

    def view(self, grid: Grid, **fields: Any) -> ViewSpec:
        """A crop of a tenth of the clip to all of it, of at least 64 frames if possible, distorted."""
        crop = Free(lo=0.1, hi=1.0, whole_frames=True, min_frames=64)
        return ViewSpec(
            **{"frames": grid.frames, "crop": crop, "augment": (Distort(),), "resize": self.resize} | fields
        )


class DistortedContrastConfig(DistortedConfig):
    """The crop for momentum contrast of one stream; defaults follow MoCo in CMD's and HaLP's codes.

    >>> DistortedContrastConfig(queue=1024).momentum
    0.999
    """

    stream: Literal["joint", "bone", "motion"] = Field("joint", description="stream that it is trained on")
    queue: int = Field(16384, ge=1, description="keys in the queue")
    embedding: int = Field(128, ge=1, description="width of the embedding")
    momentum: float = Field(0.999, ge=0, le=1, description="EMA momentum of the key encoder, constant")
    temperature: float = Field(0.07, gt=0, description="temperature of the softmax over keys")


class SequenceConfig(Config):
    """Views of recurrent autoencoders (Predict and Cluster, LongT-GAN): the whole clip, unchanged.

    >>> SequenceConfig().view(Grid(frames=64, patch=8, joints=25)).crop
    Center(share=1.0)
    """

    resize: Literal["ends", "half-pixel", "uniform-frames", "strided"] = Field(
        "ends", description="resampling of a clip to T frames; P&C: every k-th recorded frame, short clips padded"
    )

    def view(self, grid: Grid) -> ViewSpec:
        """The whole clip, without random draws."""
        return ViewSpec(frames=grid.frames, crop=Center(share=1.0), resize=self.resize)
