"""S-JEPA: predict the features of masked tokens (ECCV 2024).

The student encodes the tokens of a transformed clip that motion-aware masking leaves visible; a predictor over the full
grid predicts the features of an EMA target encoder at the masked tokens. The target encoder reads the same interval,
untransformed and unmasked. Channels are treated as classes, with a center that keeps them all in use. No code is
published; what the paper does not specify is marked *our assumption*. R bodies, N tokens, D width.
"""

from typing import Literal

import torch
from pydantic import Field
from skelbench_plugins._recipes import DROPS_TOKENS, MAE_NATIVE, MAE_RECIPE, MOMENTUM_SPACE, MOTION_SPACE, RATES_SPACE

from skelbench.core.distributed import spread
from skelbench.methods import MaskedConfig, Method
from skelbench.models.decoder import MaskedDecoder
from skelbench.models.ema import ema_copy, ema_update
from skelbench.models.prototype_loss import RunningCenter
from skelbench.models.schedule import cosine
from skelbench.plugin import MethodSpec, hookimpl
from skelbench.views import Mirror, Rotate, Same, Translate
from skelbench.views.masks import visible_tokens
from skelbench.views.motion import motion_masks

from .channel_loss import channel_cross_entropy


class SJEPAConfig(MaskedConfig):
    """Defaults are the paper's where it is known, else MAMP's code or a public re-implementation's."""

    keep: Literal["int", "round"] = Field("int", description="visible tokens: int or round (assumption: MAMP's int)")
    tau: float = Field(
        0.8,
        description="temperature of motion-aware masking, 0 = uniform (our assumption: MAMP's on NTU-60); the motion "
        "of the student's view (our assumption)",
    )
    target_temp: float = Field(0.06, gt=0, description="temperature of the target's softmax over channels")
    predicted_temp: float = Field(0.1, gt=0, description="temperature of the prediction's softmax")
    center_momentum: float = Field(
        0.9,
        ge=0,
        le=1,
        description="EMA momentum of the target's center, a mean over all its tokens and all ranks (our assumption)",
    )
    momentum: float = Field(
        0.9992,
        ge=0,
        le=1,
        description="EMA momentum at the start, cosine to 1 (our assumption: the paper's 0.9999 looks back over 5 % of "
        "its 1200 epochs, this one over 5 % of the 150 of the shared setting)",
    )
    vertical_deg: float = Field(30.0, description="rotation limit about the vertical axis (our assumption)")
    tilt_deg: float = Field(0.0, description="rotation limit about the other axes (our assumption)")
    mirror_p: float = Field(
        0.5,
        description="probability of a reflection with swapped left and right joints; the target is not reflected (our "
        "assumption)",
    )
    shift: float = Field(
        0.02, description="translation limit along every axis (our assumption)", json_schema_extra={"unit": "m"}
    )


class SJEPA(Method):
    """Masked prediction of an EMA encoder's features. Each rank sees its own bodies; the center is over all ranks."""

    Config = SJEPAConfig
    roles = {"encoder": "student", "predictor": "decoder", "teacher": "teacher"}
    whole_batch = ""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.visible = visible_tokens(context.grid.tokens, config.mask_ratio, config.keep)
        self.encoder = context.encoder()
        self.predictor = MaskedDecoder(
            context.width, **config.decoder_sizes, grid=context.grid, out_dim=context.width, norm_eps=1e-5
        )
        self.teacher = ema_copy(self.encoder)
        self.center = RunningCenter(context.width, config.center_momentum)

    @classmethod
    def views(cls, config, grid):
        transform = (
            Rotate(p=1.0, vertical_deg=config.vertical_deg, tilt_deg=config.tilt_deg),
            Mirror(p=config.mirror_p),
            Translate(p=1.0, limit=config.shift),
        )
        student = config.view(grid, *transform)
        target = student.model_copy(update={"crop": Same(parent="student"), "augment": ()})
        return {"student": student, "target": target}

    def training_step(self, views, step):
        student, grid, c = views["student"], self.context.grid, self.config
        with torch.no_grad():
            target_RND = self.teacher(views["target"]).tokens_RND
        u_RN = step.uniform(student.keys_R, grid.tokens)
        mask_RN, keep_RK = motion_masks(student.x_RTJC, u_RN, grid.patch, self.visible, c.tau)
        predicted_RND = self.predictor(self.encoder(student, keep_RK=keep_RK).tokens_RND, keep_RK)
        step.watch("masked", lambda: predicted_RND[mask_RN])
        temps = {"target_temp": c.target_temp, "predicted_temp": c.predicted_temp}
        loss_RN = channel_cross_entropy(predicted_RND, target_RND, self.center.center, **temps)
        step.keep("target", target_RND.flatten(0, 1))
        return {
            "loss": step.mean((loss_RN * mask_RN).sum(), mask_RN.sum()),
            # Variance over bodies at the same position: 0 if targets depend only on the position of a token.
            "target_std": spread(target_RND.float()).mean(),
        }

    def after_step(self, step):
        ema_update(self.teacher, self.encoder, cosine(self.config.momentum, 1.0, step.fraction))
        self.center.update(step.kept("target"))

    def inference_encoder(self):
        return self.teacher


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="sjepa",
            spelling="S-JEPA",
            target=":SJEPA",
            config=":SJEPAConfig",
            summary="predict an EMA encoder's features of the untransformed clip at 90 % masked tokens",
            citation="Abdelfattah and Alahi, S-JEPA: A Joint Embedding Predictive Architecture for Skeletal Action "
            "Recognition, ECCV 2024",
            recipe=MAE_RECIPE | {"train.batch_size": 256, "schedule.warmup": 20 / 1200},
            requires=DROPS_TOKENS,
            native=MAE_NATIVE | {"train.epochs": 1200, "method.momentum": 0.9999},
            space=RATES_SPACE | MOTION_SPACE | MOMENTUM_SPACE,
        )
    ]
