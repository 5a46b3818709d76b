"""The teacher's prototype distribution, by cross-entropy: SLiM's own target (paper, section "Masked feature
prediction"; iBOT)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from skelbench.component import Spec
from skelbench.methods.contract import Context, Step
from skelbench.methods.target import Hidden, MaskedTarget
from skelbench.nn.ema import ema_copy, ema_update
from skelbench.nn.heads import PrototypeHead
from skelbench.nn.prototype_objective import PrototypeObjective


def predict_prototypes(
    hidden: Hidden, head: PrototypeHead, teacher_head: PrototypeHead, objective: PrototypeObjective
) -> Tensor:
    """The loss of :meth:`PrototypeTarget.forward` between given heads (iBOT's are those of its class tokens)."""
    with torch.no_grad():
        target_IE, target_W = teacher_head(hidden.teacher_ID), teacher_head.prototypes
    predicted_IE = head(hidden.student_ID)
    hidden.step.watch("masked", predicted_IE)
    loss = objective(predicted_IE, head.prototypes, target_IE, target_W, hidden.share_I, hidden.temp)
    hidden.step.watch("mfp", objective)
    return loss


class PrototypeTarget(MaskedTarget):
    """Cross-entropy of the student's against the teacher's distribution over prototypes at hidden tokens.

    ``config`` has the fields of :class:`~skelbench.nn.config.PrototypeSettings`.
    """

    roles = {"head": "head", "teacher_head": "head", "objective": "head"}

    def __init__(self, config: Any, context: Context, settings: Spec) -> None:
        super().__init__(config, context, settings)
        self.head = PrototypeHead.of(config, context.width)
        self.teacher_head = ema_copy(self.head)
        self.objective = PrototypeObjective(config.prototypes, config.centering, config.student_temp)

    def forward(self, hidden: Hidden) -> Tensor:
        """See :meth:`MaskedTarget.forward`."""
        return predict_prototypes(hidden, self.head, self.teacher_head, self.objective)

    def after_step(self, step: Step, momentum: float) -> None:
        """Move the teacher's head and the running centre."""
        ema_update(self.teacher_head, self.head, momentum)
        self.objective.update()
