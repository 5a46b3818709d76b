"""Checks of how a method learns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from skelbench.methods.contract import Method
from skelbench.testing.check import Failed, Skipped
from skelbench.testing.method.subject import PHASED, MethodSubject, check_finite, gradients_of, one_step, phase_starts
from skelbench.training.loop import Trainer
from skelbench.views.view import View

LEARNING: Mapping[str, Any] = {"optimizer": "adamw", "schedule": "constant", "train.lr": 3e-3}
LEARNING_STEPS = 160
LEARNED, LEARNED_OF_BEFORE = 0.1, 0.01
BF16_LOSS, BF16_NEAR = 0.05, 0.01
"""Relative and absolute difference of losses: those of shipped methods move by at most 3 %, mostly by 0.1 %."""


def gradients(m: MethodSubject) -> None:
    """Gradients of the first step of each phase."""
    training = m.trainer(**PHASED)
    method, starts = training.method, phase_starts(training)
    reached: set[str] = set()
    for step in range(starts[-1] + 1):
        if step in starts:
            views, where = training.views(step), f"the first step of phase {training.step_info(step).phase}"
            for turn in method.turns:
                out = training.forward(views, training.step_info(step, turn))
                check_finite(out, where)
                out["loss"].backward()
            check_finite(gradients_of(method), where)
            reached |= {name for name, p in method.named_parameters() if p.grad is not None}
            method.zero_grad()
        if step < starts[-1]:
            one_step(training, step)
    optimizers = training.optimization.optimizers.values()
    updated = {id(p) for each in optimizers for g in each.param_groups for p in g["params"]}
    trained = {name: p for name, p in method.named_parameters() if p.requires_grad}
    if idle := sorted(trained.keys() - reached):
        raise Failed("a gradient in every trainable parameter", f"none in {', '.join(idle[:4])}", "training_step")
    if idle := [name for name, p in trained.items() if id(p) not in updated]:
        raise Failed("every trainable parameter in optim_groups", f"none in {', '.join(idle[:4])}", "optim_groups")
    for name, p in _teachers(method):
        if p.requires_grad or name in reached:
            raise Failed("no gradient in a teacher", name, "skelbench.models.ema_copy, which makes a frozen copy")


def teacher(m: MethodSubject) -> None:
    training = m.trainer()
    before = {name: p.detach().clone() for name, p in _teachers(training.method)}
    if not before:
        raise Skipped("no module has the role 'teacher'")
    for step in (training.total // 2, training.total // 2 + 1):
        training.train_step(step, training.views(step))
    moved = {name for name, p in _teachers(training.method) if not torch.equal(before[name], p)}
    for module in (name for name, role in training.method.roles.items() if role == "teacher"):
        own = {name for name in before if name.startswith(f"{module}.")}
        if own and not own & moved:
            seen = f"{module} is the same after two steps"
            raise Failed("a teacher that follows the student", seen, "after_step (skelbench.models.ema_update)")


def _teachers(method: Method) -> Iterator[tuple[str, nn.Parameter]]:
    for name, role in method.roles.items():
        if role == "teacher":
            for inner, p in method.get_submodule(name).named_parameters():
                yield f"{name}.{inner}", p


def bf16(m: MethodSubject) -> None:
    """Loss of the second step (queues are filled) from the same weights in both precisions."""
    exact, rounded = m.trainer(), m.trainer(**{"train.precision": "bf16"})
    one_step(exact, 0)
    rounded.method.load_state_dict(exact.method.state_dict())
    loss, other = (one_step(training, 1, "bf16 autocast") for training in (exact, rounded))
    if not abs(other - loss) <= max(BF16_LOSS * abs(loss), BF16_NEAR):
        expected = f"in bf16 autocast a loss within {BF16_LOSS:.0%} or {BF16_NEAR} of float32's"
        raise Failed(expected, f"{other:.4g}, not {loss:.4g}", "float32 for sums and logarithms (models.precision)")


def learns(m: MethodSubject) -> None:
    """Two copies are trained on a batch each, until each is better on its own batch than the other copy.

    A constant prediction is as good on both, and so is a method whose targets are noise. ``after_step`` (teacher,
    center) runs only once, to fill queues.
    """
    first, second = (m.trainer(epochs=1000, wide=True, **LEARNING) for _ in range(2))
    for training in (first, second):
        training.train_step(0, training.views_of(0, training.ids[-4:]))
    clips = 2 if first.method.min_clips < 2 else 4
    batches = [first.views_of(0, first.ids[i : i + clips]) for i in (0, clips)]
    before = sum(_loss(first, batch) for batch in batches)
    share = of_before = own = others = 0.0
    for step in range(1, LEARNING_STEPS + 1):
        for training, views in zip((first, second), batches):
            for turn in training.method.turns:
                training.forward(views, training.step_info(1, turn))["loss"].backward()
                training.optimization.step(1, training.optimization.norms(turn), turn)
        if step % 20 == 0:
            own = _loss(first, batches[0]) + _loss(second, batches[1])
            others = _loss(first, batches[1]) + _loss(second, batches[0])
            share = (others - own) / max(abs(own), abs(others))
            of_before = (others - own) / max(abs(before), before - own)
            if share > LEARNED and of_before > LEARNED_OF_BEFORE:
                return
    expected = f"a loss lower on training clips, by {LEARNED:.0%} and {LEARNED_OF_BEFORE:.0%} of the loss before"
    seen = f"lower by {share:.1%} and {of_before:.1%} after {LEARNING_STEPS} steps ({own / 2:.4g} and {others / 2:.4g})"
    raise Failed(expected, seen, "a target that does not depend on the clip, or a detach before the loss")


def _loss(training: Trainer, views: Mapping[str, View]) -> float:
    with torch.no_grad():
        return float(training.method(views, training.step_info(1))["loss"])
