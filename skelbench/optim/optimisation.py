"""Parameter groups, schedules and gradient clipping: AdamW driven by shares of the schedule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from skelbench.errors import SkelbenchError
from skelbench.nn.schedule import cosine
from skelbench.spec import TrainSpec

GROUP_KEYS = {"wd_scale", "lr_scale", "frozen_until", "clip"}
"""What a parameter group may say besides ``params`` (see ``Method.optim_groups``)."""


def default_groups(module: nn.Module) -> Iterator[dict[str, Any]]:
    """Two groups: parameters with weight decay, and biases, norms and other 1-D parameters without."""
    decay, plain = [], []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            (plain if parameter.ndim <= 1 or name.endswith("bias") else decay).append(parameter)
    yield {"params": decay, "wd_scale": 1.0}
    yield {"params": plain, "wd_scale": 0.0}


class Optimisation:
    """AdamW with warm-up + cosine learning rate and constant or cosine weight decay, per-group scales and freezing."""

    def __init__(self, method: nn.Module, train: TrainSpec, total_steps: int) -> None:
        groups = _merged(method.optim_groups())
        self.train, self.total = train, total_steps
        scale = (train.batch_size / 1024) ** 0.5 if train.lr_scaling == "sqrt-1024" else 1.0
        self.peak = train.lr * scale
        self.optimizer = torch.optim.AdamW(groups, lr=self.peak, betas=train.betas, weight_decay=train.weight_decay)

    def lr(self, step: int) -> float:
        """Learning rate of ``step``: linear from peak / warm-up steps to the peak, then cosine to ``min_lr``."""
        warm = round(self.train.warmup * self.total)
        if step < warm:
            return self.peak * (step + 1) / warm
        return cosine(self.peak, self.train.min_lr, (step - warm) / max(1, self.total - warm))

    def weight_decay(self, step: int) -> float:
        """Weight decay of ``step``."""
        end = self.train.weight_decay_end
        return self.train.weight_decay if end is None else cosine(self.train.weight_decay, end, step / self.total)

    def step(self, step: int) -> dict[str, float]:
        """Clip, update, clear gradients; returns what was used."""
        lr, decay = self.lr(step), self.weight_decay(step)
        self._clip()
        for group in self.optimizer.param_groups:
            frozen = step < group.get("frozen_until", 0.0) * self.total
            group["lr"] = 0.0 if frozen else lr * group.get("lr_scale", 1.0)
            group["weight_decay"] = decay * group.get("wd_scale", 1.0)
            if frozen:  # no moments are gathered either, so the first free step is like a first step
                for parameter in group["params"]:
                    parameter.grad = None
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {"lr": lr, "weight_decay": decay}

    def _clip(self) -> None:
        if self.train.clip_grad is None:
            return
        parts = defaultdict(list)
        for group in self.optimizer.param_groups:
            parts[group.get("clip", "")].extend(group["params"])
        for parameters in parts.values():
            torch.nn.utils.clip_grad_norm_(parameters, self.train.clip_grad)


def _merged(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups with equal settings become one: few large groups update faster than many small ones."""
    merged: dict[tuple, dict[str, Any]] = {}
    for group in groups:
        settings = {key: value for key, value in group.items() if key != "params"}
        if unknown := settings.keys() - GROUP_KEYS:
            raise SkelbenchError(
                f"optim_groups of the method uses {', '.join(sorted(unknown))}, which the harness does not know; "
                f"known besides params: {', '.join(sorted(GROUP_KEYS))}"
            )
        key = tuple(sorted(settings.items()))
        merged.setdefault(key, {**settings, "params": []})["params"].extend(group["params"])
    return [group for group in merged.values() if group["params"]]
