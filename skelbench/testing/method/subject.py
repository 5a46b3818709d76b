"""A method at a tiny size, and steps of it: what the checks share."""

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
from skelbench.models.encoder import Encoder
from skelbench.pipeline.resolve import Resolved
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host
from skelbench.records.run_dir import RunDir
from skelbench.testing.check import Failed, Skipped
from skelbench.testing.tiny import tiny_run, write_store
from skelbench.training.build import build_method, grid_of
from skelbench.training.loop import Trainer
from skelbench.views.skeleton.topology import COCO17, get_topology
from skelbench.views.view import View

STORES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "small": dict,
    "relabelled": lambda: {"turn": 1},
    "stick7": lambda: {"topology": get_topology("stick7")},
    "coco17": lambda: {"topology": COCO17, "flat": True, "missing": 0.1},
}

FIRST = "the clips of a first step"
PHASED: Mapping[str, Any] = {"epochs": 8}
"""With which there are some steps in every phase."""


@lru_cache
def own_folder() -> tempfile.TemporaryDirectory:
    """Of this process, removed with it."""
    return tempfile.TemporaryDirectory(prefix="skelbench-check-")


@lru_cache
def _store(name: str) -> Path:
    """The data root, in which there is a store of this name."""
    root = Path(own_folder().name)
    write_store(root, name, **STORES[name]())
    return root


@dataclass(eq=False)
class MethodSubject:
    """A method at a tiny size."""

    host: Host
    descriptor: MethodSpec
    unbuildable: bool = False
    """Whether it was found out that it cannot be built."""
    _resolved: dict[Any, Resolved] = field(default_factory=dict)

    def resolved(self, dataset: str = "small", **settings: Any) -> Resolved:
        """A tiny run of it: see :func:`skelbench.testing.tiny.tiny_run`."""
        if self.unbuildable:
            raise Skipped("it cannot be built")
        key = dataset, *sorted(settings.items())
        if key not in self._resolved:
            self._resolved[key] = tiny_run(_store(dataset), self.host, self.descriptor, dataset, **settings)
        return self._resolved[key]

    def method(self, dataset: str = "small", **settings: Any) -> Method:
        """It, as initialised, in training mode."""
        made = self.resolved(dataset, **settings)
        return build_method(made.spec, self.host, made.store.topology).train()

    def trainer(self, dataset: str = "small", **settings: Any) -> Trainer:
        """A trainer that has not begun. Skipped, of a method that is not trained."""
        if not self.descriptor.trains:
            raise Skipped("it is not trained")
        made = self.resolved(dataset, **settings)
        return Trainer(made.spec, self.method(dataset, **settings), made.store, RunDir(Path(own_folder().name)), "cpu")

    @property
    def source(self) -> str:
        """Where its descriptor stands."""
        return self.host.origin(self.descriptor).source


def plain_view(training: Trainer, encoder: Encoder) -> View:
    """One clip of noise on the run's grid."""
    grid = grid_of(training.spec, training.source.store.topology)
    return View.of(torch.randn(1, 1, grid.frames, grid.joints, 3), stream=encoder.stream)


def forward(training: Trainer, views: dict[str, View]) -> dict[str, Tensor]:
    turns = ((turn, training.forward(views, training.step_info(0, turn))) for turn in training.method.turns)
    return {f"{name} of turn {turn}": value for turn, out in turns for name, value in out.items()}


def check_finite(out: Mapping[str, Any], where: str) -> None:
    for name, value in out.items():
        if not torch.as_tensor(value).isfinite().all():
            raise Failed("finite figures", f"{name} is not finite with {where}")


def gradients_of(method: Method) -> dict[str, Tensor]:
    """What lies in its parameters, by their names; copies, as over processes the next turn's lie in the same memory."""
    return {f"gradient of {name}": p.grad.clone() for name, p in method.named_parameters() if p.grad is not None}


def one_step(training: Trainer, step: int, where: str = "") -> float:
    """The loss of ``step``, which is made."""
    out = training.train_step(step, training.views(step))
    check_finite(out, where or f"step {step}")
    return float(out["loss"])


def phase_starts(training: Trainer) -> list[int]:
    """The first step of each phase of which there is one."""
    phases = [training.step_info(step).phase for step in range(training.total)]
    return [step for step, phase in enumerate(phases) if phase not in phases[:step]]


def losses_of(training: Trainer, steps: int) -> list[float]:
    return [one_step(training, step) for step in range(steps)]


def brief(losses: list[float]) -> str:
    return ", ".join(f"{loss:.7g}" for loss in losses)


def few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
