"""Checks of what hidden tokens are made to predict.

R rows, N tokens, I hidden tokens of all rows, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from skelbench.core.spec import validated
from skelbench.methods.contract import Context, Step
from skelbench.methods.self_distillation import PrototypeSettings
from skelbench.methods.target import Hidden, MaskedTarget
from skelbench.models.vit import ViT, ViTConfig
from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.testing.announcement import announcement
from skelbench.testing.check import Check, Failed
from skelbench.testing.clips import view_of
from skelbench.testing.settings import check_settings
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.view import View

GRID = Grid(32, 8, NTU25.num_joints)
WIDTH = 16
SUMMED = 0.05
"""Share by which the loss of rows given twice may miss twice that of them once: their number may move a target's own
statistics a little."""


class MethodSettings(PrototypeSettings):
    """What the methods that take targets set of heads, prototypes and decoders, as small as can be."""

    prototypes: int = 16
    head_hidden: int = 16
    bottleneck: int = 8
    decoder_dim: int = Field(16, ge=1)
    decoder_depth: int = Field(1, ge=1)
    decoder_heads: int = Field(2, ge=1)


@dataclass
class TargetSubject:
    """A target in a step of a method that hides tokens."""

    host: Host
    descriptor: Descriptor

    @cached_property
    def cls(self) -> Any:
        """What the target names."""
        return self.host.load(self.descriptor)

    def make(self, seed: int = 0) -> MaskedTarget:
        """A freshly initialised one, in training."""
        make_encoder = partial(ViT, ViTConfig(dim=WIDTH, depth=1, heads=2), NTU25, GRID)
        own = validated(self.cls.Config, {}, f"target {self.descriptor.name}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.cls(MethodSettings(), Context.of(NTU25, GRID, make_encoder), own).train()


def make_step(index: int = 0) -> Step:
    """A step of a schedule of ten."""
    keyed = Keyed(11, index)

    def uniform(keys_R: Tensor, n: int, op: int = 0) -> Tensor:
        return keyed.uniform(keys_R, n, op=op)

    return Step(index, 10, 0.1 * index, torch.Generator().manual_seed(index), uniform)


def make_hidden(share: float = 0.5, seed: int = 0, dtype: torch.dtype = torch.float32) -> Hidden:
    """Four rows, of which ``share`` of the tokens is hidden."""
    generator = torch.Generator().manual_seed(seed)
    rows, tokens = 4, GRID.tokens
    mask_RN = torch.rand(rows, tokens, generator=generator) < share
    view: View = view_of(NTU25, GRID, ((1, 1), (1, 1)))
    masked_I = mask_RN.flatten().nonzero()[:, 0]
    view = replace(view, mask_RN=mask_RN, masked_I=masked_I, keys_R=torch.arange(rows))
    student_RND, teacher_RND = (torch.randn(rows, tokens, WIDTH, generator=generator).to(dtype) for _ in range(2))
    return Hidden(view, student_RND.requires_grad_(), teacher_RND, 0.07, make_step())


def _loss(target: MaskedTarget, hidden: Hidden) -> Tensor:
    loss = target(hidden)
    if not isinstance(loss, Tensor) or loss.dim() or not torch.isfinite(loss):
        seen = f"{tuple(loss.shape)}, {loss}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
        raise Failed("a finite scalar", seen, "what forward returns: a sum over hidden tokens")
    return loss


def form(subject: TargetSubject) -> None:
    cls = subject.cls
    if not (isinstance(cls, type) and issubclass(cls, MaskedTarget)):
        raise Failed("a subclass of skelbench.methods.MaskedTarget", f"{cls!r}", "target of its TargetSpec")
    target = subject.make()
    for name in target.roles:
        if not hasattr(target, name):
            raise Failed("roles that name attributes", f"there is no {name!r}", "roles")


def settings(subject: TargetSubject) -> None:
    check_settings(subject.cls.Config, {}, f"target {subject.descriptor.name}")


def loss(subject: TargetSubject) -> None:
    _loss(subject.make(), make_hidden())


def summed(subject: TargetSubject) -> None:
    """The same rows given twice; the method divides by their number."""
    hidden = make_hidden()
    view = hidden.view
    assert view.mask_RN is not None and view.keys_R is not None  # as every view with hidden tokens
    mask_RN, keys_R = (torch.cat([x, x]) for x in (view.mask_RN, view.keys_R))
    again = View.of(torch.cat([view.x_RTJC, view.x_RTJC])[:, None])
    again = replace(again, mask_RN=mask_RN, masked_I=mask_RN.flatten().nonzero()[:, 0], keys_R=keys_R)
    student_RND, teacher_RND = (torch.cat([x, x]) for x in (hidden.student_RND, hidden.teacher_RND))
    twice = replace(hidden, view=again, student_RND=student_RND, teacher_RND=teacher_RND)
    one, both = (float(_loss(subject.make(), each).detach()) for each in (hidden, twice))
    if not abs(both - 2 * one) <= SUMMED * abs(2 * one):
        look = "the sum over rows, which the method divides by their number: a mean would be divided twice"
        raise Failed("twice the loss for the same rows twice", f"{both:.4g}, not {2 * one:.4g}", look)


def nothing_hidden(subject: TargetSubject) -> None:
    value = _loss(subject.make(), make_hidden(share=0.0))
    if value.detach() != 0:
        raise Failed("a loss of 0 where nothing is hidden", f"{value:.4g}", "the sum over hidden tokens")
    if not value.requires_grad:
        look = "an early return: sum over no tokens instead, so that every process has the same graph"
        raise Failed("a loss with a gradient also where nothing is hidden", "it has none", look)


def gradients(subject: TargetSubject) -> None:
    target, hidden = subject.make(), make_hidden()
    _loss(target, hidden).backward()
    student = hidden.student_RND.grad
    if student is None or not student.any() or not torch.isfinite(student).all():
        raise Failed(
            "a finite gradient for the student's tokens", "none", "a detach, or no_grad, on the student's side"
        )
    for name, parameter in target.named_parameters():
        if parameter.requires_grad and parameter.grad is None:
            look = "a layer that is built and not used; or an EMA twin: skelbench.models.ema.ema_copy holds it still"
            raise Failed("a gradient for every parameter that is trained", f"{name} gets none", look)


def learns(subject: TargetSubject) -> None:
    target, hidden = subject.make(), make_hidden()
    trained = [p for p in target.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam([*trained, hidden.student_RND], lr=1e-2)
    values = []
    for _ in range(60):
        optimizer.zero_grad()
        fresh = replace(hidden)  # without what was cached of the tokens before
        value = _loss(target, fresh)
        value.backward()
        optimizer.step()
        values.append(float(value.detach()))
    if not values[-1] < values[0]:
        seen = f"{values[0]:.4g} at first, {values[-1]:.4g} after 60 steps of Adam"
        raise Failed("a loss that falls when it is minimised", seen, "its sign, and what it depends on")


def after(subject: TargetSubject) -> None:
    target = subject.make()
    twins = {name: p.detach().clone() for name, p in target.named_parameters() if not p.requires_grad}
    _loss(target, make_hidden()).backward()
    with torch.no_grad():
        for p in target.parameters():
            if p.requires_grad:
                p.add_(0.1)
    target.after_step(make_step(), 0.5)
    still = [name for name, p in target.named_parameters() if name in twins and torch.equal(p, twins[name])]
    if twins and len(still) == len(twins):
        look = "after_step: ema_update(self.teacher_head, self.head, momentum)"
        raise Failed("parameters without gradient that follow in after_step", f"{still[0]} stays", look)
    _loss(target, make_hidden())


def state(subject: TargetSubject) -> None:
    first, other = subject.make(), subject.make(seed=5)
    for each in (first, other):
        _loss(each, make_hidden(seed=1))
        each.after_step(make_step(), 0.9)
    other.load_state_dict(first.state_dict())
    values: list[float] = [float(_loss(each, make_hidden()).detach()) for each in (first, other)]
    if abs(values[0] - values[1]) > 1e-6 * max(1.0, abs(values[0])):
        look = "what is neither parameter nor buffer but changes: register it as a buffer"
        raise Failed("the same loss from a state that was saved and loaded", f"{values[0]:.6g}, {values[1]:.6g}", look)


def keyed(subject: TargetSubject) -> None:
    values = []
    for seed in (0, 1):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            values.append(float(_loss(subject.make(), make_hidden()).detach()))
    if values[0] != values[1]:
        look = "random numbers: hidden.step.generator or hidden.step.uniform, so that a resumed run repeats them"
        raise Failed("the same loss whatever the global generator", f"{values[0]:.6g} and {values[1]:.6g}", look)


def bf16(subject: TargetSubject) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _loss(subject.make(), make_hidden(dtype=torch.bfloat16)).float().backward()


def several_masks(subject: TargetSubject) -> None:
    target: Callable[[Hidden], Tensor] = partial(_loss, subject.make())
    for share in (0.01, 0.5, 1.0):
        target(make_hidden(share))


CHECKS: tuple[Check[TargetSubject], ...] = (
    announcement(summary="which `skelbench plugins list` shows"),
    Check("form", "it derives from MaskedTarget and its roles name what it has", form),
    Check("settings", "its settings survive a record, and unknown ones are refused", settings),
    Check("loss", "it returns a finite scalar", loss),
    Check("summed", "the same rows twice make twice the loss", summed),
    Check("nothing-hidden", "where nothing is hidden the loss is 0 and has a gradient", nothing_hidden),
    Check("any-mask", "few hidden tokens or all of them make a finite loss", several_masks),
    Check("gradients", "the student and every trained parameter get a gradient", gradients),
    Check("learns", "the loss can be minimised", learns),
    Check("after-step", "EMA twins follow after a step", after),
    Check("state", "its state dict holds all that changes", state),
    Check("keyed", "no random number comes from the global generator", keyed),
    Check("bf16", "tokens in bfloat16 make a finite loss", bf16),
)


def kit(host: Host, descriptor: Descriptor) -> tuple[TargetSubject, Sequence[Check[TargetSubject]]]:
    """What is checked of a target, and its checks."""
    return TargetSubject(host, descriptor), CHECKS
