"""One step of the optimizers: schedules, scales, freezing and clipping."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from skelbench.core.spec import RunSpec
from skelbench.models.optim.groups import merged
from skelbench.models.optim.optimizers import Optimizer
from skelbench.models.optim.schedules import Schedule
from skelbench.models.schedule import cosine
from skelbench.plugin.host import get_host


@contextmanager
def _without_compiler() -> Iterator[None]:
    """Build optimizers without loading PyTorch's compiler, which PyTorch needs only to exclude optimizers from it."""
    adding = torch.optim.Optimizer.add_param_group
    torch.optim.Optimizer.add_param_group = getattr(adding, "__wrapped__", adding)  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.optim.Optimizer.add_param_group = adding  # type: ignore[method-assign]


class Optimization:
    """The optimizers of a run (one per entry of ``turns``) and their schedules.

    ``groups``: see ``Method.optim_groups``; ``turns``: see ``Method.turns``.
    """

    def __init__(
        self, groups: Iterable[dict[str, Any]], spec: RunSpec, total_steps: int, turns: Sequence[str] = ("main",)
    ) -> None:
        self.train, self.total = spec.train, total_steps
        scale = (self.train.batch_size / 1024) ** 0.5 if self.train.lr_scaling == "sqrt-1024" else 1.0
        self.peak = self.train.lr * scale
        self.schedule: Schedule = get_host().find("schedules", spec.schedule).model_validate(spec.schedule_config)
        optimizer: Optimizer = get_host().find("optimizers", spec.optimizer).model_validate(spec.optimizer_config)
        by_turn: dict[str, list[dict[str, Any]]] = {turn: [] for turn in turns}
        for group in merged(groups):
            by_turn[group.get("turn", turns[0])].append(group)
        with _without_compiler():
            self.optimizers = {
                turn: optimizer.build(parameters, self.peak, self.train.weight_decay)
                for turn, parameters in by_turn.items()
            }
        self._parts: dict[str, dict[str, list[nn.Parameter]]] = {turn: defaultdict(list) for turn in turns}
        """Per optimizer: name of a part -> parameters whose gradients are clipped together."""
        for turn, stepped in self.optimizers.items():
            for group in stepped.param_groups:
                self._parts[turn][group.get("clip", "")].extend(group["params"])

    def lr(self, step: int) -> float:
        """Learning rate of ``step``."""
        return self.schedule.lr(self.peak, step, self.total)

    def weight_decay(self, step: int) -> float:
        """Weight decay of ``step``."""
        end = self.train.weight_decay_end
        return self.train.weight_decay if end is None else cosine(self.train.weight_decay, end, step / self.total)

    def norms(self, turn: str = "main") -> dict[str, Tensor]:
        """Gradient norm of each separately clipped part of optimizer ``turn``."""
        return {
            part: torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
            for part, parameters in self._parts[turn].items()
        }

    def step(self, step: int, norms: Mapping[str, Tensor], turn: str = "main") -> dict[str, float]:
        """Clip by ``norms``, update the parameters of ``turn``, clear all gradients; return the rate and decay used."""
        lr, decay, optimizer = self.lr(step), self.weight_decay(step), self.optimizers[turn]
        if self.train.clip_grad is not None:
            for part, parameters in self._parts[turn].items():
                torch.nn.utils.clip_grads_with_norm_(parameters, self.train.clip_grad, norms[part])
        for group in optimizer.param_groups:
            frozen = step < group.get("frozen_until", 0.0) * self.total
            group["lr"] = 0.0 if frozen else lr * group.get("lr_scale", 1.0)
            group["weight_decay"] = decay * group.get("wd_scale", 1.0)
            if frozen:  # moments stay empty, so the step after freezing is like a first step
                for parameter in group["params"]:
                    parameter.grad = None
        optimizer.step()
        for stepped in self.optimizers.values():  # the loss may have reached parameters of the other optimizers
            stepped.zero_grad(set_to_none=True)
        return {"lr": lr, "weight_decay": decay}

    def state_dict(self) -> dict[str, Any]:
        """State of every optimizer, by turn."""
        return {turn: optimizer.state_dict() for turn, optimizer in self.optimizers.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of :meth:`state_dict`."""
        for turn, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state[turn])
