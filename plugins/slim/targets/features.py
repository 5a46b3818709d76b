"""The teacher's projected features, by squared error, with and without a predictor (paper, Table 10)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from skelbench.core.component import Spec
from skelbench.methods import Context, Hidden, MaskedTarget, Step
from skelbench.models.ema import ema_copy, ema_update
from skelbench.models.heads import initialize_mlp, projection_mlp


class ProjectionHead(nn.Module):
    """The three-layer MLP of a prototype head without prototypes: [..., D] -> [..., E], not normalized."""

    def __init__(self, dim_in: int, hidden: int = 2048, bottleneck: int = 256) -> None:
        super().__init__()
        self.mlp = projection_mlp(dim_in, hidden, bottleneck)
        initialize_mlp(self.mlp)

    def forward(self, x: Tensor) -> Tensor:
        """In at least float32."""
        x = self.mlp(x)
        return x.to(torch.promote_types(x.dtype, torch.float32))


class FeatureTarget(MaskedTarget):
    """Squared distance between the student's and the teacher's projected unit features at masked tokens.

    The projection is the 3-layer MLP of the prototype head, to the unit vectors that prototypes are compared with;
    the squared error is summed over channels: 2 - 2 cos (our assumption: the paper does not specify either; a mean over
    channels would be negligible next to the contrastive loss). Nothing prevents a collapse of this branch, and the
    paper reports one. ``config`` has ``head_hidden`` and ``bottleneck``.
    """

    roles = {"head": "head", "teacher_head": "head"}
    whole_batch = ""

    def __init__(self, config: Any, context: Context, settings: Spec) -> None:
        super().__init__(config, context, settings)
        self.head = ProjectionHead(context.width, config.head_hidden, config.bottleneck)
        self.teacher_head = ema_copy(self.head)

    def predict(self, projected_IE: Tensor) -> Tensor:
        """Student's prediction of the teacher's features: its own features."""
        return projected_IE

    def forward(self, hidden: Hidden) -> Tensor:
        with torch.no_grad():
            target_IE = F.normalize(self.teacher_head(hidden.teacher_ID), dim=-1)
        projected_IE = F.normalize(self.head(hidden.student_ID), dim=-1)
        hidden.step.watch("masked", projected_IE)
        error_I = (F.normalize(self.predict(projected_IE), dim=-1) - target_IE).square().sum(-1)
        return (error_I * hidden.share_I).sum()

    def after_step(self, step: Step, momentum: float) -> None:
        """Move the teacher's head."""
        ema_update(self.teacher_head, self.head, momentum)


class PredictedFeatureTarget(FeatureTarget):
    """The same, with a predictor on the student's side only (BYOL's asymmetry):
    two linear layers with GELU between them (our assumption: the paper says "predictor head")."""

    roles = {**FeatureTarget.roles, "predictor": "head"}

    def __init__(self, config: Any, context: Context, settings: Spec) -> None:
        super().__init__(config, context, settings)
        self.predictor = nn.Sequential(
            nn.Linear(config.bottleneck, config.head_hidden),
            nn.GELU(),
            nn.Linear(config.head_hidden, config.bottleneck),
        )
        initialize_mlp(self.predictor)

    def predict(self, projected_IE: Tensor) -> Tensor:
        """The predictor's output, in float32."""
        return self.predictor(projected_IE).to(projected_IE.dtype)
