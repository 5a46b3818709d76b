"""Counting without computing: shape-only copies of modules, and PyTorch's FLOP counter set so that it sees everything.

On the meta device every operator runs on shapes alone, so counting costs nothing whatever the size of the model, and
fused kernels (attention, recurrent layers) fall apart into matrix products that every version of the counter knows.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

Module = TypeVar("Module", bound=nn.Module)


def on_meta(module: Module) -> Module:
    """A copy of ``module`` on the meta device: shapes, ties and ``requires_grad`` kept, no memory taken."""
    memo: dict[int, object] = {}
    for parameter in module.parameters():
        memo[id(parameter)] = nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
    for buffer in module.buffers():
        memo[id(buffer)] = torch.empty_like(buffer, device="meta")
    return copy.deepcopy(module, memo)


@contextmanager
def flop_counter() -> Iterator[FlopCounterMode]:
    """``FlopCounterMode`` with gradients on, unfused attention and native recurrent layers.

    Fused CPU attention is not counted before torch 2.15, oneDNN's LSTM and the fused transformer layers of evaluation
    without gradients never are.
    """
    mkldnn: Any = torch.backends.mkldnn  # torch types `enabled` as the descriptor behind it
    enabled = mkldnn.enabled
    mkldnn.enabled = False
    try:
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            yield counter
    finally:
        mkldnn.enabled = enabled
