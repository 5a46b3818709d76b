"""Counting on shapes: recurrent layers as products of all frames at once, gradients of grouped convolutions."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from skelbench.evaluation.cost import meta


def counted(layer, x):
    """FLOPs of the forward pass, of both, and the shapes that come out."""
    with meta.countable() as counter, counter:
        out, states = layer(x)
        forward = counter.get_total_flops()
        out.sum().backward()
    states = states if isinstance(states, tuple) else (states,)
    return forward, counter.get_total_flops(), out.shape, [state.shape for state in states]


@pytest.mark.parametrize("learned", [True, False], ids=["of what is learned", "of clips"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"num_layers": 3, "bidirectional": True, "batch_first": True}, {"num_layers": 2, "bias": False}],
    ids=["plain", "deep", "without biases"],
)
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_counting_all_frames_at_once_equals_frame_by_frame(kind, settings, learned, monkeypatch):
    layer, x = kind(7, 5, **settings).to("meta"), torch.empty(6, 4, 7, device="meta", requires_grad=learned)
    found = counted(layer, x)
    monkeypatch.setattr(meta, "_AllFrames", nullcontext)
    assert found == counted(layer, x)


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.ConvTranspose1d])
@pytest.mark.parametrize("groups", [1, 3, 12])
def test_gradients_of_grouped_convolutions_cost_as_much_as_forward(kind, groups):
    layer, x = kind(12, 24, 5, groups=groups, device="meta"), torch.zeros(2, 12, 9, device="meta", requires_grad=True)
    with meta.countable() as counter, counter:
        y = layer(x)
        forward = counter.get_total_flops()
        y.sum().backward()
    steps = x.shape[-1] if kind is nn.ConvTranspose1d else y.shape[-1]
    assert forward == 2 * 2 * 24 * steps * 5 * 12 / groups
    assert counter.get_total_flops() == 3 * forward


def test_shapes_of_reductions_and_gathers_are_those_of_pytorch():
    x, index = torch.ones(2, 3, 4), torch.tensor([1, 0, 1])
    aten = torch.ops.aten
    for func, *args in (
        (aten.sum.dim_IntList, x, [-1], True), (aten.sum.default, x > 0), (aten.amax.default, x, [0]),
        (aten.mean.dim, x, [0, 2]), (aten.repeat.default, x, [2, 1, 3]), (aten.index.Tensor, x, [index]),
        (aten.select_backward.default, x, [2, 5, 3, 4], 1, 0), (aten.exp_.default, x),
    ):  # fmt: skip
        on_meta = tree_map_only(torch.Tensor, lambda x: x.to("meta"), args)
        result, expected = meta.meta_result(func, on_meta, {}), func(*args)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
