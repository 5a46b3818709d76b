"""Prototype loss of one head with its centering: DINO, iBOT and SLiM call it between their heads."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from skelbench.core.distributed import gather
from skelbench.models.information import samples_of, split_information
from skelbench.models.precision import no_autocast
from skelbench.models.prototype_loss import TILE, RunningCenter, Sinkhorn, prototype_cross_entropy, teacher_offset
from skelbench.models.rank import sample_rows
from skelbench.views.view import View

SAMPLES = 1024
"""Largest number of samples in a diagnostic; fewer if their logits would not fit into a tile."""


class _Teacher(NamedTuple):
    """The teacher's side of one step: distribution of sample i = softmax_k(z_i . W_k / temp + offset_k)."""

    z_nD: Tensor
    W_KD: Tensor
    offset_K: Tensor | None
    temp: float

    def distributions(self, z_nD: Tensor) -> Tensor:
        """Return the distributions over prototypes of ``z_nD``, [n, K]."""
        with no_autocast(z_nD):
            logits_nK = (z_nD.float() / self.temp) @ self.W_KD.float().mT
            return torch.softmax(logits_nK if self.offset_K is None else logits_nK + self.offset_K, 1)


class PrototypeObjective(nn.Module):
    """Cross-entropy of student against teacher assignments; ``centering`` "sinkhorn", "running" or "none".

    >>> objective = PrototypeObjective(prototypes=4, centering="none", student_temp=1.0)
    >>> zero_nD, W_KD = torch.zeros(2, 3), torch.zeros(4, 3)
    >>> objective(zero_nD, W_KD, zero_nD, W_KD, torch.full((2,), 0.5), temp=1.0)  # log 4
    tensor(1.3863)
    >>> round(float(objective.figures()["prototypes_used"]), 4)
    4.0
    """

    def __init__(
        self, prototypes: int, centering: Literal["sinkhorn", "running", "none"], student_temp: float = 0.1
    ) -> None:
        super().__init__()
        self.student_temp = student_temp
        self.sinkhorn = Sinkhorn() if centering == "sinkhorn" else None
        self.center = RunningCenter(prototypes) if centering == "running" else None
        self._seen: list[_Teacher] = []
        """Statistics of this step, one entry per micro-batch."""

    @property
    def whole_batch(self) -> str:
        """See :attr:`skelbench.methods.contract.Method.whole_batch`."""
        return "Sinkhorn balances the assignments of the whole batch" if self.sinkhorn else ""

    def forward(
        self, student_z: Tensor, student_W: Tensor, teacher_z: Tensor, teacher_W: Tensor, weights: Tensor, temp: float
    ) -> Tensor:
        """Weighted sum over samples and views (shapes: ``prototype_cross_entropy``); ``temp`` is the teacher's."""
        teacher_z, teacher_W = teacher_z.detach(), teacher_W.detach()
        centering = self.sinkhorn or (self.center.center if self.center is not None else None)
        offset_K = teacher_offset(centering, teacher_z, teacher_W, temp)
        self._seen.append(_Teacher(teacher_z, teacher_W, offset_K, temp))
        return prototype_cross_entropy(
            student_z, student_W, teacher_z, teacher_W, weights,
            teacher_temp=temp, student_temp=self.student_temp, offset_K=offset_K,
        )  # fmt: skip

    @torch.no_grad()
    def figures(self, view: View | None = None) -> dict[str, Tensor]:
        """Return metrics of the last :meth:`forward`, until :meth:`update`; empty without samples. All processes call
        it together; the samples are from all of them.

        ``teacher_entropy``: mean entropy of the teacher's centered distributions in nats; log K for uniform
        distributions, 0 if each is one prototype. ``prototypes_used``: exp(entropy of the mean distribution), from 1
        (all samples have one prototype) to K (all prototypes are used equally); n samples use at most n
        exp(``teacher_entropy``). With ``view``, whose rows or masked tokens are the samples, also
        ``<part>_information`` in nats: information of prototypes about the ``place`` in the token grid, the ``view``,
        the body ``slot``, and beyond these about the ``clip``; from the samples of this process only.
        """
        if not self._seen:
            return {}
        last = self._seen[-1]
        z_nD = last.z_nD
        most = min(SAMPLES, max(1, TILE // len(last.W_KD)))
        samples_nD = sample_rows(gather(sample_rows(z_nD, most)), most)
        if not len(samples_nD):
            return {}
        q_nK = last.distributions(samples_nD)
        metrics = {
            "teacher_entropy": torch.special.entr(q_nK).sum(1).mean(),
            "prototypes_used": torch.special.entr(q_nK.mean(0)).sum().exp(),
        }
        if view is not None and len(z_nD):
            chosen_n, parts = samples_of(view, len(z_nD), most)
            # With few masked tokens, none may be among the sampled positions.
            split = split_information(last.distributions(z_nD[chosen_n]), parts) if len(chosen_n) else {}
            metrics |= {f"{part}_information": value for part, value in split.items()}
        return metrics

    def update(self) -> None:
        """Update the running center with the teacher's outputs of this step, and clear the step's statistics."""
        if self.center is not None and self._seen:
            z_nD = torch.cat([step.z_nD for step in self._seen])
            self.center.update(z_nD, self._seen[-1].W_KD)
        self._seen = []
