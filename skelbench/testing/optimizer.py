"""Checks of optimisers, driven as the training loop drives them: rates and decay of every group set before a step."""

from __future__ import annotations

import io

import torch
from torch import nn

from skelbench.models.optim.optimizers import Optimizer
from skelbench.testing.check import Check, Failed
from skelbench.testing.component import ComponentSubject, component_checks, component_kit

LR = 1e-2
STEPS = 200
LARGER = 100.0
"""By what gradients are multiplied to see whether steps follow their size."""


def made(subject: ComponentSubject, weight_decay: float = 0.0) -> tuple[nn.ParameterDict, torch.optim.Optimizer]:
    """A matrix and a vector in groups of their own, with keys as the loop gives them, and the optimiser of both."""
    generator = torch.Generator().manual_seed(0)
    parameters = nn.ParameterDict({"matrix": torch.randn(6, 5, generator=generator), "vector": torch.ones(5)})
    groups = [
        {"params": [parameters["matrix"]], "wd_scale": 1.0},
        {"params": [parameters["vector"]], "wd_scale": 0.0, "lr_scale": 0.5, "clip": "head"},
    ]
    optimizer = subject.make().build(groups, LR, weight_decay)
    if not isinstance(optimizer, torch.optim.Optimizer):
        look = "what build returns"
        raise Failed("build returns a torch.optim.Optimizer", f"a {type(optimizer).__name__}", look)
    return parameters, optimizer


def step(
    parameters: nn.ParameterDict,
    optimizer: torch.optim.Optimizer,
    lr: float = LR,
    weight_decay: float = 0.0,
    scale: float = 1.0,
) -> None:
    """One step down the bowl whose floor is at the origin; ``scale``: of the gradient."""
    for group in optimizer.param_groups:
        group["lr"], group["weight_decay"] = lr, weight_decay * group.get("wd_scale", 1.0)
    (scale * sum(p.square().sum() / 2 for p in parameters.values())).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _copy(parameters: nn.ParameterDict) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in parameters.items()}


def moves(subject: ComponentSubject) -> None:
    parameters, optimizer = made(subject)
    before = _copy(parameters)
    for _ in range(STEPS):
        step(parameters, optimizer)
    for name, p in parameters.items():
        if not torch.isfinite(p).all():
            raise Failed("finite parameters", f"{name} is not after {STEPS} steps", "step of the optimiser")
        if not p.norm() < 0.9 * before[name].norm():
            seen = f"{name} went from {before[name].norm():.3f} to {p.norm():.3f} in {STEPS} steps at {LR}"
            raise Failed("parameters that go down the slope", seen, "the sign and the size of a step")


def rates(subject: ComponentSubject) -> None:
    parameters, optimizer = made(subject)
    before = _copy(parameters)
    step(parameters, optimizer, lr=0.0)
    if moved := [name for name, p in parameters.items() if not torch.equal(p, before[name])]:
        look = 'group["lr"], which is set before every step: read it in step, not in __init__'
        raise Failed("no move at a learning rate of 0", f"{moved[0]} moved", look)


def keys(subject: ComponentSubject) -> None:
    _, optimizer = made(subject)
    for place, (name, value) in enumerate([("wd_scale", 1.0), ("lr_scale", 0.5)]):
        if len(optimizer.param_groups) != 2 or optimizer.param_groups[place].get(name) != value:
            look = "param_groups: hand groups on as they came"
            raise Failed("groups that keep what they say", f"{name} of group {place} is lost", look)


def decay(subject: ComponentSubject) -> None:
    parameters, optimizer = made(subject, weight_decay=0.5)
    before = _copy(parameters)
    step(parameters, optimizer, weight_decay=0.5, scale=0.0)
    if not parameters["matrix"].norm() < before["matrix"].norm():
        look = 'group["weight_decay"], which is set before every step'
        raise Failed("weights that shrink by weight decay where the gradient is 0", "they do not", look)
    if not torch.equal(parameters["vector"], before["vector"]):
        look = 'group["weight_decay"]: 0 for biases and norms'
        raise Failed("no decay of a group whose weight_decay is 0", "it moved", look)


def held(subject: ComponentSubject) -> None:
    parameters, optimizer = made(subject, weight_decay=0.5)
    step(parameters, optimizer)
    before = _copy(parameters)
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.5
    parameters["matrix"].square().sum().backward()
    optimizer.step()
    if not torch.equal(parameters["vector"], before["vector"]):
        look = "parameters whose grad is None: skip them"
        raise Failed("a parameter without a gradient stays still", "it moved", look)


def state(subject: ComponentSubject) -> None:
    parameters, optimizer = made(subject)
    for _ in range(3):
        step(parameters, optimizer)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    twins, other = made(subject)
    with torch.no_grad():
        for name, twin in twins.items():
            twin.copy_(parameters[name])
    other.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(2):
        step(parameters, optimizer)
        step(twins, other)
    for name, twin in twins.items():
        if not torch.equal(twin, parameters[name]):
            look = "state_dict: all that a step remembers belongs into self.state or param_groups"
            raise Failed("a stopped run that continues as if it had not been", f"{name} differs", look)


def adaptive(subject: ComponentSubject) -> None:
    lengths = []
    for scale in (1.0, LARGER):
        parameters, optimizer = made(subject)
        before = _copy(parameters)
        step(parameters, optimizer, scale=scale)
        lengths.append(float((parameters["matrix"].detach() - before["matrix"]).norm()))
    grew = lengths[1] / max(lengths[0], 1e-12)
    if subject.cls.adaptive and grew > 2:
        look = "adaptive, which must be False"
        raise Failed(
            "steps as long for gradients of any size, as adaptive = True says", f"{grew:.0f} times longer", look
        )
    if not subject.cls.adaptive and grew < 2:
        seen = f"gradients {LARGER:.0f} times as large make steps {grew:.2f} times as long"
        look = "adaptive = True, by which presets know that their learning rate suits it"
        raise Failed("steps that follow the size of the gradient, or adaptive = True", seen, look)


CHECKS = component_checks(
    Optimizer,
    Check("moves", "steps go down the slope", moves),
    Check("rates", "the learning rate of a group is read at every step", rates),
    Check("keys", "groups keep what they say", keys),
    Check("decay", "weight decay shrinks what decays, and nothing else", decay),
    Check("held", "a parameter without a gradient stays still", held),
    Check("state", "a step after its state was saved and loaded is the same", state),
    Check("adaptive", "it says rightly whether steps are scaled by the size of gradients", adaptive),
)
kit = component_kit(Optimizer, CHECKS)
