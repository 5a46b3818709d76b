"""Counting without computing: copies of modules on the meta device, and PyTorch's FLOP counter without fused kernels.

On the meta device, attention and recurrent layers become matrix products that every version of the counter knows.
PyTorch finds shapes in Python there, and loads its compiler for it, for seconds: :func:`meta_result` is faster.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any, TypeVar

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

Module = TypeVar("Module", bound=nn.Module)
aten = torch.ops.aten
_ROWWISE = {aten._softmax, aten._safe_softmax, aten._log_softmax, aten._softmax_backward_data,
            aten._log_softmax_backward_data}  # fmt: skip
_BOOLEAN = {aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge, aten.isnan, aten.isinf, aten.isfinite,
            aten.logical_and, aten.logical_or, aten.logical_not, aten.logical_xor}  # fmt: skip
_PRODUCTS = {aten.mm, aten.bmm, aten.addmm}
_SUMS = {aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.linalg_vector_norm.default,
         aten.amax.default}  # fmt: skip
_WEIGHT_NORMS = {aten._weight_norm_interface.default: (0, 1), aten._weight_norm_interface_backward.default: (1, 2)}
"""Operators of weight norm -> positions of the tensors with the shapes of both results."""
_OF_NORMS = {aten.native_layer_norm_backward.default: (5, 6), aten.native_batch_norm_backward.default: (2, 2)}
"""Backward passes of norms -> positions of weight and bias, or of similar tensors, among the arguments."""


def on_meta(module: Module) -> Module:
    """A copy of ``module`` on the meta device: shapes, ties and ``requires_grad`` kept, no memory taken."""
    memo: dict[int, object] = {}
    for parameter in module.parameters():
        memo[id(parameter)] = nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
    for buffer in module.buffers():
        memo[id(buffer)] = torch.empty_like(buffer, device="meta")
    return copy.deepcopy(module, memo)


@contextmanager
def countable() -> Iterator[FlopCounterMode]:
    """Gradients on, unfused attention and native recurrent layers; yields a ``FlopCounterMode`` that is not active.

    Fused CPU attention is not counted before torch 2.15; oneDNN's LSTM and fused transformer layers never are.
    """
    mkldnn: Any = torch.backends.mkldnn  # torch types `enabled` as the descriptor behind it
    enabled = mkldnn.enabled
    mkldnn.enabled = False
    try:
        kernels = {aten.convolution_backward: _convolution_backward}
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), _AllFrames():
            yield FlopCounterMode(display=False, custom_mapping=kernels)
    finally:
        mkldnn.enabled = enabled


def _convolution_backward(
    grad_shape: list[int], x_shape: list[int], w_shape: list[int], bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, output_mask: list[bool], out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """Products of a backward pass: as many as forward for each gradient; PyTorch's formula ignores groups."""
    return conv_flop_count(x_shape, w_shape, grad_shape, transposed) * (bool(output_mask[0]) + bool(output_mask[1]))


_empty = partial(torch.empty, device="meta")


def meta_result(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Result of a frequent operator of tensors on the meta device; None for any other operator or device."""
    tensors = [x for x in args if isinstance(x, Tensor)] or args[:1] and args[0]
    if not isinstance(tensors, list) or not tensors or not all(isinstance(x, Tensor) and x.is_meta for x in tensors):
        return None
    first, packet = tensors[0], func._overloadpacket
    if packet in _PRODUCTS:
        return kwargs.get("out", _empty((*tensors[-2].shape[:-1], tensors[-1].shape[-1]), dtype=first.dtype))
    if func is aten.native_batch_norm.default:
        channels = first.shape[1:2]
        return tuple(_empty(shape, dtype=first.dtype) for shape in (first.shape, channels, channels))
    if func is aten.native_layer_norm.default:
        rows = first.shape[: -len(args[1])] + (1,) * len(args[1])
        return tuple(_empty(shape, dtype=first.dtype) for shape in (first.shape, rows, rows))
    if func in _OF_NORMS:
        inputs = zip((args[1], *(args[i] for i in _OF_NORMS[func])), args[-1], strict=True)
        return tuple(_empty(x.shape, dtype=x.dtype) if needed else None for x, needed in inputs)
    if func in _WEIGHT_NORMS:
        return tuple(_empty(tensors[i].shape, dtype=first.dtype) for i in _WEIGHT_NORMS[func])
    if packet in (aten.cat, aten.stack):
        dim = args[1] if len(args) > 1 else 0
        parts = [x.unsqueeze(dim) for x in tensors] if packet is aten.stack else tensors
        shape = list(parts[0].shape)
        shape[dim] = sum(x.shape[dim] for x in parts)
        return _empty(shape, dtype=first.dtype)
    if func in _SUMS:  # a vector norm has its order before the dimensions
        dims, keep = (*args[1 + (packet is aten.linalg_vector_norm) :], None, False)[:2]
        summed = {dim % max(1, first.dim()) for dim in dims or range(first.dim())}
        shape = [1 if i in summed else size for i, size in enumerate(first.shape) if keep or i not in summed]
        return _empty(shape, dtype=kwargs.get("dtype") or (first.dtype if first.is_floating_point() else torch.int64))
    if packet is aten.repeat and len(args[1]) == first.dim():
        return _empty([size * times for size, times in zip(first.shape, args[1], strict=True)], dtype=first.dtype)
    if packet is aten.index and len(args[1]) == 1 and args[1][0].dtype != torch.bool:
        return _empty([*args[1][0].shape, *first.shape[1:]], dtype=first.dtype)
    if packet in (aten.select_backward, aten.slice_backward):
        return _empty(args[1], dtype=first.dtype)
    if packet in (aten.zeros_like, aten.ones_like, aten.index_put):
        return _empty(first.shape, dtype=kwargs.get("dtype") or first.dtype)
    if func._schema.is_mutable:
        in_place = func._schema.name.endswith("_") and torch.Tag.inplace_view not in func.tags
        return first if in_place and args[0] is first else None
    if not (torch.Tag.pointwise in func.tags or packet in _ROWWISE):
        return None
    dtype = torch.bool if packet in _BOOLEAN else reduce(torch.promote_types, (x.dtype for x in tensors))
    return _empty(numpy.broadcast_shapes(*(x.shape for x in tensors)), dtype=dtype)  # torch's loads sympy


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
    ways, tensors = 1 + bidirectional, 4 if has_biases else 2
    if len(weights) != depth * ways * tensors:
        return None
    products = zip(weights[::tensors], weights[1::tensors], strict=True)
    x_TBF, ends_NBH = (x.transpose(0, 1) if batch_first else x), []
    for start_WBH in (states[0] if lstm else states).split(ways):
        outputs = [_recurrent(x_TBF, start_BH, *next(products)) for start_BH in start_WBH]
        ends_NBH += [out_TBH[-1] for out_TBH in outputs]
        x_TBF = torch.cat(outputs, 2)
    ends = [torch.stack(ends_NBH)] * (2 if lstm else 1)
    return (x_TBF.transpose(0, 1) if batch_first else x_TBF), *ends


def _recurrent(x_TBF: Tensor, start_BH: Tensor, of_input_GF: Tensor, of_state_GH: Tensor) -> Tensor:
    """[T, B, H] with the products of one layer in one direction: of every frame, and of the state before it."""
    width = of_state_GH.shape[1]
    state_TBH = F.linear(x_TBF, of_input_GF)[..., :width]
    before_TBG = torch.cat([F.linear(start_BH, of_state_GH)[None], F.linear(state_TBH[:-1], of_state_GH)])
    return state_TBH + before_TBG[..., :width]
