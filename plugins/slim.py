"""SLiM: compact-token masked feature prediction with global-local contrastive learning (Do et al., 2026).

An EMA teacher sees two unmasked global views. The student (a) predicts the teacher's prototype distribution at masked
tokens of each global view (MFP, section 3.2) and (b) matches the teacher's class token of one global view from the
other global view and from local views cut from the same interval (GLCL). Masks are Semantic Tubes (section 3.3), views
go through Skeleton-Aware Augmentations (section 3.4). What the paper leaves open follows DINOv2's ViT-L recipe, whose
published constants the paper shares. R bodies, I masked tokens, D width, V student views per anchor.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import nn

from skelbench.method import Config, Method
from skelbench.nn.ema import ema_copy, ema_update
from skelbench.nn.heads import PrototypeHead
from skelbench.nn.losses import koleo
from skelbench.nn.prototype_objective import PrototypeObjective
from skelbench.nn.schedule import cosine, linear_ramp
from skelbench.skeleton.spec import AxisDrop, BoneScale, Free, Inside, Mirror, Noise, Rotate, Tube, ViewSpec
from skelbench.skeleton.view import View

LOCALS = ((32, 0.35, 0.7), (16, 0.15, 0.4), (8, 0.05, 0.2))
"""Local views: frames and duration range as a share of the anchor's interval (appendix B)."""


class SlimConfig(Config):
    """Paper-literal defaults; *our reading* marks what the paper does not say."""

    prototypes: int = Field(65536, description="prototypes K of each head")
    head_hidden: int = Field(2048, description="hidden width of the 3-layer projection heads")
    bottleneck: int = Field(256, description="bottleneck width of the projection heads")
    glcl_weight: float = Field(1.0, description="lambda of the contrastive loss")
    student_temp: float = Field(0.1, description="student temperature (our reading: DINOv2)")
    teacher_temp: float = Field(0.07, description="teacher temperature after its warm-up (our reading: DINOv2)")
    teacher_temp_start: float = Field(0.04, description="teacher temperature at the start (our reading: DINOv2)")
    teacher_temp_warmup: float = Field(0.2, description="its linear warm-up, share of the schedule (30 of 150 epochs)")
    centering: Literal["sinkhorn", "running", "none"] = Field("sinkhorn", description="anti-collapse (our reading)")
    momentum: float = Field(0.994, description="EMA momentum at the start, cosine to 1")
    freeze_prototypes: float = Field(1 / 150, description="prototypes held still at first, share (our reading)")
    patch_lr: float = Field(0.2, description="learning-rate factor of the patch projection (our reading: DINOv2)")
    koleo: float = Field(0.0, description="weight of the KoLeo spread term; 0.1 in the authors' code")
    global_mask_p: float = Field(1.0, description="chance that a global view is masked")
    global_ratio: tuple[float, float] = Field((0.5, 0.9), description="target mask ratio of global views")
    local_ratio: tuple[float, float] = Field((0.5, 0.9), description="target mask ratio of local views")
    local_mask_p: float = Field(0.5, description="chance that a local view is masked")
    local_counts: tuple[int, int, int] = Field((2, 2, 2), description="local views of 32, 16, 8 frames per anchor")
    local_a_min: tuple[int, int, int] | None = Field(None, description="smallest tube on local grids; none = P")
    a_max: int | None = Field(None, description="largest tube area in tokens; none = half of the grid")
    spans: Literal["connected", "ordered"] = Field("connected", description="joints of a tube (our reading)")
    stop: Literal["clip", "printed", "never"] = Field("clip", description="stop rule; printed = Algorithm 1")
    stratified: bool = Field(False, description="spread mask ratios evenly over the batch")
    clean_pass: bool = Field(True, description="class tokens from an unmasked student pass (else the masked one)")
    match_both: bool = Field(False, description="match every local view to both teacher views")
    vertical_deg: float = Field(180.0, description="rotation limit about the vertical axis")
    tilt_deg: float = Field(30.0, description="rotation limit about the other axes")
    scale_groups: Literal["parts", "limbs"] = Field("parts", description="groups of bone-aware scaling (our reading)")
    noise: bool = Field(False, description="Gaussian noise and axis dropping of the authors' code")
    resize: Literal["ends", "bins"] = Field("ends", description="how a crop becomes T frames")
    extend: int = Field(0, description="play shorter clips forth and back to at least this many frames")


