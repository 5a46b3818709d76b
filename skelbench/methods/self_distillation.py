"""Parts of self-distillation with prototypes for DINO, iBOT and SLiM: settings, losses, parameter groups.

R rows (bodies of all anchors, or of one view), V student or local views, I masked tokens, D encoder width, E
bottleneck width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from skelbench.methods.contract import Config, Step
from skelbench.methods.target import Hidden
from skelbench.models.ema import ema_copy, ema_update
from skelbench.models.encoder import Encoded, Encoder
from skelbench.models.heads import PrototypeHead
from skelbench.models.prototype_objective import PrototypeObjective
from skelbench.models.schedule import cosine, linear_ramp
from skelbench.views import BoneScale, Free, Mask, Mirror, Rotate, ViewSpec
from skelbench.views.skeleton.grid import Grid


class PrototypeSettings(Config):
    """Settings of projection head, prototypes, temperatures and teacher, and functions that build them.

    SLiM's paper leaves some open (*our assumption*); these follow DINOv2's ViT-L recipe, whose published constants
    it shares.

    >>> settings = PrototypeSettings(prototypes=32, head_hidden=16, bottleneck=8)
    >>> settings.head(dim_in=4).prototypes.shape
    torch.Size([32, 8])
    """

    prototypes: int = Field(65536, ge=1, description="prototypes K of each head")
    head_hidden: int = Field(2048, ge=1, description="hidden width of the 3-layer projection heads")
    bottleneck: int = Field(256, ge=1, description="bottleneck width of the projection heads")
    prototype_gain: bool = Field(True, description="learn norms of prototypes; false = 1 (assumption: DINOv2)")
    student_temp: float = Field(0.1, gt=0, description="student temperature (our assumption: DINOv2)")
    teacher_temp: float = Field(0.07, gt=0, description="teacher temperature after its warm-up (assumption: DINOv2)")
    teacher_temp_start: float = Field(0.04, gt=0, description="teacher temperature at the start (assumption: DINOv2)")
    teacher_temp_warmup: float = Field(
        0.2, ge=0, le=1, description="linear warm-up of the temperature, fraction of the schedule (30 of 150 epochs)"
    )
    centering: Literal["sinkhorn", "running", "none"] = Field("sinkhorn", description="teacher centering (assumption)")
    momentum: float = Field(0.994, ge=0, le=1, description="EMA momentum at the start, cosine to 1")
    freeze_prototypes: float = Field(
        1 / 150, ge=0, le=1, description="fraction of the schedule with frozen prototypes (our assumption)"
    )
    patch_lr: float = Field(
        0.2, ge=0, description="learning-rate factor of the encoder's stem, its patch projection (assumption: DINOv2)"
    )

    def head(self, dim_in: int) -> PrototypeHead:
        """A new head on features of width ``dim_in``."""
        return PrototypeHead(dim_in, self.head_hidden, self.bottleneck, self.prototypes, self.prototype_gain)

    def objective(self) -> PrototypeObjective:
        """Return a new objective between two such heads."""
        return PrototypeObjective(self.prototypes, self.centering, self.student_temp)

    def teacher_temp_at(self, step: Step) -> float:
        """The teacher's temperature in ``step``; without a warm-up it has its final value from the first step on."""
        share = step.fraction / self.teacher_temp_warmup if self.teacher_temp_warmup else 1.0
        return linear_ramp(self.teacher_temp_start, self.teacher_temp, share)

    def momentum_at(self, step: Step) -> float:
        """The teacher's momentum after ``step``."""
        return cosine(self.momentum, 1.0, step.fraction)


