"""Teachers that follow a student by exponential moving average."""

from __future__ import annotations

import copy
from functools import partial
from typing import Literal, TypeVar

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

M = TypeVar("M", bound=nn.Module)


def _stay_in_eval(module: nn.Module, batch_norm: bool, mode: bool = True) -> nn.Module:
    nn.Module.train(module, False)
    for part in module.modules() if batch_norm else ():
        if isinstance(part, _BatchNorm):
            part.train(mode)
    return module


def ema_copy(module: M, batch_norm: Literal["eval", "train"] = "eval") -> M:
    """A deep copy without gradients that stays in eval mode when the module it hangs on is set to train.

    ``batch_norm`` "train": its batch norms train with the module it hangs on, so they normalise by the batch and gather
    running statistics of their own (the key encoder of MoCo, BYOL's target); "eval": they use the student's.

    >>> teacher = ema_copy(nn.Linear(2, 2))
    >>> teacher.weight.requires_grad, teacher.train().training
    (False, False)
    """
    teacher = copy.deepcopy(module).requires_grad_(False)
    # A partial can be copied and pickled with its module.
    object.__setattr__(teacher, "train", partial(_stay_in_eval, teacher, batch_norm == "train"))
    return teacher.train()


@torch.no_grad()
def ema_update(teacher: nn.Module, student: nn.Module, momentum: float) -> None:
    """teacher <- momentum * teacher + (1 - momentum) * student for all parameters.

    Buffers are copied, but for those of parts that the teacher trains itself (batch norms in train mode).

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
        (mine, theirs)
        for part, twin in zip(teacher.modules(), student.modules())
        if not part.training
        for mine, theirs in zip(part.buffers(recurse=False), twin.buffers(recurse=False))
    ]
    if pairs:
        torch._foreach_copy_([mine for mine, _ in pairs], [theirs for _, theirs in pairs])
