"""iBOT on skeletons: DINO, and the teacher's prototype distribution predicted at masked tokens (Zhou et al., 2022).

The student sees both global views with masked tokens, and the local views unmasked; the teacher sees the global views
unmasked. Class tokens are matched across views (DINO's loss), masked tokens within a view. Crops are *our assumption*
(:mod:`skelbench.methods.self_distillation`), their fractions DINO's; other constants follow the code (bytedance/ibot).
Local views, half of the global views unmasked, and one head for both losses follow the recipe in its README.
"""

from typing import Literal

import torch
from pydantic import Field
from skelbench_plugins._recipes import DISTILLED_SPACE, MULTI_CROP_READINGS, MULTI_CROP_RECIPE

from skelbench.core.errors import SkelbenchError
from skelbench.methods import (
    Hidden,
    Method,
    MultiCropConfig,
    Teacher,
    match_views,
    other_views,
    predict_prototypes,
    self_distillation_groups,
)
from skelbench.plugin import MethodSpec, hookimpl
from skelbench.views import RandomTokens, Tube


class IBOTConfig(MultiCropConfig):
    """Defaults follow iBOT's code or the recipe in its README."""

    prototypes: int = Field(8192, ge=1, description="prototypes K of each head")
    teacher_temp: float = Field(0.07, gt=0, description="teacher temperature at masked tokens after its warm-up")
    cls_teacher_temp: float = Field(0.04, gt=0, description="teacher temperature at class tokens")
    local_views: int = Field(10, ge=0, description="local views of a clip (README; the code's default is 0)")
    shared_head: bool = Field(True, description="one head for both losses (README), else one head each")
    cls_weight: float = Field(1.0, gt=0, description="weight of the class-token loss")
    patch_weight: float = Field(1.0, gt=0, description="weight of the loss at masked tokens")
    mask_shape: Literal["random", "tube"] = Field(
        "random", description="masked tokens: independent, or tubes for iBOT's blocks (assumption: tubes are SLiM's)"
    )
    mask_ratio: tuple[float, float] = Field((0.1, 0.5), description="fraction of masked tokens in a masked global view")
    mask_p: float = Field(0.5, description="probability that a global view is masked")


class IBOT(Method):
    """Class-token self-distillation and masked prediction of the teacher's prototype distribution."""

    Config = IBOTConfig

    def __init__(self, config, context):
        super().__init__(config, context)
        if config.shared_head and context.width != context.summary_width:
            raise SkelbenchError(
                f"tokens of {context.width} channels and a summary of {context.summary_width} cannot share a head; "
                "set shared_head=false, or use an encoder with a class token"
            )
        self.encoder = context.encoder()
        self.patch_head = None if config.shared_head else config.head(context.width)
        self.cl_head = config.head(context.summary_width)
        self.heads = ("cl_head",) if config.shared_head else ("patch_head", "cl_head")
        self.cl_loss, self.patch_loss = config.objective(), config.objective()
        self.teacher = Teacher(self, "encoder", *self.heads)
        self.roles = {"encoder": "student", "teacher.encoder": "teacher", "cl_loss": "head", "patch_loss": "head"}
        self.roles |= {f"{owner}{name}": "head" for name in self.heads for owner in ("", "teacher.")}

    @property
    def whole_batch(self):
        return self.cl_loss.whole_batch

    @classmethod
    def views(cls, config, grid):
        lo, hi = config.mask_ratio
        mask = (RandomTokens if config.mask_shape == "random" else Tube)(lo=lo, hi=hi, p=config.mask_p)
        return config.crops(grid, mask)

    def training_step(self, views, step):
        c, both, local = self.config, views["global"], views.get("local")
        with torch.no_grad():
            teacher_output = self.teacher["encoder"](both)
            anchors_RE = self.teacher["cl_head"](teacher_output.summary_RD)
        masked = self.encoder(both, both.mask_RN)

        hidden = Hidden(both, masked.tokens_RND, teacher_output.tokens_RND, c.teacher_temp_at(step), step)
        name = self.heads[0]
        patch = predict_prototypes(self.patch_loss, getattr(self, name), self.teacher[name], hidden)
        patch = step.mean(patch, both.rows)

        global_RE = both.chunk(self.cl_head(masked.summary_RD))
        local_RE = ()
        if local is not None:
            local_RE = local.chunk(self.cl_head(self.encoder(local, summary=True).summary_RD))
        students_RVE, head = other_views(global_RE, local_RE), self.teacher["cl_head"]
        cls = match_views(self.cl_loss, self.cl_head, head, students_RVE, anchors_RE, c.cls_teacher_temp)
        cls = step.mean(cls, len(anchors_RE))
        step.watch("cl", self.cl_loss, both)
        return {"loss": c.cls_weight * cls + c.patch_weight * patch, "cls": cls, "patch": patch}

    def after_step(self, step):
        self.teacher.follow(self, self.config.momentum_at(step))
        self.cl_loss.update()
        self.patch_loss.update()

    def inference_encoder(self):
        return self.teacher["encoder"]

    def optim_groups(self):
        return self_distillation_groups(self.config, self.encoder, patch_head=self.patch_head, cl_head=self.cl_head)


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="ibot",
            spelling="iBOT",
            target=":IBOT",
            config=":IBOTConfig",
            summary="DINO plus prediction of the teacher's prototype distribution at masked tokens",
            citation="Zhou et al., iBOT: Image BERT Pre-Training with Online Tokenizer, ICLR 2022 (arXiv 2111.07832)",
            readings=MULTI_CROP_READINGS,
            recipe=MULTI_CROP_RECIPE,
            requires=("replace-tokens", "tokens", "short-views"),
            space=DISTILLED_SPACE,
        )
    ]
