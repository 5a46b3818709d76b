"""Mixed devices are found without a GPU; operations that need values skip the check."""

import pytest
import torch
from torch import nn

from skelbench.testing import Failed, Skipped
from skelbench.testing.device import DEVICE, on_fake_device


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("scale", torch.ones(2))
        self.plain = torch.ones(2)


def test_parameters_and_buffers_are_on_the_device():
    layer = Layer()

    def call(module, views):
        y = module.linear(torch.empty(4, 3, device=DEVICE)) * module.scale
        assert y.device == DEVICE and module.plain.device.type == "cpu"

    on_fake_device(layer, {}, call)
    assert layer.linear.weight.device.type == "cpu"


def test_a_plain_tensor_stays_on_the_host_and_is_found():
    with pytest.raises(Failed, match="device.*register_buffer.*test_device.py, line"):
        on_fake_device(Layer(), {}, lambda module, views: module.linear.weight[:, 0] * module.plain)


@pytest.mark.parametrize("needs_values", [lambda x: x.nonzero(), lambda x: float(x.sum())])
def test_an_operation_that_needs_values_is_skipped(needs_values):
    with pytest.raises(Skipped, match="cannot run without values"):
        on_fake_device(Layer(), {}, lambda module, views: needs_values(module.scale))
