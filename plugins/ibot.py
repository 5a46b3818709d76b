"""iBOT on skeletons: DINO, and the teacher's prototype distribution predicted at hidden tokens (Zhou et al., 2022).

The student sees both global views with tokens hidden, and the local ones whole; the teacher sees the global views
whole. Class tokens are matched across views (DINO's loss), hidden tokens within a view. Crops are *our reading*
(:mod:`skelbench.methods.multi_crop`); constants are those of the code (bytedance/ibot) and of the recipe in its README,
which adds local views, leaves half of the global views unmasked and lets both losses share one head.
"""

from typing import Literal

import torch
from pydantic import Field
from skelbench_plugins._recipes import MULTI_CROP_READINGS, MULTI_CROP_RECIPE

from skelbench.methods.multi_crop import MultiCrop, MultiCropConfig
from skelbench.methods.target import Hidden
from skelbench.methods.targets.prototypes import predict_prototypes
from skelbench.nn.prototype_objective import PrototypeObjective
from skelbench.plugin import MethodSpec, hookimpl
from skelbench.views import RandomTokens, Tube


class IBOTConfig(MultiCropConfig):
    """Defaults are those of iBOT's code, or of its README's recipe."""

    prototypes: int = Field(8192, ge=1, description="prototypes K of each head")
    teacher_temp: float = Field(0.07, gt=0, description="teacher temperature at hidden tokens after its warm-up")
    cls_teacher_temp: float = Field(0.04, gt=0, description="teacher temperature at class tokens")
    local_views: int = Field(10, ge=0, description="local views of a clip (README; the code's default is 0)")
    shared_head: bool = Field(True, description="one head for both losses (README), else one each")
    cls_weight: float = Field(1.0, gt=0, description="weight of the class-token loss")
    patch_weight: float = Field(1.0, gt=0, description="weight of the loss at hidden tokens")
    mask_shape: Literal["random", "tube"] = Field(
        "random", description="hidden tokens: independent, or tubes for iBOT's blocks (our reading: tubes are SLiM's)"
    )
    mask_ratio: tuple[float, float] = Field((0.1, 0.5), description="share of a masked global view's tokens hidden")
    mask_p: float = Field(0.5, description="chance that a global view is masked")


class IBOT(MultiCrop):
    """Class-token self-distillation and masked prediction of the teacher's prototype distribution."""

    Config = IBOTConfig

    def __init__(self, config, context):
        super().__init__(config, context, target=None if config.shared_head else "prototypes")
        self.patch_loss = None
        if config.shared_head:
            self.patch_loss = PrototypeObjective(config.prototypes, config.centering, config.student_temp)
            self.roles["patch_loss"] = "head"

    @classmethod
    def views(cls, config, grid):
        lo, hi = config.mask_ratio
        mask = (RandomTokens if config.mask_shape == "random" else Tube)(lo=lo, hi=hi, p=config.mask_p)
        return config.crops(grid, mask)

    def training_step(self, views, step):
        c, both = self.config, views["global"]
        with torch.no_grad():
            whole = self.teacher["encoder"](both)
        student = self.encoder(both, mask_RN=both.mask_RN)
        hidden = Hidden(both, student.tokens_RND, whole.tokens_RND, self.teacher_temp(step), step)
        if self.target is not None:
            patch = self.target(hidden)
        else:
            patch = predict_prototypes(hidden, self.cl_head, self.teacher["cl_head"], self.patch_loss)
        patch = step.mean(patch, both.rows)
        cls = self.match_crops(whole, student, views, step, c.cls_teacher_temp)
        return {"loss": c.cls_weight * cls + c.patch_weight * patch, "cls": cls, "patch": patch}

    def after_step(self, step):
        super().after_step(step)
        if self.patch_loss is not None:
            self.patch_loss.update()


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="ibot",
            target=":IBOT",
            config=":IBOTConfig",
            summary="DINO, and the teacher's prototype distribution predicted at hidden tokens",
            citation="Zhou et al., iBOT: Image BERT Pre-Training with Online Tokenizer, ICLR 2022 (arXiv 2111.07832)",
            readings=MULTI_CROP_READINGS,
            recipe=MULTI_CROP_RECIPE,
            needs={"encoder.mask_token": True},
        ),
    ]
