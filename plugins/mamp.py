"""MAMP: predict the motion of masked joints; moving joints are masked more often (Mao et al., ICCV 2023).

SkeletonMAE with two changes: tokens are masked with probabilities that grow with their motion, and the target is
the displacement to a later frame instead of the coordinates. Facts: the authors' repository (maoyunyao/MAMP,
model_mamp); R bodies, T frames, J joints, N tokens, K visible tokens.
"""

from pydantic import Field
from skelbench_plugins._probes import LABELS, LISTS, RotatedLinear
from skelbench_plugins._recipes import (
    DROPS_TOKENS,
    FP32,
    MAE_NATIVE,
    MAE_PROBE,
    MAE_RECIPE,
    MAE_SLOTS,
    MASKED_SPACE,
    MOTION_SPACE,
    semi,
)
from torch import nn

from skelbench.evaluation.finetune import FineTune
from skelbench.evaluation.label_subsets import DRAWS
from skelbench.methods import Imported, MaskedAutoencoder, MaskedAutoencoderConfig, rotated_view
from skelbench.methods.imported import masked_autoencoder
from skelbench.models.initial import xavier_linear
from skelbench.plugin import MethodSpec, ProtocolSpec, hookimpl
from skelbench.views.masks import visible_tokens
from skelbench.views.motion import check_stride, displacement, motion_masks


class MAMPConfig(MaskedAutoencoderConfig):
    """Defaults follow the authors' code."""

    tau: float = Field(
        0.80, description="temperature of motion-aware masking (MAMP: 0.80, on NTU-120 0.75); 0 = uniform masking"
    )
    motion_stride: int = Field(
        1, ge=1, description="stride of the target x[t + stride] - x[t]; the last frames have none"
    )


class MAMP(MaskedAutoencoder):
    """Masked motion prediction."""

    Config = MAMPConfig

    def __init__(self, config, context):
        super().__init__(config, context)
        check_stride(config.motion_stride, context.grid.frames)
        self.visible = visible_tokens(context.grid.tokens, config.mask_ratio, config.keep)

    @classmethod
    def views(cls, config, grid):
        return {"clip": rotated_view(config, grid)}

    def training_step(self, views, step):
        view, grid = views["clip"], self.context.grid
        u_RN = step.uniform(view.keys_R, grid.tokens)
        mask_RN, keep_RK = motion_masks(view.x_RTJC, u_RN, grid.patch, self.visible, self.config.tau)
        moved_RTJC = displacement(view.x_RTJC, self.config.motion_stride)
        return {"loss": self.reconstruct(view, keep_RK, mask_RN, moved_RTJC, step)}


def imported(state, options) -> Imported:
    """A checkpoint of ``model_mamp``; see :func:`skelbench.methods.imported.masked_autoencoder`."""
    names = {"mask_ratio": "mask_ratio", "motion_aware_tau": "tau", "motion_stride": "motion_stride"}
    return masked_autoencoder(state, options, "model_mamp", names)


class MampLinear(RotatedLinear):
    """``linear@mamp``: the probe of MAMP's code (maoyunyao/MAMP: main_linprobe, engine_linprobe, lr_sched).

    On PKU-MMD II the code has ``batch_size=32, lr=0.01``.
    """


class MampFineTune(FineTune):
    """``finetune@mamp``: fine-tuning of MAMP's code (maoyunyao/MAMP 09e6252: main_finetune.py, its scripts).

    Dropout on tokens, their mean over time for each joint, the mean over both body slots, a hidden layer of 2048
    with batch norm and ReLU, a linear layer: 6.9 million parameters more than the encoder's 6.3 at its published size.
    Our assumption: equal batches in place of an incomplete last one; batch norm of the whole batch of 48 in one
    process, where the code has 2 x 24.
    """

    min_steps: int = Field(0, ge=0, description="least number of steps; with few clips, more epochs")
    dropout: float = Field(0.3, ge=0, lt=1, description="dropout on token features before they are averaged")
    head_hidden: int = Field(2048, ge=0, description="width of a hidden layer with batch norm and ReLU; 0 = linear")

    def hidden(self, width, hidden):
        """Initialize a linear layer as MAMP's code does."""
        layer = nn.Linear(width, hidden)
        xavier_linear(layer)
        return layer

    def classifier(self, width, classes):
        """Initialize as :meth:`hidden` does."""
        return self.hidden(width, classes)


class MampSemi(MampFineTune):
    """``semi@1@mamp``: as ``finetune@mamp`` on int(1 % of n) shuffled clips. In the code, two processes draw lists
    independently (together up to twice as many clips); here there are five fixed lists."""

    label_share: float = Field(0.01, gt=0, le=1, description=LABELS)
    draws: int = Field(DRAWS, ge=1, description=LISTS)
    stratified: bool = Field(False, description="label_share of every class; false = of all clips, as in this code")


class MampSemi10(MampSemi):
    """``semi@10@mamp``: with 10 %."""

    label_share: float = Field(0.1, gt=0, le=1, description=LABELS)


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    joints = MAE_SLOTS | {"readout": "joints"}
    return [
        ProtocolSpec(
            name="linear@mamp",
            target=":MampLinear",
            summary="linear probe of MAMP's code: SGD, 100 epochs with augmentation; 100 times the cost of `linear`",
            defaults=MAE_SLOTS | {"readout": "mean"},
        ),
        ProtocolSpec(
            name="finetune@mamp",
            target=":MampFineTune",
            summary="fine-tuning of MAMP's code: two-layer head on features of all joints (J x D)",
            version=2,
            defaults=joints,
        ),
        *semi("mamp", ":MampSemi", "MAMP's code: unstratified lists", joints, version=2),
    ]


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="mamp",
            spelling="MAMP",
            target=":MAMP",
            config=":MAMPConfig",
            summary="predict the motion of masked tokens; tokens with more motion are masked more often",
            citation="Mao et al., Masked Motion Predictors are Strong 3D Action Representation Learners, ICCV 2023 "
            "(arXiv 2308.07092)",
            recipe=MAE_RECIPE,
            requires=DROPS_TOKENS,
            native=MAE_NATIVE | FP32,
            imports=":imported",
            probe=MAE_PROBE,
            space=MASKED_SPACE | MOTION_SPACE,
        )
    ]
