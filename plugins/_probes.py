"""Linear probes and fine-tuning of released codes, shared by several methods.

A class holds the settings that codes have in common; the protocol of a method is a subclass with its own defaults.
"""

from collections.abc import Iterator
from math import cos, pi
from typing import ClassVar, Literal

import torch
from pydantic import Field
from skelbench_plugins._native import NativeLinear
from torch import Tensor

from skelbench.core.component import Share
from skelbench.evaluation.finetune import FineTune
from skelbench.evaluation.label_subsets import DRAWS
from skelbench.evaluation.protocol import Features, Progress
from skelbench.views import Rotate
from skelbench.views.crops import Free
from skelbench.views.keyed import Keyed

DROPS = "fractions of the epochs at which the rate falls to a tenth"
LABELS = "fraction of the training clips whose labels are used"
LISTS = "lists of such clips (`skelbench data labels`), from the first on"


class SteppedLinear(NativeLinear):
    """A linear layer on features that are neither normalized nor, by default, augmented; SGD with a step schedule."""

    normalizes: ClassVar[bool] = False
    drops_incomplete: ClassVar[bool] = False
    every: ClassVar[int] = 5

    drops: tuple[Share, ...] = Field((0.8,), description=DROPS)
    crop_min: float = Field(
        1.0, gt=0, le=1, description="shortest training crop, fraction of the clip; 1 = not cropped"
    )
    crop_frames: int = Field(64, ge=1, description="crops are at least this many frames, if the clip has them")

    def rate(self, epoch: float) -> float:
        """Learning rate: divided by 10 at the end of the epoch nearest to each of ``drops``."""
        return self.lr * 0.1 ** sum(epoch >= round(share * self.epochs) for share in self.drops)

    def passes(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None
    ) -> Iterator[Tensor]:
        """Features of the training clips; with crops, of newly cropped clips in every epoch."""
        if self.crop_min == 1:
            yield from self.unchanged(features, device, progress)
            return
        crop = Free(lo=self.crop_min, hi=1.0, whole_frames=True, min_frames=self.crop_frames)
        for epoch in range(self.epochs):
            yield self.augmented(features, Keyed(seed, epoch), crop, progress=progress)


class CroppedLinear(SteppedLinear):
    """The probe of ISC's and CMD's codes: clips are cropped again in every epoch."""

    batch_size: int = Field(64, ge=2, description="clips per step")
    epochs: int = Field(80, ge=1, description="passes of the encoder over the cropped training clips: the cost")
    drops: tuple[Share, ...] = Field((50 / 80, 70 / 80), description=DROPS)
    crop_min: float = Field(
        0.5, gt=0, le=1, description="shortest training crop, fraction of the clip; 1 = not cropped"
    )


class RotatedLinear(NativeLinear):
    """The probe of the masked-autoencoder family: batch normalization without affine, a linear layer, SGD, on training
    features that are computed again in every epoch from newly cropped and rotated clips.

    An evaluation runs the encoder ``epochs + 1`` times over the training clips and once over the test clips; the
    neutral ``linear`` does so once over both. Metrics: :class:`~skelbench_plugins._native.NativeLinear`.
    """

    normalizes: ClassVar[bool] = True
    drops_incomplete: ClassVar[bool] = True

    lr: float = Field(
        0.1, gt=0, description="learning rate at the start, not scaled by the batch size; 0.01 on PKU-MMD II"
    )
    batch_size: int = Field(256, ge=2, description="clips per step, an incomplete last batch is skipped; 32 on PKU-II")
    epochs: int = Field(100, ge=1, description="passes of the encoder over the augmented training clips: the cost")
    rest: float = Field(0.0, ge=0, lt=1, description="fraction of the epochs at the end with a learning rate of 0")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout on token features in training, before they are averaged"
    )
    crop_min: float = Field(0.5, gt=0, le=1, description="shortest training crop, fraction of the clip")
    crop_frames: int = Field(64, ge=1, description="crops are at least this many frames, if the clip has them")
    rotation_deg: float = Field(17.18873385, ge=0, description="rotation limit about every axis in training; 0.3 rad")

    def rate(self, epoch: float) -> float:
        """Learning rate: half a cosine per step down to 0 at the end, or ``rest`` of the epochs earlier."""
        return self.lr * 0.5 * (1 + cos(pi * min(1.0, epoch / (self.epochs * (1 - self.rest)))))

    def passes(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None
    ) -> Iterator[Tensor]:
        """Features of clips that are newly cropped and rotated in every epoch."""
        crop = Free(lo=self.crop_min, hi=1.0, whole_frames=True, min_frames=self.crop_frames)
        turn = Rotate(p=1.0, vertical_deg=self.rotation_deg, tilt_deg=self.rotation_deg)
        for epoch in range(self.epochs):
            yield self.augmented(features, Keyed(seed, epoch), crop, (turn,), self.dropout, progress)


class SteppedFineTune(FineTune):
    """Fine-tuning in CMD's setting: all parameters by SGD with a step schedule, without decay; crops but no
    rotation."""

    epochs: int = Field(80, ge=1, description="passes over the labeled clips")
    min_steps: int = Field(0, ge=0, description="least number of steps; with few clips, more epochs")
    batch_size: int = Field(64, ge=2, description="clips per step; each epoch is cut into batches in the same way")
    optimizer: Literal["adamw", "adam", "sgd"] = Field("sgd", description="sgd has momentum 0.9")
    lr: float = Field(0.01, gt=0, description="learning rate at the start, not scaled by the batch size")
    layer_decay: float = Field(1.0, gt=0, le=1, description="rate of a layer / rate of the next; 1 = same rate")
    weight_decay: float = Field(0.0, ge=0, description="weight decay of the optimizer")
    warmup: float = Field(0.0, ge=0, lt=1, description="linear warm-up, fraction of the schedule")
    drops: tuple[Share, ...] = Field(
        (50 / 80, 70 / 80), description="fractions of the schedule at which the rate falls to a tenth"
    )
    drop_path: float = Field(
        0.0, ge=0, lt=1, description="probability of skipping the last block; lower for earlier ones"
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="fraction of the target spread over all classes")
    rotation_deg: float = Field(0.0, ge=0, description="rotation limit about every axis in training")
    label_share: float = Field(0.01, gt=0, le=1, description=LABELS)
    draws: int = Field(DRAWS, ge=1, description=LISTS)
    stratified: bool = Field(False, description="label_share of every class; false = of all clips, as in this code")


class WholeClipFineTune(SteppedFineTune):
    """Fine-tuning on whole clips of a stratified part of the labels, as in AimCLR's family."""

    epochs: int = Field(100, ge=1, description="passes over the labeled clips")
    lr: float = Field(0.1, gt=0, description="learning rate at the start, not scaled by the batch size")
    decay_all: bool = Field(True, description="weight decay of biases, norms and other 1-D parameters as well")
    crop_min: float = Field(
        1.0, gt=0, le=1, description="shortest training crop, fraction of the clip; 1 = not cropped"
    )
    stratified: bool = Field(True, description="label_share of every class; false = of all clips")
