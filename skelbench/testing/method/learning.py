"""What a method learns with, and whether it learns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from skelbench.methods.contract import Method
from skelbench.models.encoder import evaluating
from skelbench.models.rank import effective_rank
from skelbench.testing.check import Failed, Skipped
from skelbench.testing.method.subject import (
    FIRST,
    PHASED,
    MethodSubject,
    check_finite,
    few,
    gradients_of,
    one_step,
    phase_starts,
)
from skelbench.training.loop import Trainer
from skelbench.views.view import View


def gradients(m: MethodSubject) -> None:
    """In the first step of any phase, to which it is trained."""
    training = m.trainer(**PHASED)
    method, starts = training.method, phase_starts(training)
    trained = {name: p for name, p in method.named_parameters() if p.requires_grad}
    reached: set[str] = set()
    for step in range(starts[-1] + 1):
        if step in starts:
            where = FIRST if step == 0 else f"the clips of the first step of phase {training.step_info(step).phase}"
            views = training.views(step)
            for turn in method.turns:
                out = training.forward(views, training.step_info(step, turn))
                check_finite(out, where)
                out["loss"].backward()
            check_finite(gradients_of(method), where)
            reached |= {name for name, p in method.named_parameters() if p.grad is not None}
            method.zero_grad()
        if step < starts[-1]:
            one_step(training, step)
    if without := [name for name in trained if name not in reached]:
        raise Failed(
            "a gradient in every trainable parameter",
            f"none in {few(without)}",
            "what training_step does not use; what is not meant to be trained: requires_grad_(False)",
        )
    updated = {id(p) for each in training.optim.optimizers.values() for g in each.param_groups for p in g["params"]}
    if idle := [name for name, p in trained.items() if id(p) not in updated]:
        raise Failed("every trainable parameter in optim_groups", f"{few(idle)} in none", "optim_groups")
    for name, p in _teachers(method):
        if p.requires_grad or name in reached:
            seen = f"{name} has requires_grad={p.requires_grad}"
            raise Failed("no gradient in a teacher", seen, "skelbench.models.ema_copy, which makes a frozen copy")


def teacher(m: MethodSubject) -> None:
    training = m.trainer()
    if not (teachers := dict(_teachers(training.method))):
        raise Skipped("no module has the role 'teacher'")
    before = {name: p.detach().clone() for name, p in teachers.items()}
    for step in (training.total // 2, training.total // 2 + 1):
        training.train_step(step, training.views(step))
    moved = {name for name, p in teachers.items() if not torch.equal(before[name], p)}
    for module in (name for name, role in training.method.roles.items() if role == "teacher"):
        own = {name for name in teachers if name.startswith(f"{module}.")}
        if not own or own & moved:
            continue
        raise Failed(
            "a teacher that follows the student",
            f"{module} is after two steps what it was before",
            "after_step, which moves it (skelbench.models.ema_update)",
        )


def _teachers(method: Method) -> Iterator[tuple[str, nn.Parameter]]:
    for name, role in method.roles.items():
        if role == "teacher":
            for inner, p in method.get_submodule(name).named_parameters():
                yield f"{name}.{inner}", p


def bf16(m: MethodSubject) -> None:
    """One step from the same weights in both precisions, the second of a run: queues are filled, weights have moved."""
    exact, rounded = m.trainer(), m.trainer(**BF16)
    one_step(exact, 0)
    rounded.method.load_state_dict(exact.method.state_dict())
    (loss, gradient), (other, apart) = _loss_and_gradient(exact), _loss_and_gradient(rounded)
    look = "sums, differences of near numbers, powers and logarithms: do them in float32 (skelbench.models.precision)"
    if not abs(other - loss) <= max(BF16_LOSS * abs(loss), BF16_NEAR):
        raise Failed(
            f"in bf16 autocast a loss within {BF16_LOSS:.0%} or {BF16_NEAR} of float32's",
            f"{other:.4g}, not {loss:.4g}",
            look,
        )
    normed = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in exact.method.modules())
    share = float((apart - gradient).norm() / gradient.norm())
    if not normed and not share <= BF16_GRADIENT:
        expected = f"in bf16 autocast a gradient within {BF16_GRADIENT:.0%} of float32's norm"
        raise Failed(expected, f"one that is {share:.0%} of it away", look)
    for step in range(1, 3):
        one_step(rounded, step, "bf16 autocast")


def _loss_and_gradient(training: Trainer) -> tuple[float, Tensor]:
    """Sum of the losses of a second step's turns, and the gradients of all parameters in one row."""
    total, views = 0.0, training.views(1)
    for turn in training.method.turns:
        info = training.step_info(1, turn)
        torch.manual_seed(0)  # of the modules' own noise
        total += float(training._backward(training.forward, views, info)["loss"].detach())
    found = [p.grad.flatten().double() for p in training.method.parameters() if p.grad is not None]
    training.method.zero_grad()
    return total, torch.cat(found)


