"""A training step on a GPU, without a GPU: fake tensors have shapes, dtypes and a CUDA device, and no values.

PyTorch's ``FakeTensorMode`` raises if one operation gets tensors of two devices, as a GPU would. Backward passes are
not followed.
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from skelbench.plugin.plugin_errors import Mistake
from skelbench.testing.check import Failed, Skipped, line_of
from skelbench.training.loop import Trainer
from skelbench.views.view import View

DEVICE = torch.device("cuda", 0)
EXPECTED = "every tensor on the device of the views"
ADVICE = "make tensors with device=x.device, and keep constants as buffers (register_buffer)"
_MIXED = re.compile("two different devices|on the same device|on the CPU")


def on_fake_device(
    module: nn.Module, views: Mapping[str, View], call: Callable[[Any, dict[str, View]], object]
) -> None:
    """Run ``call(module, views)`` with copies of both on :data:`DEVICE`; plain tensor attributes stay where they are.

    Raises:
        Failed: an operation mixes devices; with file and line.
        Skipped: an operation needs values, for example ``nonzero`` or ``.item()``.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    log = logging.getLogger("torch._subclasses.fake_tensor")
    disabled, log.disabled = log.disabled, True
    try:
        with mode:
            memo: dict[int, Any] = {id(p): nn.Parameter(_fake(p), p.requires_grad) for p in module.parameters()}
            memo |= {id(buffer): _fake(buffer) for buffer in module.buffers()}
            fake_views = {name: _fake_view(view) for name, view in views.items()}
        twin = copy.deepcopy(module, memo)
        with mode, mock.patch.object(Tensor, "pin_memory", lambda x: x):
            call(twin, fake_views)
    except (RuntimeError, Mistake) as error:
        cause = error.__cause__ or error
        message = str(cause).strip().partition("\n")[0]
        if _MIXED.search(message):
            raise Failed(EXPECTED, f"{message}; {ADVICE}", line_of(cause)) from error
        raise Skipped(f"{line_of(cause)} cannot run without values: {message}") from error
    finally:
        log.disabled = disabled


def check_step(training: Trainer) -> None:
    """Forward pass and ``after_step`` of each turn on the fake device; see :func:`on_fake_device`."""

    def uniform(keys_R: Tensor, n: int, op: int = 0) -> Tensor:
        return torch.empty(len(keys_R), n, device=keys_R.device)

    def step(method: Any, views: dict[str, View]) -> None:
        for turn in method.turns:
            info = replace(training.step_info(1, turn), uniform=uniform, watch=lambda name, key, view=None: None)
            loss = method(views, info)["loss"]
            if loss.device != DEVICE:
                raise Failed("the loss on the device of the views", f"it is on {loss.device}", ADVICE)
        with torch.no_grad():
            method.after_step(info)

    on_fake_device(training.method, training.views(1), step)


def _fake(x: Tensor) -> Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=DEVICE)


def _fake_view(view: View) -> View:
    tensors: dict[str, Any] = {name: _fake(x) for name, x in vars(view).items() if isinstance(x, Tensor)}
    return replace(view, **tensors)
