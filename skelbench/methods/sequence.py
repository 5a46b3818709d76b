"""The views of recurrent autoencoders (Predict and Cluster, LongT-GAN): the whole clip, as it is."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skelbench.methods.contract import Config
from skelbench.views import Center, ViewSpec
from skelbench.views.skeleton.grid import Grid


class SequenceConfig(Config):
    """Settings that these methods share.

    >>> SequenceConfig().view(Grid(frames=64, patch=8, joints=25)).crop
    Center(share=1.0)
    """

    resize: Literal["ends", "half-pixel", "uniform-frames", "strided"] = Field(
        "ends", description="how a clip becomes T frames; P&C: every so many-th recorded one, short clips padded"
    )

    def view(self, grid: Grid) -> ViewSpec:
        """All of the clip; nothing is drawn."""
        return ViewSpec(frames=grid.frames, crop=Center(share=1.0), resize=self.resize)
