"""The teacher's prototype distribution, by cross-entropy: SLiM's own target (paper, section "Masked feature
prediction"; iBOT)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from skelbench.core.component import Spec
from skelbench.methods import Context, Hidden, MaskedTarget, Step, predict_prototypes
from skelbench.models.ema import ema_copy, ema_update


class PrototypeTarget(MaskedTarget):
    """Cross-entropy of the student's against the teacher's distribution over prototypes at masked tokens.

    ``config`` is a :class:`~skelbench.methods.self_distillation.PrototypeSettings`.
    """

    roles = {"head": "head", "teacher_head": "head", "objective": "head"}

    def __init__(self, config: Any, context: Context, settings: Spec) -> None:
        super().__init__(config, context, settings)
        self.head, self.objective = config.head(context.width), config.objective()
        self.teacher_head = ema_copy(self.head)

    @property
    def whole_batch(self) -> str:
        return self.objective.whole_batch

    def forward(self, hidden: Hidden) -> Tensor:
        return predict_prototypes(self.objective, self.head, self.teacher_head, hidden)

    def after_step(self, step: Step, momentum: float) -> None:
        """Move the teacher's head and the running center."""
        ema_update(self.teacher_head, self.head, momentum)
        self.objective.update()
