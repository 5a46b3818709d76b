"""DINO on skeletons: class tokens of many crops agree with an EMA teacher's of the global crops (Caron et al., 2021).

SLiM's contrastive branch without anchored crops: each crop is drawn from the whole clip, so a local view may show
frames that no global view shows. The definition of a crop of poses is *our assumption*
(:mod:`skelbench.methods.self_distillation`); all else follows the code's defaults (facebookresearch/dino). R bodies of
both global views, V views that are matched with each of them, E bottleneck width.
"""

import torch
from pydantic import Field
from skelbench_plugins._recipes import DISTILLED_SPACE, MULTI_CROP_READINGS, MULTI_CROP_RECIPE

from skelbench.methods import (
    Method,
    MultiCropConfig,
    Teacher,
    embedded,
    match_views,
    other_views,
    self_distillation_groups,
)
from skelbench.plugin import MethodSpec, hookimpl


class DINOConfig(MultiCropConfig):
    """Defaults follow DINO's code."""

    teacher_temp: float = Field(0.04, gt=0, description="teacher temperature after its warm-up (0.07 is advised later)")


class DINO(Method):
    """Class-token self-distillation with multi-crop, without masks."""

    Config = DINOConfig
    roles = {"encoder": "student", "teacher.encoder": "teacher"} | dict.fromkeys(
        ("cl_head", "teacher.cl_head", "cl_loss"), "head"
    )

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        self.cl_head, self.cl_loss = config.head(context.summary_width), config.objective()
        self.teacher = Teacher(self, "encoder", "cl_head")

    @property
    def whole_batch(self):
        return self.cl_loss.whole_batch

    @classmethod
    def views(cls, config, grid):
        return config.crops(grid)

    def training_step(self, views, step):
        encoder, head = self.teacher["encoder"], self.teacher["cl_head"]
        with torch.no_grad():
            anchors_RE = head(encoder(views["global"]).summary_RD)
        embedded_RE = embedded(self.cl_head, [self.encoder(view, summary=True) for view in views.values()])
        pieces = {name: view.chunk(x_RE) for (name, view), x_RE in zip(views.items(), embedded_RE)}
        students_RVE = other_views(pieces["global"], pieces.get("local", ()))
        temp = self.config.teacher_temp_at(step)
        total = match_views(self.cl_loss, self.cl_head, head, students_RVE, anchors_RE, temp)
        step.watch("cl", self.cl_loss, views["global"])
        return {"loss": step.mean(total, len(anchors_RE))}

    def after_step(self, step):
        self.teacher.follow(self, self.config.momentum_at(step))
        self.cl_loss.update()

    def inference_encoder(self):
        return self.teacher["encoder"]

    def optim_groups(self):
        return self_distillation_groups(self.config, self.encoder, cl_head=self.cl_head)


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="dino",
            spelling="DINO",
            target=":DINO",
            config=":DINOConfig",
            summary="match class tokens of global and local crops with an EMA teacher",
            citation="Caron et al., Emerging Properties in Self-Supervised Vision Transformers, ICCV 2021 "
            "(arXiv 2104.14294)",
            readings=MULTI_CROP_READINGS,
            recipe=MULTI_CROP_RECIPE,
            requires=("short-views",),
            space=DISTILLED_SPACE,
        )
    ]
