"""The prototype loss of one head with its centring: what DINO, iBOT and SLiM call between their heads."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from skelbench.distributed import all_reduce_sum
from skelbench.nn.prototype_loss import RunningCentre, Sinkhorn, prototype_cross_entropy


class PrototypeObjective(nn.Module):
    """Cross-entropy of student against teacher assignments; ``centering`` "sinkhorn", "running" or "none"."""

    def __init__(
        self, prototypes: int, centering: Literal["sinkhorn", "running", "none"], student_temp: float = 0.1
    ) -> None:
        super().__init__()
        self.student_temp = student_temp
        self.sinkhorn = Sinkhorn(all_reduce=all_reduce_sum) if centering == "sinkhorn" else None
        self.centre = RunningCentre(prototypes) if centering == "running" else None
        self._seen: tuple[Tensor, Tensor] | None = None

    def forward(
        self, student_z: Tensor, student_W: Tensor, teacher_z: Tensor, teacher_W: Tensor, weights: Tensor, temp: float
    ) -> Tensor:
        """Weighted sum over samples and views (shapes: ``prototype_cross_entropy``); ``temp`` is the teacher's."""
        self._seen = (teacher_z.detach(), teacher_W.detach())
        centering = self.sinkhorn or (self.centre.centre if self.centre is not None else None)
        return prototype_cross_entropy(
            student_z,
            student_W,
            teacher_z,
            teacher_W,
            weights,
            teacher_temp=temp,
            student_temp=self.student_temp,
            centering=centering,
        )

    def update(self) -> None:
        """After the step: move the running centre by what the teacher put out in it."""
        if self.centre is not None and self._seen is not None:
            self.centre.update(*self._seen, all_reduce=all_reduce_sum)
        self._seen = None
