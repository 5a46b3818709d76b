"""SLiM: compact-token masked feature prediction with global-local contrastive learning (Do et al., 2026).

An EMA teacher sees two unmasked global views. The student (a) predicts the teacher's prototype distribution at masked
tokens of each global view (MFP, section 3.2) and (b) matches the teacher's class token of one global view from the
other global view and from local views cut from the same interval (GLCL). Masks are Semantic Tubes (section 3.3), views
go through Skeleton-Aware Augmentations (section 3.4). Unspecified details follow DINOv2's ViT-L recipe, whose
published constants the paper shares. Every part can be exchanged or removed for the paper's ablations.
R bodies, V student views per anchor, E bottleneck width.
"""

from typing import Any, Literal

import torch
from pydantic import Field, model_validator

from skelbench.core.spec import validated
from skelbench.methods import (
    Hidden,
    Method,
    PrototypeSettings,
    Teacher,
    embedded,
    match_views,
    self_distillation_groups,
)
from skelbench.views import (
    Alike,
    AxisDrop,
    BoneScale,
    CoordinateScale,
    Free,
    Inside,
    Mirror,
    Noise,
    RandomTokens,
    Rotate,
    Tube,
    View,
    ViewSpec,
)

from .koleo import koleo

LOCALS = ((32, 0.35, 0.7), (16, 0.15, 0.4), (8, 0.05, 0.2))
"""Local views: frames and duration range as a fraction of the anchor's interval (appendix B)."""
MIN_FRAMES = 16
"""Shortest crop of ``whole_frames``, or the frames of the view if it has fewer (KAIST-VICLab/SLiM)."""
LIMITED_DEG = 17.18873385
"""0.3 rad about every axis: the rotation of earlier work (our assumption of "limited")."""

Masking = Literal["tube", "random", "none"]
Amount = Literal["full", "limited", "none"]


class SlimConfig(PrototypeSettings):
    """Paper-literal defaults; *our assumption* marks unspecified details."""

    ADDED = frozenset({"whole_frames", "extend_below", "koleo_clips"})

    target: str = Field(
        "prototypes", description="prediction target of masked tokens, see `skelbench plugins list targets`"
    )
    target_settings: dict[str, Any] = Field({}, description="settings of your own target")
    decoder_dim: int = Field(256, ge=1, description="decoder width of target=coordinates")
    decoder_depth: int = Field(5, ge=1, description="decoder blocks of target=coordinates")
    decoder_heads: int = Field(8, ge=1, description="decoder attention heads of target=coordinates")
    mfp_weight: float = Field(1.0, ge=0, description="weight of masked feature prediction; 0 = without")
    glcl_weight: float = Field(1.0, ge=0, description="lambda of the contrastive loss; 0 = without")
    same_length: bool = Field(
        False, description="global views of one interval length: L_CL, with local_counts=[0,0,0] (our assumption)"
    )
    koleo: float = Field(
        0.0, ge=0, description="weight of the KoLeo spread term of the contrastive branch; 0.1 in the authors' code"
    )
    koleo_clips: int | None = Field(
        None, ge=2, description="KoLeo's neighbors are searched in groups of this many clips; none = in the whole batch"
    )
    global_mask: Masking = Field("tube", description="masks of global views: tubes, independent tokens, none = no MFP")
    local_mask: Masking = Field("tube", description="masks of local views")
    global_mask_p: float = Field(1.0, description="probability that a global view is masked")
    global_ratio: tuple[float, float] = Field((0.5, 0.9), description="target mask ratio of global views")
    local_ratio: tuple[float, float] = Field((0.5, 0.9), description="target mask ratio of local views")
    local_mask_p: float = Field(0.5, description="probability that a local view is masked")
    local_counts: tuple[int, int, int] = Field((2, 2, 2), description="local views of 32, 16, 8 frames per anchor")
    local_a_min: tuple[int, int, int] | None = Field(None, description="smallest tube on local grids; none = P")
    a_max: int | None = Field(None, description="largest tube area in tokens; none = half of the grid")
    spans: Literal["connected", "ordered"] = Field("connected", description="joints of a tube (our assumption)")
    stop: Literal["clip", "printed", "as-released"] = Field(
        "clip", description="rule for the last tubes of a mask; printed = Algorithm 1"
    )
    stratified: bool = Field(False, description="spread mask ratios evenly over the batch")
    clean_pass: bool = Field(
        True, description="take class tokens from an unmasked student pass (else from the masked one)"
    )
    match_both: bool = Field(False, description="match every local view to both teacher views")
    rotation: Amount = Field("full", description="limited = 0.3 rad about every axis (our assumption)")
    mirroring: Amount = Field("full", description="limited = left and right indices swapped without a reflection")
    scaling: Amount | Literal["as-released"] = Field(
        "full",
        description="limited = each coordinate axis by its own factor (assumption); as-released = with a bug of the "
        "released code that displaces 14 of 25 joints",
    )
    vertical_deg: float = Field(180.0, description="rotation limit about the vertical axis")
    tilt_deg: float = Field(30.0, description="rotation limit about the other axes")
    scale_groups: Literal["parts", "limbs"] = Field("parts", description="groups of bone-aware scaling (assumption)")
    noise: bool = Field(False, description="Gaussian noise and axis dropping of the authors' code")
    resize: Literal["ends", "release", "uniform-frames"] = Field(
        "ends", description="resampling of a crop to T frames; uniform-frames: longer crops without interpolation"
    )
    whole_frames: bool = Field(False, description="crops of whole frames, 16 or more (8 for local views of 8 frames)")
    extend: int = Field(0, ge=0, description="play very short clips forth and back, to at least this number of frames")
    extend_below: int = Field(16, ge=0, description="clips with fewer frames than this are very short")

    @model_validator(mode="after")
    def _something_to_learn(self):
        if not (self.predicts or self.glcl_weight):
            raise ValueError("nothing is left to learn; give mfp_weight (with a global_mask) or glcl_weight")
        return self

    @property
    def predicts(self) -> bool:
        """Whether masked tokens are predicted; not without masks of global views."""
        masked = self.global_mask != "none" and self.global_mask_p > 0 and self.global_ratio[1] > 0
        return self.mfp_weight > 0 and masked

    @property
    def augmentations(self):
        """Skeleton-Aware Augmentations, their conventional counterparts, or none, in the order of section 3.4."""
        rotate = {"vertical_deg": self.vertical_deg, "tilt_deg": self.tilt_deg}
        rotate |= dict.fromkeys(rotate, LIMITED_DEG) if self.rotation == "limited" else {}
        order = "index" if self.scaling == "as-released" else "topological"
        bones = BoneScale(groups=self.scale_groups, order=order)
        scale = CoordinateScale() if self.scaling == "limited" else bones
        operations = (
            (self.rotation, Rotate(**rotate)),
            (self.mirroring, Mirror(reflect=self.mirroring == "full")),
            (self.scaling, scale),
        )
        return tuple(operation for amount, operation in operations if amount != "none")