class MultiCropConfig(PrototypeSettings):
    """Two global and several local views of a clip. Durations are fractions of 100 epochs.

    Defaults follow the code of DINO (facebookresearch/dino) and, except its crops, of iBOT (bytedance/ibot).

    An image crop shows a part of the picture at fewer pixels; a crop here shows a part of the clip at fewer frames (our
    assumption).

    >>> views = MultiCropConfig(local_views=4).crops(Grid(frames=64, patch=8, joints=25))
    >>> {name: (view.frames, view.count) for name, view in views.items()}
    {'global': (64, 2), 'local': (16, 4)}
    """

    centering: Literal["sinkhorn", "running", "none"] = Field(
        "running", description="centering of the teacher; running: as in the code"
    )
    momentum: float = Field(0.996, ge=0, le=1, description="EMA momentum at the start, cosine to 1")
    student_temp: float = Field(0.1, gt=0, description="student temperature")
    teacher_temp_start: float = Field(0.04, gt=0, description="teacher temperature at the start")
    teacher_temp_warmup: float = Field(
        0.3, ge=0, le=1, description="warm-up of the temperature, fraction of the schedule"
    )
    prototype_gain: bool = Field(False, description="learn the norm of each prototype; false = 1")
    freeze_prototypes: float = Field(
        0.01, ge=0, le=1, description="fraction of the schedule with frozen prototypes, at the start"
    )
    patch_lr: float = Field(1.0, ge=0, description="learning-rate factor of the patch projection")
    global_crop: tuple[float, float] = Field(
        (0.4, 1.0), description="duration of the two global views, fraction of the clip"
    )
    local_crop: tuple[float, float] = Field((0.05, 0.4), description="duration of local views, fraction of the clip")
    local_views: int = Field(8, ge=0, description="local views of a clip")
    local_tokens: float = Field(
        0.25, gt=0, le=1, description="temporal tokens of a local view, fraction of a global one's (our assumption)"
    )

    def crops(self, grid: Grid, mask: Mask | None = None) -> dict[str, ViewSpec]:
        """Return ``global`` and ``local`` views, each a crop with its own transforms; ``mask``: of the global views.

        Color and blur of images have no counterpart here, so views have SLiM's transforms (Skeleton-Aware
        Augmentations, our assumption): methods then differ in their learning from equal views.
        """
        augment = (Rotate(), Mirror(), BoneScale())
        frames = max(1, round(grid.times * self.local_tokens)) * grid.patch
        views = {
            "global": (grid.frames, self.global_crop, mask, 2),
            "local": (frames, self.local_crop, None, self.local_views),
        }
        return {
            name: ViewSpec(frames=frames, crop=Free(lo=lo, hi=hi), augment=augment, mask=mask, count=count)
            for name, (frames, (lo, hi), mask, count) in views.items()
            if count
        }


class Teacher(nn.ModuleDict):
    """EMA copies of parts of a method, by the parts' names: ``Teacher(self, "encoder", "cl_head")``.

    >>> method = nn.Module()
    >>> method.encoder = nn.Linear(2, 2)
    >>> teacher = Teacher(method, "encoder")
    >>> teacher.follow(method, momentum=0.996)
    >>> any(parameter.requires_grad for parameter in teacher.parameters())
    False
    """

    def __init__(self, method: nn.Module, *names: str) -> None:
        super().__init__({name: ema_copy(getattr(method, name)) for name in names})

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name)

    def follow(self, method: nn.Module, momentum: float) -> None:
        """Update every copy from its part."""
        for name, twin in self.items():
            ema_update(twin, getattr(method, name), momentum)


def embedded(head: nn.Module, passes: Sequence[Encoded]) -> tuple[Tensor, ...]:
    """``head`` on the summaries of several passes of an encoder, all rows at once; [R, E] of each pass.

    >>> passes = [Encoded(torch.zeros(rows, 5, 8), torch.zeros(rows, 8)) for rows in (2, 3)]
    >>> [x_RE.shape for x_RE in embedded(nn.Linear(8, 4), passes)]
    [torch.Size([2, 4]), torch.Size([3, 4])]
    """
    summaries_RD = [encoded.summary_RD for encoded in passes]
    return head(torch.cat(summaries_RD)).split([len(x_RD) for x_RD in summaries_RD])


