"""Two global and several local views of a clip: what DINO and iBOT have in common.

Facts: the code of DINO (facebookresearch/dino) and iBOT (bytedance/ibot). An image crop shows a share of the picture at
fewer pixels; a crop here shows a share of the clip's duration at fewer frames (our reading). R rows (bodies of one
view), V local views, E bottleneck width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from skelbench.methods.self_distillation import PrototypeSettings
from skelbench.views import BoneScale, Free, Mask, Mirror, Rotate, ViewSpec
from skelbench.views.skeleton.grid import Grid


class MultiCropConfig(PrototypeSettings):
    """Defaults follow DINO's code, and of iBOT's but for its crops; durations are shares of their 100 epochs.

    >>> views = MultiCropConfig(local_views=4).crops(Grid(frames=64, patch=8, joints=25))
    >>> {name: (view.frames, view.count) for name, view in views.items()}
    {'global': (64, 2), 'local': (16, 4)}
    """

    centering: Literal["sinkhorn", "running", "none"] = Field(
        "running", description="anti-collapse; centre of the code"
    )
    momentum: float = Field(0.996, ge=0, le=1, description="EMA momentum at the start, cosine to 1")
    student_temp: float = Field(0.1, gt=0, description="student temperature")
    teacher_temp_start: float = Field(0.04, gt=0, description="teacher temperature at the start")
    teacher_temp_warmup: float = Field(0.3, ge=0, le=1, description="its linear warm-up, share of the schedule")
    prototype_gain: bool = Field(False, description="learn each prototype's length; false = 1")
    freeze_prototypes: float = Field(
        0.01, ge=0, le=1, description="prototypes held still at first, share of the schedule"
    )
    patch_lr: float = Field(1.0, ge=0, description="learning-rate factor of the patch projection")
    global_crop: tuple[float, float] = Field(
        (0.4, 1.0), description="duration of the two global views, share of the clip"
    )
    local_crop: tuple[float, float] = Field((0.05, 0.4), description="duration of local views, share of the clip")
    local_views: int = Field(8, ge=0, description="local views of a clip")
    local_tokens: float = Field(
        0.25, gt=0, le=1, description="temporal tokens of a local view, share of a global one's (our reading)"
    )

    def crops(self, grid: Grid, mask: Mask | None = None) -> dict[str, ViewSpec]:
        """``global`` and ``local`` views, each a crop of the clip with transforms of its own; ``mask``: of global ones.

        Images' colours and blur have no counterpart here, so the views are transformed as SLiM's are
        (Skeleton-Aware Augmentations, our reading): methods then differ in what they learn from equal views.
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


def other_views(global_RE: Sequence[Tensor], local_RE: Sequence[Tensor] = ()) -> Tensor:
    """For each of two global views the other one and all local ones: [2 R, 1 + V, E] from pieces of [R, E].

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
    return torch.cat([torch.stack([other, *local_RE], 1) for other in (second, first)])
