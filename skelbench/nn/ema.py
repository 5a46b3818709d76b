"""Teachers that follow a student by exponential moving average."""

from __future__ import annotations

import copy
from functools import partial
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


def _stay_in_eval(module: nn.Module, mode: bool = True) -> nn.Module:
    return nn.Module.train(module, False)


def ema_copy(module: M) -> M:
    """A deep copy without gradients that stays in eval mode when the module it hangs on is set to train."""
    teacher = copy.deepcopy(module).requires_grad_(False).eval()
    teacher.train = partial(_stay_in_eval, teacher)  # a partial can be copied and pickled with its module
    return teacher


@torch.no_grad()
def ema_update(teacher: nn.Module, student: nn.Module, momentum: float) -> None:
    """teacher <- momentum * teacher + (1 - momentum) * student for all parameters; buffers are copied."""
    torch._foreach_lerp_(list(teacher.parameters()), [p.detach() for p in student.parameters()], 1.0 - momentum)
    buffers = list(teacher.buffers())
    if buffers:
        torch._foreach_copy_(buffers, list(student.buffers()))