BF16: Mapping[str, Any] = {"train.precision": "bf16"}
BF16_LOSS, BF16_NEAR, BF16_GRADIENT = 0.05, 0.01, 0.3
"""A number of 8 bits is off by up to 0.4 %, and a step's roundings add up. Of the methods that ship, on three steps of
4, 6 and 12 clips, losses moved by up to 3 % (PSTL; mostly 0.1 %) and gradients by up to 16 % of their norm (CMD;
mostly 1 %). Gradients through batch norm, of PSTL, UmURL and USDRL, moved by up to all of it: a deviation over few
clips is a small number that everything is divided by. Only their losses are compared. A loss with a sign, minus a
cosine, begins near 0, where a share of it is nothing: 0.01 is near enough."""


def learns(m: MethodSubject) -> None:
    """Two copies are trained on a batch each, until each is better on its own batch than the other copy is on it.

    That is told by the sums over both batches, so it does not matter which is harder. Predicting zero, a mean or any
    constant is as good on both, and so is a method whose targets are noise; of what is left of a loss that falls to
    nothing whatever the clip, the difference is no share of what it was before. What ``after_step`` moves (a teacher,
    a centre) is held still after a first step, which fills queues.
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
                training.optim.step(1, training.optim.norms(turn), turn)
        if step % 20 == 0:
            own = _loss(first, batches[0]) + _loss(second, batches[1])
            others = _loss(first, batches[1]) + _loss(second, batches[0])
            share, of_before = (
                (others - own) / max(abs(own), abs(others)),
                (others - own) / max(abs(before), before - own),
            )
            if share > LEARNED and of_before > LEARNED_OF_BEFORE:
                return
    raise Failed(
        f"a loss on the clips it is trained on that is lower than on others, by {LEARNED:.0%} of it and by "
        f"{LEARNED_OF_BEFORE:.0%} of what it was",
        f"lower by {share:.1%} and {of_before:.1%} after {LEARNING_STEPS} steps "
        f"({own / 2:.4g} on its own, {others / 2:.4g} on others, {before / 2:.4g} before)",
        "a target that does not depend on the clip, a detach on the way of the loss, or features that become alike for "
        "all clips, so that the loss is as low on any"
        + ("; or add to a loss that may be negative what makes its least value 0 (1 - cosine)" if own < 0 else ""),
    )


LEARNING: Mapping[str, Any] = {"optimizer": "adamw", "schedule": "constant", "train.lr": 3e-3}
LEARNING_STEPS = 160
LEARNED, LEARNED_OF_BEFORE = 0.1, 0.01


def collapse(m: MethodSubject) -> None:
    training = m.trainer(epochs=1000, batch_size=8, wide=True, **LEARNING)
    encoder, fixed = training.method.inference_encoder(), training.diagnostics.fixed
    assert fixed is not None and fixed.turned is not None

    def looked_at() -> tuple[float, float]:
        """Effective rank of the clips' features around their mean, and how far they are from it, as a share."""
        with evaluating(encoder):
            x_RD = encoder(fixed.turned).pooled_RD
        apart = (x_RD - x_RD.mean(0)).norm() / x_RD.norm()
        return float(effective_rank(x_RD, centred=True)), float(apart)

    _, apart_before = looked_at()
    for step in range(COLLAPSE_STEPS):
        one_step(training, step)
    rank, apart = looked_at()
    if rank < RANK or apart < APART * apart_before:
        raise Failed(
            f"features of different clips of effective rank {RANK} or more, that keep {APART:.0%} of their distances",
            f"effective rank {rank:.2f}, {apart / apart_before:.1%} of their distances after {COLLAPSE_STEPS} steps",
            "what keeps features of different clips apart: negatives, a predictor and a stopped gradient, variance",
        )


RANK, APART = 2.0, 0.1
COLLAPSE_STEPS = 40


def _loss(training: Trainer, views: Mapping[str, View]) -> float:
    with torch.no_grad():
        return float(training.method(views, training.step_info(1))["loss"])
