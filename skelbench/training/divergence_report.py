"""What is said of a training that ended in numbers that are not finite: where, why perhaps, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import torch

from skelbench.core.errors import Diverged
from skelbench.core.spec import RunSpec
from skelbench.data.store.source import ClipSource
from skelbench.methods.contract import Method, Step
from skelbench.models.encoder import Encoder
from skelbench.plugin.plugin_errors import where
from skelbench.records.run_dir import RunDir
from skelbench.training.nonfinite import Found
from skelbench.training.order import Order
from skelbench.views.view import View


class Training(Protocol):
    """What of a :class:`~skelbench.training.loop.Trainer` is looked at."""

    spec: RunSpec
    method: Method
    run: RunDir
    order: Order
    source: ClipSource
    total: int
    late: bool
    world: int

    def epoch(self, step: int) -> float: ...
    def views(self, step: int) -> dict[str, View]: ...
    def step_info(self, step: int, turn: str = "main", pieces: int = 1) -> Step: ...


def of_step(trainer: Training, found: Found) -> Diverged:
    """Of a step whose loss or gradient was not."""
    step, what, value = found
    run, total, name = trainer.run, trainer.total, trainer.spec.data.name
    place = f"became {value} at step {step} of {total} (epoch {trainer.epoch(step):.2f}) in {run.path}"
    store, ids = trainer.source.store, map(int, trainer.order(step))
    if (clip := next((i for i in ids if not np.isfinite(store.clip(i)).all()), None)) is not None:
        return Diverged(
            f"clip {clip} of data set {name} holds coordinates that are not finite, with which the {what} {place}; "
            f"see what else is wrong: skelbench data verify {name}, then prepare or import it again",
            step,
        )
    if what == "gradient" and not trainer.late:  # of a past step there are none left to look at
        held = ((name, p.grad) for name, p in trainer.method.named_parameters() if p.grad is not None)
        if bad := next((name for name, gradient in held if not bool(gradient.isfinite().all())), ""):
            what += f" of {bad}"
    return Diverged(f"the {what} {place}; {_advice(trainer) if step else _first_advice(trainer, what)}", step)


def of_state(trainer: Training, name: str, done: int) -> Diverged:
    """Of what was to be saved after ``done`` steps, in which ``name`` is not."""
    place = f"after step {done - 1} of {trainer.total} in {trainer.run.path}"
    return Diverged(f"{name} holds nan or inf {place}; {_advice(trainer)}", done - 1)


def _advice(trainer: Training) -> str:
    kept = "the last good state is kept; " if trainer.run.checkpoint.exists() else ""
    return f"{kept}lower --set train.lr, set train.clip_grad, or use --precision fp32, then run again"


def _first_advice(trainer: Training, what: str) -> str:
    """Before any weight was changed no rate is to blame."""
    blamed = _first_not_finite(trainer) or type(trainer.method).training_step
    return (
        f"no weight had moved yet: look in {where(blamed) or blamed.__qualname__} for a division by 0, the "
        f"logarithm or {'root' if what == 'loss' else 'norm'} of 0, the mean of nothing"
    )


def _first_not_finite(trainer: Training) -> Callable[..., Any] | None:
    """What made features of the first step that are not finite: an encoder's ``forward``; None = no encoder."""
    if trainer.late or trainer.world > 1:  # weights have moved, or a step of one process would wait for the others
        return None
    found: list[Callable[..., Any]] = []

    def look(encoder: Encoder, _: Any, out: Any) -> None:
        made = out if isinstance(out, list) else [out]
        features = [x for each in made for x in (each.tokens_RND, *each.readouts.values())]
        found.extend([] if all(bool(x.isfinite().all()) for x in features) else [encoder.forward])

    for encoder in (module for module in trainer.method.modules() if isinstance(module, Encoder)):
        encoder.register_forward_hook(look)
    with torch.no_grad(), suppress(Exception):  # what goes wrong without gradients says nothing of features
        trainer.method(trainer.views(0), trainer.step_info(0, trainer.method.turns[0]))
    return next(iter(found), None)
