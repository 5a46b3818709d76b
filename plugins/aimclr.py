"""AimCLR: a strongly augmented view learns from a normal one (Guo et al., AAAI 2022).

SkeletonCLR with two more losses: a strongly augmented view learns the normal view's softmax over keys, once unchanged
and once without its features of highest energy; in the second half the nearest keys of all three count as positives.
Facts: Levigty/AimCLR, net/aimclr.py, net/st_gcn.py, feeder/tools.py.
"""

from typing import ClassVar, Literal

from pydantic import Field
from skelbench_plugins._probes import LABELS, SteppedLinear, WholeClipFineTune
from skelbench_plugins._recipes import (
    ALL_SLOTS,
    GRAPH_CONTRAST_NATIVE,
    GRAPH_CONTRAST_RECIPE,
    MOMENTUM_SPACE,
    RATES_SPACE,
    semi,
)

from skelbench.core.component import Share
from skelbench.methods import ExtremeContrast, ExtremeContrastConfig
from skelbench.plugin import Log, MethodSpec, NativeProbe, ProtocolSpec, hookimpl


class AimCLRConfig(ExtremeContrastConfig):
    """Defaults follow the authors' code."""

    mining_from: float = Field(0.5, ge=0, le=1, description="fraction of the schedule without positives among the keys")


class AimCLR(ExtremeContrast):
    """Momentum contrast, and a strongly augmented view that learns the normal one's distribution over keys."""

    Config = AimCLRConfig

    @classmethod
    def views(cls, config, grid):
        return {"strong": config.view(grid, *config.strong()), "query": config.view(grid), "key": config.view(grid)}

    def phases(self):
        return [("contrast", 0.0), ("mining", self.config.mining_from)]

    def training_step(self, views, step):
        return self.contrast(views["strong"], views["query"], views["key"], step, step.phase == "mining")


class AimCLRLinear(SteppedLinear):
    """``linear@aimclr``: the probe of AimCLR's and CrosSCLR's codes (Levigty/AimCLR 6cd7376, LinguoLi/CrosSCLR 792b70c:
    processor/linear_evaluation.py, config/*/linear_eval).

    A linear layer on the frozen encoder's features, neither normalized nor augmented, so that the encoder
    runs once over all clips. Test and held-out clips are scored every 5 epochs, as in the code. Metrics:
    :class:`~skelbench_plugins._native.NativeLinear`.
    """

    weight_std: ClassVar[float] = 0.02
    drops_incomplete: ClassVar[bool] = True

    lr: float = Field(3.0, gt=0, description="learning rate at the start, not scaled by the batch size")
    batch_size: int = Field(128, ge=2, description="clips per step")


class AimCLRSemi(WholeClipFineTune):
    """``semi@1@aimclr``: semi-supervised learning of AimCLR's code (Levigty/AimCLR 6cd7376): round(1 % of n) clips of
    every class, the encoder is in eval mode although all its weights are trained. Its settings are not published. Our
    assumption: SGD 0.1 and weight decay 1e-4 for all parameters as in its pre-training; batch 128, 100 epochs, a tenth
    of the rate from epoch 81, and whole clips as in its linear probe.
    """

    batch_size: int = Field(128, ge=2, description="clips per step; each epoch is cut into batches in the same way")
    weight_decay: float = Field(1e-4, ge=0, description="weight decay of the optimizer")
    drops: tuple[Share, ...] = Field((0.8,), description="fractions of the schedule at which the rate falls to a tenth")
    encoder_mode: Literal["train", "eval"] = Field("eval", description="the code calls model.eval() in training")


class AimCLRSemi10(AimCLRSemi):
    """``semi@10@aimclr``: with 10 %."""

    label_share: float = Field(0.1, gt=0, le=1, description=LABELS)


@hookimpl
def skelbench_protocols():
    return [
        ProtocolSpec(
            name="linear@aimclr",
            target=":AimCLRLinear",
            summary="linear probe of the code of AimCLR and CrosSCLR: SGD 3.0, 100 epochs, whole clips",
            defaults=ALL_SLOTS,
        ),
        *semi("aimclr", ":AimCLRSemi", "AimCLR's code: encoder in eval mode", ALL_SLOTS),
    ]


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="aimclr",
            spelling="AimCLR",
            target=":AimCLR",
            version=2,
            config=":AimCLRConfig",
            summary="strongly augmented views learn the similarities of normal views; near keys are positives",
            citation="Guo et al., Contrastive Learning from Extremely Augmented Skeleton Sequences for Self-supervised "
            "Action Recognition, AAAI 2022 (arXiv 2112.03590)",
            requires=("cells",),
            readings="as skeletonclr; features are rescaled by the dropped fraction of the batch of all processes; an "
            "empty body slot has no noise (--native: it has, as in the code); with a class token, the head reads it "
            "next to the mean of all tokens, in which dropped tokens are 0",
            recipe=GRAPH_CONTRAST_RECIPE,
            native=GRAPH_CONTRAST_NATIVE,
            imports="skelbench.methods.momentum_contrast:imported",
            probe=NativeProbe(protocol="linear@aimclr", best_on_test=True),
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