def match_views(
    objective: PrototypeObjective,
    head: PrototypeHead,
    teacher_head: PrototypeHead,
    students_RVE: Tensor,
    anchors_RE: Tensor,
    temp: float,
) -> Tensor:
    """Sum over anchors of the mean cross-entropy between the V students of an anchor and its teacher.

    ``students_RVE``, ``anchors_RE``: outputs of the heads; ``temp``: the teacher's temperature.

    >>> settings = PrototypeSettings(prototypes=32, head_hidden=16, bottleneck=8)
    >>> head, objective = settings.head(dim_in=4), settings.objective()
    >>> students_RVE, anchors_RE = head(torch.randn(3, 2, 4)), head(torch.randn(3, 4)).detach()
    >>> match_views(objective, head, head, students_RVE, anchors_RE, temp=0.07).shape
    torch.Size([])
    """
    share_RV = students_RVE.new_full(students_RVE.shape[:2], 1 / students_RVE.shape[1])
    return objective(students_RVE, head.prototypes, anchors_RE, teacher_head.prototypes, share_RV, temp)


def predict_prototypes(
    objective: PrototypeObjective, head: PrototypeHead, teacher_head: PrototypeHead, hidden: Hidden
) -> Tensor:
    """Sum over masked tokens of ``hidden.share_I`` times the cross-entropy between student and teacher there (iBOT).

    >>> def forward(self, hidden):  # of a MaskedTarget with two heads and an objective
    ...     return predict_prototypes(self.objective, self.head, self.teacher_head, hidden)
    """
    with torch.no_grad():
        target_IE = teacher_head(hidden.teacher_ID)
    predicted_IE = head(hidden.student_ID)
    hidden.step.watch("masked", predicted_IE)
    loss = objective(predicted_IE, head.prototypes, target_IE, teacher_head.prototypes, hidden.share_I, hidden.temp)
    hidden.step.watch("mfp", objective, hidden.view)
    return loss


def self_distillation_groups(
    config: PrototypeSettings, encoder: Encoder, **parts: nn.Module | None
) -> Iterator[dict[str, Any]]:
    """Return parameter groups: no decay for parameters named bias or norm, a slower patch projection, prototypes
    frozen at first, clipping per part.

    >>> class Normed(Encoder):
    ...     def __init__(self):
    ...         super().__init__(None, None, None)
    ...         self.norm = nn.LayerNorm(4)
    >>> [(group["clip"], group["wd_scale"]) for group in self_distillation_groups(PrototypeSettings(), Normed())]
    [('encoder', 0.0), ('encoder', 0.0)]
    """
    stem = {id(parameter) for parameter in encoder.stem()}
    for part, module in {"encoder": encoder, **parts}.items():
        for name, parameter in module.named_parameters() if module is not None else ():
            if parameter.requires_grad:
                yield {
                    "params": [parameter],
                    "clip": part,
                    "wd_scale": 0.0 if name.endswith("bias") or "norm" in name else 1.0,
                    "lr_scale": config.patch_lr if id(parameter) in stem else 1.0,
                    "frozen_until": config.freeze_prototypes if name.split(".")[-1].startswith("prototype") else 0.0,
                }


def other_views(global_RE: Sequence[Tensor], local_RE: Sequence[Tensor] = ()) -> Tensor:
    """Return the other global view and all local ones for both global views: [2 R, 1 + V, E] from [R, E].

    >>> first, second, local = (torch.full((3, 8), value) for value in (1.0, 2.0, 3.0))
    >>> other_views([first, second], [local])[:, :, 0]
    tensor([[2., 3.],
            [2., 3.],
            [2., 3.],
            [1., 3.],
            [1., 3.],
            [1., 3.]])
    """
    first, second = global_RE
    return torch.cat([torch.stack([anchor, *local_RE], 1) for anchor in (second, first)])
