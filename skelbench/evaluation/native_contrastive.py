"""The linear probes of the contrastive methods' own codes, on features as they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from skelbench.core.component import Share
from skelbench.evaluation.native import NativeLinear
from skelbench.evaluation.protocol import Features, Progress
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.views.crops import Free
from skelbench.views.keyed import Keyed

DROPS = "shares of the epochs at which the rate falls to a tenth"

ALL_SLOTS = {"bodies": "all-slots", "bodies_pool": "all-mean", "share": 1.0, "resize": "half-pixel"}
"""How AimCLR, CrosSCLR and PSTL evaluate: the mean of both bodies of a whole clip, empty ones included."""

SIDE_BY_SIDE = {"bodies_pool": "concat", "resize": "half-pixel"}
"""How CMD, HiCo and UmURL evaluate: both bodies of a clip in one vector, in the order of their slots."""


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="linear@aimclr",
            target=":AimCLRLinear",
            summary="linear probe of AimCLR's and CrosSCLR's codes: SGD 3.0, 100 epochs, whole clips, no augmentation",
            defaults=ALL_SLOTS,
        ),
        ProtocolSpec(
            name="linear@cmd",
            target=":CMDLinear",
            summary="linear probe of CMD's code: SGD 0.1, 80 epochs, each on newly cropped clips; costs about 80 times "
            "`linear`",
            defaults={**SIDE_BY_SIDE, "share": 0.95},
        ),
        ProtocolSpec(
            name="linear@isc",
            target=":ISCLinear",
            summary="linear probe of ISC's code, which CMD's has kept: SGD 0.1, 80 epochs, each on newly cropped clips",
            defaults={**SIDE_BY_SIDE, "share": 0.95},
        ),
        ProtocolSpec(
            name="linear@umurl",
            target=":UmURLLinear",
            summary="linear probe of UmURL's code: SGD 0.03, 150 epochs, whole clips, no augmentation",
            defaults={**SIDE_BY_SIDE, "share": 1.0},
        ),
        ProtocolSpec(
            name="linear@hico",
            target=":HiCoLinear",
            summary="linear probe of HiCo's and SCD-Net's codes: SGD 2.0, 80 epochs, the central 95 % of clips, no "
            "augmentation",
            defaults={**SIDE_BY_SIDE, "share": 0.95},
        ),
        ProtocolSpec(
            name="linear@pstl",
            target=":PSTLLinear",
            summary="linear probe of PSTL's code: Adam 0.01, 150 epochs, a cosine, whole clips, no augmentation",
            defaults=ALL_SLOTS,
        ),
    ]


class AimCLRLinear(NativeLinear):
    """``linear@aimclr``: the probe of AimCLR's and CrosSCLR's codes (Levigty/AimCLR 6cd7376, LinguoLi/CrosSCLR 792b70c:
    processor/linear_evaluation.py, config/*/linear_eval).

    A linear layer on the frozen encoder's features as they are, neither normalised nor augmented, so that the encoder
    runs once over all clips. Test and held-out clips are scored every 5 epochs, as in the code. Metrics:
    :class:`~skelbench.evaluation.native.NativeLinear`.
    """

    normalises: ClassVar[bool] = False
    weight_std: ClassVar[float] = 0.02
    drops_incomplete: ClassVar[bool] = True
    every: ClassVar[int] = 5

    lr: float = Field(3.0, gt=0, description="at the start, not scaled by the batch size")
    batch_size: int = Field(128, ge=2, description="clips per step")
    epochs: int = Field(100, ge=1, description="passes over the training clips")
    drops: tuple[Share, ...] = Field((0.8,), description=DROPS)
    crop_min: float = Field(1.0, gt=0, le=1, description="shortest training crop, share of the clip; 1 = not cropped")
    crop_frames: int = Field(64, ge=1, description="crops are at least this many frames, if the clip has them")

    def rate(self, epoch: float) -> float:
        """A tenth less at the end of the epoch nearest to each of ``drops``."""
        return self.lr * 0.1 ** sum(epoch >= round(share * self.epochs) for share in self.drops)

    def passes(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None
    ) -> Iterator[Tensor]:
        """The features that there are, or those of clips newly cropped in every epoch."""
        if self.crop_min < 1:
            crop = Free(lo=self.crop_min, hi=1.0, whole_frames=True, min_frames=self.crop_frames)
            for epoch in range(self.epochs):
                yield self.augmented(features, Keyed(seed, epoch), crop, progress=progress)
            return
        yield from self.unchanged(features, device, progress)


class CMDLinear(AimCLRLinear):
    """``linear@cmd``: the probe of CMD's code (maoyunyao/CMD 6e9a8ac: action_classification_cmd.py, its script,
    feeder_downstream.py). Training clips are cropped anew in every epoch, as :class:`MampLinear
    <skelbench.evaluation.native_masked.MampLinear>` crops them, so that the encoder runs 81 times over them.
    """

    weight_std: ClassVar[float] = 0.01
    drops_incomplete: ClassVar[bool] = False

    lr: float = Field(0.1, gt=0, description="at the start, not scaled by the batch size")
    batch_size: int = Field(64, ge=2, description="clips per step")
    epochs: int = Field(80, ge=1, description="passes of the encoder over the cropped training clips: the cost")
    drops: tuple[Share, ...] = Field((50 / 80, 70 / 80), description=DROPS)
    crop_min: float = Field(0.5, gt=0, le=1, description="shortest training crop, share of the clip; 1 = not cropped")


class ISCLinear(CMDLinear):
    """``linear@isc``: the probe of ISC's code (fmthoker/skeleton-contrast: action_classification.py, its script,
    feeder/feeder_downstream.py), from which CMD has its own, of any of its encoders.
    """


class UmURLLinear(AimCLRLinear):
    """``linear@umurl``: the probe of UmURL's code (HuiGuanLab/UmURL 744278b: action_recognition.py, its script,
    options_downstream.py). USDRL's (wengwanjiang/USDRL 7e83bb6) has ``lr=0.006, epochs=160, drops=[0.75, 0.875]``; 0.03
    on NTU-60 X-View, and 0.01 with ``crop_min=0.5`` on PKU-MMD II.
    """

    weight_std: ClassVar[float] = 0.01
    drops_incomplete: ClassVar[bool] = False

    lr: float = Field(0.03, gt=0, description="at the start, not scaled by the batch size; USDRL's 0.006")
    batch_size: int = Field(512, ge=2, description="clips per step")
    epochs: int = Field(150, ge=1, description="passes over the training clips; USDRL's 160")
    drops: tuple[Share, ...] = Field((120 / 150, 140 / 150), description=DROPS)


class HiCoLinear(AimCLRLinear):
    """``linear@hico``: the probe of HiCo's and SCD-Net's codes (HuiGuanLab/HiCo cf39a93, cong-wu/SCD-Net:
    action_classification.py, its script or README, options_classification.py), which cut training clips as test clips.
    """

    weight_std: ClassVar[float] = 0.01
    drops_incomplete: ClassVar[bool] = False

    lr: float = Field(2.0, gt=0, description="at the start, not scaled by the batch size")
    batch_size: int = Field(1024, ge=2, description="clips per step")
    epochs: int = Field(80, ge=1, description="passes over the training clips")
    drops: tuple[Share, ...] = Field((50 / 80, 70 / 80), description=DROPS)


class PSTLLinear(NativeLinear):
    """``linear@pstl``: the probe of PSTL's code (YujieOuO/PSTL da95ce1: procedure.py, model.py, config.py).

    A linear layer on the frozen encoder's features as they are, Adam, whose rate falls along half a cosine by epochs.
    Metrics: :class:`~skelbench.evaluation.native.NativeLinear`.
    """

    normalises: ClassVar[bool] = False
    drops_incomplete: ClassVar[bool] = False

    lr: float = Field(0.01, gt=0, description="at the start, not scaled by the batch size")
    batch_size: int = Field(128, ge=2, description="clips per step")
    epochs: int = Field(150, ge=1, description="passes over the training clips")

    def rate(self, epoch: float) -> float:
        """The same for a whole epoch; after the last one it would be 0."""
        return self.lr * (1 + math.cos(math.pi * math.floor(epoch) / self.epochs)) / 2

    def passes(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None
    ) -> Iterator[Tensor]:
        """The features that there are."""
        return self.unchanged(features, device, progress)

    def classifier(self, width: int, classes: int, generator: torch.Generator, device: torch.device | str) -> nn.Module:
        """Its weights begin Xavier-normal."""
        layer = super().classifier(width, classes, generator, device)
        with torch.no_grad():
            layer.get_parameter("weight").mul_((2 / (width + classes)) ** 0.5 / self.weight_std)
        return layer

    def optimiser(self, layer: nn.Module) -> torch.optim.Optimizer:
        """Adam without decay."""
        return torch.optim.Adam(layer.parameters(), lr=self.lr)
