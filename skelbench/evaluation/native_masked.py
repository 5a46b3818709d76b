"""The linear probe of the masked-autoencoder family's own code: batch normalisation, SGD, augmentation left on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from skelbench.evaluation.native import NativeLinear
from skelbench.evaluation.protocol import Features, Progress
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.views.augmentations import Rotate
from skelbench.views.crops import Free
from skelbench.views.keyed import Keyed

MAE_DEFAULTS = {"bodies": "all-slots", "bodies_pool": "all-mean", "share": 0.95, "resize": "half-pixel"}
"""How the family evaluates: absent bodies are encoded and averaged in, its centre crop and resizing."""


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="linear@mamp",
            target=":MampLinear",
            summary="linear probe of MAMP's code: batch norm, SGD 0.1, 100 epochs, each on newly augmented clips; "
            "costs about 100 times `linear`",
            defaults={**MAE_DEFAULTS, "readout": "mean"},
        ),
        ProtocolSpec(
            name="linear@macdiff",
            target=":MacDiffLinear",
            summary="linear probe of MacDiff's code: as linear@mamp, with dropout, on features that keep the joints "
            "apart (J x D wide)",
            defaults={**MAE_DEFAULTS, "readout": "joints"},
        ),
    ]


class MampLinear(NativeLinear):
    """``linear@mamp``: the probe of MAMP's code (maoyunyao/MAMP: main_linprobe, engine_linprobe, lr_sched).

    Batch normalisation without affine, a linear layer, SGD, on training features that are computed anew in every epoch:
    clips newly cropped and rotated. On PKU-MMD II its code has ``batch_size=32, lr=0.01``.

    An evaluation runs the encoder ``epochs + 1`` times over the training clips and once over the test clips; the
    neutral ``linear`` does so once over both. Metrics: :class:`~skelbench.evaluation.native.NativeLinear`.
    """

    normalises: ClassVar[bool] = True
    drops_incomplete: ClassVar[bool] = True

    lr: float = Field(0.1, gt=0, description="at the start, not scaled by the batch size; 0.01 on PKU-MMD II")
    batch_size: int = Field(256, ge=2, description="clips per step, an incomplete last batch is left out; 32 on PKU-II")
    epochs: int = Field(100, ge=1, description="passes of the encoder over the augmented training clips: the cost")
    rest: float = Field(0.0, ge=0, lt=1, description="share of the epochs at the end with a learning rate of 0")
    dropout: float = Field(0.0, ge=0, lt=1, description="on token features in training, before they are averaged")
    crop_min: float = Field(0.5, gt=0, le=1, description="shortest training crop, share of the clip")
    crop_frames: int = Field(64, ge=1, description="crops are at least this many frames, if the clip has them")
    rotation_deg: float = Field(17.18873385, ge=0, description="rotation limit about every axis in training; 0.3 rad")

    def rate(self, epoch: float) -> float:
        """A half cosine per step down to 0 at the end, or ``rest`` of the epochs before it."""
        share = min(1.0, epoch / (self.epochs * (1 - self.rest)))
        return self.lr * 0.5 * (1 + math.cos(math.pi * share))

    def passes(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None
    ) -> Iterator[Tensor]:
        """Clips newly cropped and rotated in every epoch."""
        crop = Free(lo=self.crop_min, hi=1.0, whole_frames=True, min_frames=self.crop_frames)
        turn = Rotate(p=1.0, vertical_deg=self.rotation_deg, tilt_deg=self.rotation_deg)
        for epoch in range(self.epochs):
            yield self.augmented(features, Keyed(seed, epoch), crop, (turn,), self.dropout, progress)


class MacDiffLinear(MampLinear):
    """``linear@macdiff``: the probe of MacDiff's code (Wenrui-Shen/MacDiff, commit 692888f).

    As MAMP's, on features that keep the joints apart, with dropout, and with the cosine at 0 ten epochs early.
    """

    rest: float = Field(0.1, ge=0, lt=1, description="share of the epochs at the end with a learning rate of 0")
    dropout: float = Field(0.3, ge=0, lt=1, description="on token features in training, before they are averaged")
