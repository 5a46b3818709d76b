"""The training loop of all probes and of fine-tuning: one mini-batch after another by an optimizer and a schedule.

Shapes: n clips, b clips of a batch, D feature width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from skelbench.views.transfer import send

Found = TypeVar("Found")


class ProbeTrainer:
    """Updates by ``optimizer``; the learning rate of a group is ``rate(step)`` times the group's ``lr_scale`` (1)."""

    def __init__(self, optimizer: torch.optim.Optimizer, rate: Callable[[int], float]) -> None:
        self.optimizer, self.rate = optimizer, rate
        self.step = 0
        """Number of updates so far."""

    def update(self, backward: Callable[..., Found], *batch: Tensor) -> Found:
        """Make one update by the gradients that ``backward(*batch)`` leaves; return its result."""
        rate = self.rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("lr_scale", 1.0)
        self.optimizer.zero_grad()
        found = backward(*batch)
        self.optimizer.step()
        self.step += 1
        return found

    def epoch(
        self,
        backward: Callable[[Tensor, Tensor], Found],
        x_nD: Tensor,
        y_n: Tensor,
        index_n: Tensor,
        size: int,
        generator: torch.Generator,
        drops_incomplete: bool = False,
    ) -> Iterator[Found]:
        """Update once per mini-batch of the clips ``index_n``, in random order; yield each result of ``backward``.

        ``generator`` is on the CPU, so that a seed means the same on every device.
        """
        order_n = index_n[torch.randperm(len(index_n), generator=generator)]
        if drops_incomplete:
            order_n = order_n[: len(order_n) // size * size]
        device = self.optimizer.param_groups[0]["params"][0].device
        y_n, order_n = send(y_n, x_nD.device), send(order_n, x_nD.device)
        for chosen_b in order_n.split(size):
            yield self.update(backward, send(x_nD.index_select(0, chosen_b), device), send(y_n[chosen_b], device))