class Slim(Method):
    """Masked feature prediction + global-local contrast with an EMA teacher."""

    Config = SlimConfig
    exchangeable = {"target": "targets"}

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        if not any(view.mask for view in self.views(config, context.grid).values()):
            self.encoder.prepare(frozenset())  # an unused mask token would get no gradient
        self.roles = {"encoder": "student", "teacher.encoder": "teacher"}
        self.target: Any = None
        self.cl_head: Any = None
        self.cl_loss: Any = None
        if config.predicts:
            target = context.target(config.target)
            settings = validated(target.Config, config.target_settings, f"target {config.target}")
            self.target = target(config, context, settings)
            self.roles |= {f"target.{name}": role for name, role in self.target.roles.items()}
        if config.glcl_weight > 0:
            self.cl_head, self.cl_loss = config.head(context.summary_width), config.objective()
            self.roles |= dict.fromkeys(("cl_head", "teacher.cl_head", "cl_loss"), "head")
        self.teacher = Teacher(self, "encoder", *(["cl_head"] if self.cl_head is not None else []))

    @property
    def whole_batch(self):
        losses = [part.whole_batch for part in (self.target, self.cl_loss) if part is not None]
        losses += ["KoLeo compares the clips of a batch"] if self.config.koleo and self.cl_loss is not None else []
        losses += ["mask ratios are spread over a batch"] if self.config.stratified else []
        return next(filter(None, losses), "")

    @classmethod
    def views(cls, config, grid):
        noise = {
            "global1": (Noise(p=1.0, std=0.01),),
            "global2": (Noise(p=0.1, std=0.05), AxisDrop(p=0.2)),
            "local": (Noise(p=0.5, std=0.01),),
        }

        def mask(kind, ratio, p, a_min=None):
            lo, hi = ratio
            if kind == "random":
                return RandomTokens(lo=lo, hi=hi, p=p)
            shape = {"spans": config.spans, "stop": config.stop, "stratified": config.stratified}
            return Tube(lo=lo, hi=hi, p=p, a_min=a_min, a_max=config.a_max, **shape) if kind == "tube" else None

        def view(frames, crop, mask, kind, count=1):
            augment = config.augmentations + (noise[kind] if config.noise else ())
            below = min(config.extend_below, config.extend)
            shape = {"resize": config.resize, "extend": config.extend, "extend_below": below}
            return ViewSpec(frames=frames, crop=crop, augment=augment, mask=mask, count=count, **shape)

        def whole(frames):
            least = {"whole_frames": True, "min_frames": min(frames, MIN_FRAMES)}
            return least if config.whole_frames else {}

        hidden = mask(config.global_mask, config.global_ratio, config.global_mask_p) if config.predicts else None
        first = Free(**whole(grid.frames))
        second = Alike(parent="global1") if config.same_length else first
        specs = {
            "global1": view(grid.frames, first, hidden, "global1"),
            "global2": view(grid.frames, second, hidden, "global2"),
        }
        for k, (frames, lo, hi) in enumerate(LOCALS):
            a_min = config.local_a_min[k] if config.local_a_min else None
            for name in ("global1", "global2") if config.local_counts[k] and config.glcl_weight else ():
                occlusion = mask(config.local_mask, config.local_ratio, config.local_mask_p, a_min)
                crop = Inside(parent=name, lo=lo, hi=hi, **whole(frames))
                specs[f"local{frames}-{name[-1]}"] = view(frames, crop, occlusion, "local", config.local_counts[k])
        return specs

    def training_step(self, views, step):
        c, teacher = self.config, self.teacher
        both, temp = View.cat([views["global1"], views["global2"]]), c.teacher_temp_at(step)
        with torch.no_grad():
            teacher_output = teacher["encoder"](both)
        passed, out, loss = [], {}, 0.0
        if self.target is not None:
            passed = [self.encoder(both, both.mask_RN)]
            hidden = Hidden(both, passed[0].tokens_RND, teacher_output.tokens_RND, temp, step)
            out["mfp"] = step.mean(self.target(hidden), both.rows)
            loss = loss + c.mfp_weight * out["mfp"]
        if self.cl_head is not None:
            with torch.no_grad():
                anchors_RE = teacher["cl_head"](teacher_output.summary_RD)
            if c.clean_pass or not passed:
                passed = [self.encoder(both, summary=True)]
            local = self._locals(views)
            passed += [self.encoder(view, view.mask_RN, summary=True) for view in local]
            embedded_RE = embedded(self.cl_head, passed)
            students_RVE = self._per_anchor(both.chunk(embedded_RE[0]), local, embedded_RE[1:])
            total = match_views(self.cl_loss, self.cl_head, teacher["cl_head"], students_RVE, anchors_RE, temp)
            step.watch("cl", self.cl_loss, both)
            out["glcl"] = step.mean(total, len(anchors_RE))
            loss = loss + c.glcl_weight * out["glcl"]
            if c.koleo:
                out["koleo"] = sum(koleo(part, c.koleo_clips) for part in both.chunk(passed[0].summary_RD))
                loss = loss + c.koleo * out["koleo"]
        return {"loss": loss, **out}

    def _locals(self, views):
        """The local views of both anchors by length, the first anchor's views first."""
        names = [[f"local{frames}-{anchor}" for anchor in (1, 2)] for frames, _, _ in LOCALS]
        return [View.cat([views[name] for name in pair]) for pair in names if pair[0] in views]

    def _per_anchor(self, global_RE, local, local_RE):
        """Student embeddings to match with each anchor: the other global view, then its local views; [2R, V, E]."""
        students = ([global_RE[1]], [global_RE[0]])
        for view, embedded_RE in zip(local, local_RE):
            pieces = view.chunk(embedded_RE)
            half = len(pieces) // 2
            students[0].extend(pieces if self.config.match_both else pieces[:half])
            students[1].extend(pieces if self.config.match_both else pieces[half:])
        return torch.cat([torch.stack(pieces, 1) for pieces in students])

    def after_step(self, step):
        momentum = self.config.momentum_at(step)
        self.teacher.follow(self, momentum)
        if self.target is not None:
            self.target.after_step(step, momentum)
        if self.cl_loss is not None:
            self.cl_loss.update()

    def inference_encoder(self):
        return self.teacher["encoder"]

    def optim_groups(self):
        return self_distillation_groups(self.config, self.encoder, target=self.target, cl_head=self.cl_head)
