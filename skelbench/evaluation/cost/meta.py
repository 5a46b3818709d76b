"""Counting without computing: copies of modules on the meta device, and PyTorch's FLOP counter without fused kernels.

On the meta device, attention and recurrent layers become matrix products that every version of the counter knows.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

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

    Fused CPU attention is not counted before torch 2.15; oneDNN's LSTM and fused transformer layers never are.
    """
    mkldnn: Any = torch.backends.mkldnn  # torch types `enabled` as the descriptor behind it
    enabled = mkldnn.enabled
    mkldnn.enabled = False
    try:
        kernels = {torch.ops.aten.convolution_backward: _convolution_backward}
        counting = FlopCounterMode(display=False, custom_mapping=kernels)
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), _AllFrames(), counting as counter:
            yield counter
    finally:
        mkldnn.enabled = enabled


def _convolution_backward(
    grad_shape: list[int], x_shape: list[int], w_shape: list[int], bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, output_mask: list[bool], out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """Products of the backward pass, one forward pass per needed gradient; PyTorch's formula ignores groups."""
    return conv_flop_count(x_shape, w_shape, grad_shape, transposed) * (bool(output_mask[0]) + bool(output_mask[1]))


class _AllFrames(TorchFunctionMode):
    """Recurrent layers on the meta device as products of all frames at once.

    Frame by frame they are tens of thousands of operators a step, slow even on shapes. The products are the same,
    forward and backward; gates are not counted.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        counted = func in (torch.gru, torch.lstm) and isinstance(args[3], bool) and args[0].is_meta  # else packed
        return (counted and _all_frames(func is torch.lstm, *args)) or func(*args, **(kwargs or {}))


def _all_frames(
    lstm: bool,
    x: Tensor,
    states: Any,
    weights: list[Tensor],
    has_biases: bool,
    depth: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...] | None:
    """Result of ``torch.gru`` and ``torch.lstm``, in shape; None for projected states."""
    ways, gates = 1 + bidirectional, 4 if has_biases else 2
    if len(weights) != depth * ways * gates:
        return None
    products = zip(weights[::gates], weights[1::gates], strict=True)
    x_TBF, ends_NBH = (x.transpose(0, 1) if batch_first else x), []
    for start_WBH in (states[0] if lstm else states).split(ways):
        products_of = [_recurrent(x_TBF, start_BH, *next(products)) for start_BH in start_WBH]
        ends_NBH += [out_TBH[-1] for out_TBH in products_of]
        x_TBF = torch.cat(products_of, 2)
    ends = [torch.stack(ends_NBH)] * (2 if lstm else 1)
    return (x_TBF.transpose(0, 1) if batch_first else x_TBF), *ends


def _recurrent(x_TBF: Tensor, start_BH: Tensor, of_input_GF: Tensor, of_state_GH: Tensor) -> Tensor:
    """[T, B, H] with the products of one layer in one direction: of every frame, and of the state before it."""
    width = of_state_GH.shape[1]
    state_TBH = F.linear(x_TBF, of_input_GF)[..., :width]
    before_TBG = torch.cat([F.linear(start_BH, of_state_GH)[None], F.linear(state_TBH[:-1], of_state_GH)])
    return state_TBH + before_TBG[..., :width]
