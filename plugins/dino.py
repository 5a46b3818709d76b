"""DINO on skeletons: class tokens of many crops agree with an EMA teacher's of the global ones (Caron et al., 2021).

SLiM's contrastive branch before its crops were anchored: here every crop comes from anywhere in the clip, so a local
view may show what a global one does not. What a crop is on a clip of poses is *our reading*
(:mod:`skelbench.methods.multi_crop`); the rest is the code's defaults (facebookresearch/dino).
"""

import torch
from pydantic import Field

from skelbench.methods.multi_crop import MultiCrop, MultiCropConfig


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
