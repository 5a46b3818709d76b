"""A method at a tiny size, and steps of it, which its checks share."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skelbench.methods.contract import Method
from skelbench.pipeline.resolve import Resolved
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host
from skelbench.records.run_dir import RunDir
from skelbench.testing.check import Failed, Skipped
from skelbench.testing.tiny import tiny_run, write_store
from skelbench.training.build import build_method
from skelbench.training.loop import Trainer
from skelbench.views.skeleton.topology import COCO17, get_topology

STORES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "small": dict,
    "relabeled": lambda: {"turn": 1},
    "stick7": lambda: {"topology": get_topology("stick7")},
    "coco17": lambda: {"topology": COCO17, "flat": True, "missing": 0.1},
}
PHASED: Mapping[str, Any] = {"epochs": 8}
"""Settings with which every phase has some steps."""


@lru_cache
def own_folder() -> tempfile.TemporaryDirectory:
    """Temporary folder of this process."""
    return tempfile.TemporaryDirectory(prefix="skelbench-check-")


@lru_cache
def _store(name: str) -> Path:
    """Data root with the store ``name``."""
    root = Path(own_folder().name)
    write_store(root, name, **STORES[name]())
    return root


@dataclass(eq=False)
class MethodSubject:
    """A method at a tiny size."""

    host: Host
    descriptor: MethodSpec
    _resolved: dict[Any, Resolved] = field(default_factory=dict)
    _losses: dict[Any, list[float]] = field(default_factory=dict)

    def resolved(self, dataset: str = "small", **settings: Any) -> Resolved:
        """Tiny run of it: see :func:`skelbench.testing.tiny.tiny_run`."""
        key = dataset, *sorted(settings.items())
        if key not in self._resolved:
            self._resolved[key] = tiny_run(_store(dataset), self.host, self.descriptor, dataset, **settings)
        return self._resolved[key]

    def method(self, dataset: str = "small", **settings: Any) -> Method:
        """Initialized method in training mode."""
        run = self.resolved(dataset, **settings)
        return build_method(run.spec, self.host, run.store.topology).train()

    def trainer(self, dataset: str = "small", device: str = "cpu", folder: str = "", **settings: Any) -> Trainer:
        """Trainer before its first step; skips the check of a method that is not trained."""
        if not self.descriptor.trains:
            raise Skipped("it is not trained")
        run, method = self.resolved(dataset, **settings), self.method(dataset, **settings).to(device)
        return Trainer(run.spec, method, run.store, RunDir(Path(folder or own_folder().name)), device)

    def losses(self, dataset: str = "small", **settings: Any) -> list[float]:
        """Losses of the first two steps; computed once."""
        key = dataset, *sorted(settings.items())
        if key not in self._losses:
            training = self.trainer(dataset, **settings)
            self._losses[key] = [one_step(training, step) for step in range(2)]
        return self._losses[key]


def check_finite(values: Mapping[str, Any], where: str) -> None:
    for name, value in values.items():
        if not torch.as_tensor(value).isfinite().all():
            raise Failed("finite losses, metrics and gradients", f"{name} is not finite with {where}")


def gradients_of(method: Method) -> dict[str, Tensor]:
    """Copies of the gradients, by name of the parameter."""
    return {f"gradient of {name}": p.grad.clone() for name, p in method.named_parameters() if p.grad is not None}


def one_step(training: Trainer, step: int, where: str = "") -> float:
    """Make ``step`` and return its loss."""
    out = training.train_step(step, training.views(step))
    check_finite(out, where or f"step {step}")
    return float(out["loss"])


def phase_starts(training: Trainer) -> list[int]:
    """First step of each phase that has steps."""
    phases = [training.step_info(step).phase for step in range(training.total)]
    return [step for step, phase in enumerate(phases) if phase not in phases[:step]]


def brief(losses: list[float]) -> str:
    return ", ".join(f"{loss:.7g}" for loss in losses)
