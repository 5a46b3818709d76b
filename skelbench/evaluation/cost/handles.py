"""fvcore handles: multiply-accumulates of every operator that is a matrix product, and of nothing else.

fvcore's own handles miss fused attention and recurrent layers, count norms, and undercount broadcast products.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

Handle = Callable[[list[Any], list[Any]], int]


def _shape(value: Any) -> list[int]:
    return value.type().sizes()


def _product(index: int) -> Handle:
    """MACs of ``out = a @ b`` with ``a`` the input number ``index``: one per output element and summed index."""

    def handle(inputs: list[Any], outputs: list[Any]) -> int:
        return prod(_shape(outputs[0])) * _shape(inputs[index])[-1]

    return handle


def _attention(inputs: list[Any], outputs: list[Any]) -> int:
    """MACs of q k^T and of its product with v; masks and causality are not subtracted."""
    query, key, value = (_shape(x) for x in inputs[:3])
    return prod(_shape(outputs[0])[:-2]) * query[-2] * key[-2] * (query[-1] + value[-1])


def _recurrent(inputs: list[Any], outputs: list[Any]) -> int:
    """MACs of all layers and directions: every weight matrix is used once per time step (padded or packed)."""
    lists = [x for x in inputs if x.node().kind() == "prim::ListConstruct"]
    weights = [shape for shape in map(_shape, lists[-1].node().inputs()) if len(shape) == 2]
    return prod(_shape(inputs[0])[:-1]) * sum(map(prod, weights))


def _cell(inputs: list[Any], outputs: list[Any]) -> int:
    weights = [_shape(x) for x in inputs[2:4]]
    return prod(_shape(inputs[0])[:-1]) * sum(map(prod, weights))


_MOVES = ("alias", "clone", "expand_as", "index_select", "lift_fresh", "movedim", "repeat",
          "repeat_interleave", "unflatten", "view_as")  # fmt: skip
"""Operators that compute nothing and are missing in fvcore's list."""


def matrix_product_handles() -> dict[str, Any]:
    """Operator name -> handle (``None`` = ignored), for ``FlopCountAnalysis.set_op_handle``."""
    from fvcore.nn.jit_handles import conv_flop_count, conv_flop_jit, einsum_flop_jit, get_shape

    def padded_by_name(inputs: list[Any], outputs: list[Any]) -> Any:
        """A convolution with ``padding="same"`` or ``"valid"``."""
        return conv_flop_count(get_shape(inputs[0]), get_shape(inputs[1]), get_shape(outputs[0]))

    handles: dict[str, Any] = {
        **dict.fromkeys(
            ("aten::linear", "aten::matmul", "aten::mm", "aten::bmm", "aten::mv", "aten::dot"), _product(0)
        ),
        **dict.fromkeys(("aten::addmm", "aten::baddbmm", "aten::addmv"), _product(1)),
        **dict.fromkeys(("aten::gru", "aten::lstm", "aten::rnn_tanh", "aten::rnn_relu"), _recurrent),
        **dict.fromkeys(("aten::gru_cell", "aten::lstm_cell", "aten::rnn_tanh_cell", "aten::rnn_relu_cell"), _cell),
        "aten::_convolution": conv_flop_jit,
        "aten::_convolution_mode": padded_by_name,
        "aten::einsum": einsum_flop_jit,
        "aten::scaled_dot_product_attention": _attention,
    }
    handles.update({f"aten::{name}": None for name in _MOVES})
    for kernel in ("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention"):
        handles[f"aten::_scaled_dot_product_{kernel}"] = _attention
    return handles
