"""DINO on skeletons: class tokens of many crops agree with an EMA teacher's of the global ones (Caron et al., 2021).

SLiM's contrastive branch before its crops were anchored: here every crop comes from anywhere in the clip, so a local
view may show what a global one does not. What a crop is on a clip of poses is *our reading*
(:mod:`skelbench.methods.multi_crop`); the rest is the code's defaults (facebookresearch/dino).
"""

import torch
from pydantic import Field
from skelbench_plugins._recipes import DROPS_TOKENS, MULTI_CROP_READINGS, MULTI_CROP_RECIPE

from skelbench.methods.multi_crop import MultiCrop, MultiCropConfig
from skelbench.plugin import MethodSpec, hookimpl


class DINOConfig(MultiCropConfig):
    """Defaults are those of DINO's code."""

    teacher_temp: float = Field(0.04, gt=0, description="teacher temperature after its warm-up (0.07 is advised later)")


class DINO(MultiCrop):
    """Class-token self-distillation with multi-crop; nothing is hidden."""

    Config = DINOConfig

    def __init__(self, config, context):
        super().__init__(config, context, target=None)

    def training_step(self, views, step):
        with torch.no_grad():
            whole = self.teacher["encoder"](views["global"])
        return {"loss": self.match_crops(whole, self.encoder(views["global"]), views, step)}


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="dino",
            target=":DINO",
            config=":DINOConfig",
            summary="match class tokens of global and local crops with an EMA teacher's of the global ones",
            citation="Caron et al., Emerging Properties in Self-Supervised Vision Transformers, ICCV 2021 "
            "(arXiv 2104.14294)",
            readings=MULTI_CROP_READINGS,
            recipe=MULTI_CROP_RECIPE,
            needs=DROPS_TOKENS,
        ),
    ]
