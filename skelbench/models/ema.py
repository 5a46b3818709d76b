"""Teachers that follow a student by exponential moving average."""

from __future__ import annotations

import copy
from functools import partial
from typing import Literal, TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


def _stay_in_eval(module: nn.Module, mode: bool = True) -> nn.Module:
    return nn.Module.train(module, False)


def ema_copy(module: M, mode: Literal["eval", "train"] = "eval") -> M:
    """Return a deep copy without gradients.

    ``mode`` "eval": the copy always stays in eval mode, and its batch norms use the student's statistics (for a
    teacher that is evaluated too). "train": the copy follows its parent's mode, so in training its batch norms
    normalize by the batch and gather their own statistics, and dropout draws separately for it (the key encoder of
    MoCo, BYOL's target).

    >>> teacher = ema_copy(nn.Linear(2, 2))
    >>> teacher.weight.requires_grad, teacher.train().training
    (False, False)
    """
    teacher = copy.deepcopy(module).requires_grad_(False)
    if mode == "eval":
        # A partial can be copied and pickled with its module.
        object.__setattr__(teacher, "train", partial(_stay_in_eval, teacher))
    return teacher.train()


@torch.no_grad()
def ema_update(teacher: nn.Module, student: nn.Module, momentum: float) -> None:
    """teacher <- momentum * teacher + (1 - momentum) * student for all parameters.

    Buffers are copied, except in parts that the teacher trains itself (batch norms in train mode).

    >>> student = nn.Linear(1, 1, bias=False)
    >>> teacher = ema_copy(student)
    >>> with torch.no_grad():
    ...     _ = student.weight.fill_(1.0), teacher.weight.fill_(0.0)
    >>> ema_update(teacher, student, momentum=0.9)
    >>> round(float(teacher.weight), 6)
    0.1
    """
    torch._foreach_lerp_(list(teacher.parameters()), [p.detach() for p in student.parameters()], 1.0 - momentum)
    pairs = [
        (own, source)
        for part, twin in zip(teacher.modules(), student.modules())
        if not part.training
        for own, source in zip(part.buffers(recurse=False), twin.buffers(recurse=False))
    ]
    if pairs:
        torch._foreach_copy_([own for own, _ in pairs], [source for _, source in pairs])
