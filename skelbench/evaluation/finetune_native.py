"""Fine-tuning as published codes do it: other settings of the same class, named after their source."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import nn

from skelbench.evaluation.finetune import FineTune
from skelbench.evaluation.finetune_settings import Share
from skelbench.evaluation.label_subsets import DRAWS
from skelbench.models.hyperbolic import MoebiusLinear
from skelbench.models.initial import xavier_linear
from skelbench.plugin import ProtocolSpec, hookimpl

LABELS = "share of the training clips whose labels are used"
LISTS = "lists of such clips (`skelbench data labels`), from the first on"
STRATIFIED = "that share of every class; false = of all clips, as this code has it"
SLOTS = {"bodies": "all-slots", "bodies_pool": "all-mean", "resize": "half-pixel"}
JOINTS = {**SLOTS, "share": 0.95, "readout": "joints"}
CONCATENATED = {"bodies_pool": "concat", "share": 0.95, "resize": "half-pixel"}
"""How MAMP's and CMD's codes look at clips, as for their linear probes."""


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    def semi(source: str, cls: str, how: str, defaults: dict[str, object], version: int = 1) -> list[ProtocolSpec]:
        return [
            ProtocolSpec(
                name=f"semi@{percent}@{source}",
                target=f":{cls}{'' if percent == 1 else percent}",
                summary=f"{percent} % of the labels, fine-tuned by {how}",
                version=version,
                defaults=defaults,
            )
            for percent in (1, 10)
        ]

    return [
        ProtocolSpec(
            name="finetune@mamp",
            target=":MampFineTune",
            summary="fine-tuning of MAMP's code: its head of two layers on features that keep the joints apart",
            version=2,
            defaults=JOINTS,
        ),
        *semi("mamp", "MampSemi", "MAMP's code: lists that are not stratified", JOINTS, version=2),
        *semi("cmd", "CMDSemi", "CMD's code: SGD 0.01, lists that are not stratified", CONCATENATED),
        *semi(
            "aimclr",
            "AimCLRSemi",
            "AimCLR's code: the encoder in eval mode while its weights move",
            {**SLOTS, "share": 1.0},
        ),
        *semi("hysp", "HYSPSemi", "HYSP's code: a Möbius-linear layer in the Poincaré ball", {**SLOTS, "share": 1.0}),
    ]


class MampFineTune(FineTune):
    """``finetune@mamp``: fine-tuning of MAMP's code (maoyunyao/MAMP 09e6252: main_finetune.py, its scripts).

    Dropout on tokens, their mean over time with the joints apart, the mean over both body slots, a hidden layer of 2048
    with batch norm and ReLU, a linear layer: 6.9 million parameters more than the encoder's 6.3 at its published size.
    Our reading: batches alike in place of an incomplete last one; batch norm of the whole batch of 48 in one process,
    where the code has 2 x 24.
    """

    min_steps: int = Field(0, ge=0, description="more epochs where they make fewer steps than this")
    dropout: float = Field(0.3, ge=0, lt=1, description="on token features before they are averaged")
    head_hidden: int = Field(2048, ge=0, description="width of a hidden layer with batch norm and ReLU; 0 = linear")

    def hidden(self, width: int, hidden: int) -> nn.Linear:
        """As all linear layers of its code begin."""
        layer = nn.Linear(width, hidden)
        xavier_linear(layer)
        return layer

    def classifier(self, width: int, classes: int) -> nn.Linear:
        """As :meth:`hidden`."""
        return self.hidden(width, classes)


class MampSemi(MampFineTune):
    """``semi@1@mamp``: as ``finetune@mamp`` on int(1 % of n) clips of a shuffle. Its own lists come from a seed that
    each of two processes draws anew (so that together they see up to twice as many clips); ours are five fixed ones."""

    label_share: float = Field(0.01, gt=0, le=1, description=LABELS)
    draws: int = Field(DRAWS, ge=1, description=LISTS)
    stratified: bool = Field(False, description=STRATIFIED)


class MampSemi10(MampSemi):
    """``semi@10@mamp``: with 10 %."""

    label_share: float = Field(0.1, gt=0, le=1, description=LABELS)


class CMDSemi(FineTune):
    """``semi@1@cmd``: semi-supervised learning of CMD's code (maoyunyao/CMD 6e9a8ac; with ``label_share=1`` and
    ``draws=1`` its transfer): all parameters by SGD 0.01 without decay, batch 64, 80 epochs, a tenth from epochs 51 and
    71, crops and no rotation, five lists of int(1 % of n) clips of a shuffle. It prints the best epoch on test.
    """

    epochs: int = Field(80, ge=1, description="passes over the labelled clips")
    min_steps: int = Field(0, ge=0, description="more epochs where they make fewer steps than this")
    batch_size: int = Field(64, ge=2, description="clips per step; those of an epoch are cut into batches alike")
    optimizer: Literal["adamw", "adam", "sgd"] = Field("sgd", description="sgd has momentum 0.9")
    lr: float = Field(0.01, gt=0, description="at the start, not scaled by the batch size")
    layer_decay: float = Field(1.0, gt=0, le=1, description="rate of a layer, times that of the next; 1 = all alike")
    weight_decay: float = Field(0.0, ge=0, description="of the optimiser")
    warmup: float = Field(0.0, ge=0, lt=1, description="linear warm-up, share of the schedule")
    drops: tuple[Share, ...] = Field((50 / 80, 70 / 80), description="when the rate falls to a tenth, shares")
    drop_path: float = Field(0.0, ge=0, lt=1, description="chance to leave out the last block; earlier ones less")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target spread over all classes")
    rotation_deg: float = Field(0.0, ge=0, description="rotation limit about every axis in training")
    label_share: float = Field(0.01, gt=0, le=1, description=LABELS)
    draws: int = Field(DRAWS, ge=1, description=LISTS)
    stratified: bool = Field(False, description=STRATIFIED)


class CMDSemi10(CMDSemi):
    """``semi@10@cmd``: with 10 %."""

    label_share: float = Field(0.1, gt=0, le=1, description=LABELS)


class AimCLRSemi(CMDSemi):
    """``semi@1@aimclr``: semi-supervised learning of AimCLR's code (Levigty/AimCLR 6cd7376): round(1 % of n) clips of
    every class, the encoder in eval mode although all its weights move. No settings of it are published. Our reading:
    SGD 0.1 and weight decay 1e-4 of all parameters as in its pre-training, batch 128, 100 epochs, a tenth from epoch
    81 and whole clips as in its linear probe.
    """

    epochs: int = Field(100, ge=1, description="passes over the labelled clips")
    batch_size: int = Field(128, ge=2, description="clips per step; those of an epoch are cut into batches alike")
    lr: float = Field(0.1, gt=0, description="at the start, not scaled by the batch size")
    weight_decay: float = Field(1e-4, ge=0, description="of the optimiser")
    decay_all: bool = Field(True, description="weight decay of biases, norms and other 1-D parameters as well")
    drops: tuple[Share, ...] = Field((0.8,), description="when the rate falls to a tenth, shares")
    encoder_mode: Literal["train", "eval"] = Field("eval", description="the code calls model.eval() in training")
    crop_min: float = Field(1.0, gt=0, le=1, description="shortest training crop, share of the clip; 1 = not cropped")
    stratified: bool = Field(True, description="that share of every class; false = of all clips")


class AimCLRSemi10(AimCLRSemi):
    """``semi@10@aimclr``: with 10 %."""

    label_share: float = Field(0.1, gt=0, le=1, description=LABELS)


class HYSPSemi(AimCLRSemi):
    """``semi@1@hysp``: semi-supervised learning of HYSP's code (paolomandica/HYSP 7aa7bc0: src/eval_learners.py,
    config/ntu60/eval/eval_xsub.yaml), published for 10 %: SGD 0.1 of the encoder and 10 of the Möbius-linear layer of
    its probe, without decay, batch 256, 100 epochs, a tenth from epochs 61 and 81, whole clips, in training mode. Our
    reading: SGD of its bias as its probe's; with ``label_share=1`` and ``draws=1`` its supervised learning.
    """

    batch_size: int = Field(256, ge=2, description="clips per step; those of an epoch are cut into batches alike")
    head_lr: float = Field(100.0, gt=0, description="the classifier's rate, times lr")
    weight_decay: float = Field(0.0, ge=0, description="of the optimiser")
    drops: tuple[Share, ...] = Field((0.6, 0.8), description="when the rate falls to a tenth, shares")
    encoder_mode: Literal["train", "eval"] = Field("train", description="eval = the encoder as it is evaluated")
    hyperbolic: bool = Field(True, description="a Möbius-linear layer in the ball; false: a linear layer")

    def classifier(self, width: int, classes: int) -> nn.Module:
        """Möbius-linear, or linear."""
        return MoebiusLinear(width, classes) if self.hyperbolic else super().classifier(width, classes)


class HYSPSemi10(HYSPSemi):
    """``semi@10@hysp``: with 10 %."""

    label_share: float = Field(0.1, gt=0, le=1, description=LABELS)