class Slim(Method):
    """Masked feature prediction + global-local contrast with an EMA teacher."""

    Config = SlimConfig
    roles = {"encoder": "student", "teacher.encoder": "teacher"} | dict.fromkeys(
        ("mfp_head", "cl_head", "teacher.mfp_head", "teacher.cl_head", "mfp_loss", "cl_loss"), "head"
    )

    def __init__(self, config, context):
        super().__init__(config, context)

        def head():
            return PrototypeHead(context.width, config.head_hidden, config.bottleneck, config.prototypes)

        self.encoder, self.mfp_head, self.cl_head = context.encoder(), head(), head()
        self.teacher = ema_copy(
            nn.ModuleDict({"encoder": self.encoder, "mfp_head": self.mfp_head, "cl_head": self.cl_head})
        )
        self.mfp_loss = PrototypeObjective(config.prototypes, config.centering, config.student_temp)
        self.cl_loss = PrototypeObjective(config.prototypes, config.centering, config.student_temp)

    @classmethod
    def views(cls, config, grid):
        saa = (
            Rotate(vertical_deg=config.vertical_deg, tilt_deg=config.tilt_deg),
            Mirror(),
            BoneScale(groups=config.scale_groups),
        )
        noise = {
            "global1": (Noise(p=1.0, std=0.01),),
            "global2": (Noise(p=0.1, std=0.05), AxisDrop(p=0.2)),
            "local": (Noise(p=0.5, std=0.01),),
        }

        def tube(ratio, p, a_min=None):
            lo, hi = ratio
            shape = {"spans": config.spans, "stop": config.stop, "stratified": config.stratified}
            return Tube(lo=lo, hi=hi, p=p, a_min=a_min, a_max=config.a_max, **shape)

        def view(frames, crop, mask, kind, count=1):
            augment = saa + (noise[kind] if config.noise else ())
            shape = {"resize": config.resize, "extend": config.extend}
            return ViewSpec(frames=frames, crop=crop, augment=augment, mask=mask, count=count, **shape)

        specs = {}
        for name in ("global1", "global2"):
            specs[name] = view(grid.frames, Free(), tube(config.global_ratio, config.global_mask_p), name)
        for k, (frames, lo, hi) in enumerate(LOCALS):
            a_min = config.local_a_min[k] if config.local_a_min else None
            for name in ("global1", "global2") if config.local_counts[k] else ():
                mask = tube(config.local_ratio, config.local_mask_p, a_min)
                crop = Inside(parent=name, lo=lo, hi=hi)
                specs[f"local{frames}-{name[-1]}"] = view(frames, crop, mask, "local", config.local_counts[k])
        return specs

    def training_step(self, views, step):
        both = View.cat([views["global1"], views["global2"]])
        c = self.config
        temp = linear_ramp(c.teacher_temp_start, c.teacher_temp, step.fraction / max(1e-9, c.teacher_temp_warmup))
        teacher = self.teacher
        with torch.no_grad():
            target = teacher["encoder"](both)
            target_ID = teacher["mfp_head"](target.tokens_RND.flatten(0, 1)[both.masked_I])
            anchors_RD = teacher["cl_head"](target.cls_RD)
            mfp_W, cl_W = teacher["mfp_head"].prototypes, teacher["cl_head"].prototypes

        masked = self.encoder(both, mask_RN=both.mask_RN)
        predicted_ID = self.mfp_head(masked.tokens_RND.flatten(0, 1)[both.masked_I])
        # Every view counts alike, however many of its tokens are masked; one without masks adds nothing (iBOT).
        share_R = 1 / both.masked_per_row.clamp(min=1)
        share_I = share_R[torch.div(both.masked_I, both.mask_RN.shape[1], rounding_mode="floor")]
        total = self.mfp_loss(predicted_ID, self.mfp_head.prototypes, target_ID, mfp_W, share_I, temp)
        mfp = step.mean(total, both.rows)

        cls_RD = (self.encoder(both) if c.clean_pass else masked).cls_RD
        students_RVD = self._per_anchor(both.chunk(self.cl_head(cls_RD)), views)
        V = students_RVD.shape[1]
        each = students_RVD.new_full((len(anchors_RD), V), 1 / V)
        total = self.cl_loss(students_RVD, self.cl_head.prototypes, anchors_RD, cl_W, each, temp)
        glcl = step.mean(total, len(anchors_RD))
        out = {"loss": mfp + c.glcl_weight * glcl, "mfp": mfp, "glcl": glcl}
        if c.koleo:
            out["koleo"] = sum(koleo(part) for part in both.chunk(cls_RD))
            out["loss"] = out["loss"] + c.koleo * out["koleo"]
        return out

    def _per_anchor(self, global_RD, views):
        """Student embeddings to match with each anchor: the other global view, then its local views; [2R, V, D]."""
        found = ([global_RD[1]], [global_RD[0]])
        for frames, _, _ in LOCALS:
            if f"local{frames}-1" not in views:
                continue
            local = View.cat([views[f"local{frames}-1"], views[f"local{frames}-2"]])
            pieces = local.chunk(self.cl_head(self.encoder(local, mask_RN=local.mask_RN).cls_RD))
            half = len(pieces) // 2
            found[0].extend(pieces if self.config.match_both else pieces[:half])
            found[1].extend(pieces if self.config.match_both else pieces[half:])
        return torch.cat([torch.stack(students, 1) for students in found])

    def after_step(self, step):
        momentum = cosine(self.config.momentum, 1.0, step.fraction)
        for name, teacher in self.teacher.items():
            ema_update(teacher, getattr(self, name), momentum)
        self.mfp_loss.update()
        self.cl_loss.update()

    def inference_encoder(self):
        return self.teacher["encoder"]

    def optim_groups(self):
        frozen, patch = self.config.freeze_prototypes, self.config.patch_lr
        for part in ("encoder", "mfp_head", "cl_head"):
            for name, parameter in getattr(self, part).named_parameters():
                group = {"params": [parameter], "clip": part}
                group["wd_scale"] = 0.0 if name.endswith("bias") or "norm" in name else 1.0
                group["lr_scale"] = patch if name.startswith("tokenizer.project") else 1.0
                group["frozen_until"] = frozen if name.startswith("prototype") else 0.0
                yield group
