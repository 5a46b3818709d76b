"""A GPU that is not there: what would wait for it, or mix devices, is refused; what would not is let through."""

from unittest import mock

import pytest
import torch
from small import MIXED_DEVICES
from torch import nn

from skelbench.evaluation.cost.latency import latency
from skelbench.models.prototype_loss import Sinkhorn, prototype_cross_entropy
from skelbench.testing.check import Failed
from skelbench.testing.fake_cuda import DEVICE, fake_cuda, on_device
from skelbench.views.transfer import Fetched, fetch, read, send, waiting
from skelbench.views.view import View

WAIT = {
    "value": lambda x: float(x.sum()),
    "decision": lambda x: 1 if x.sum() > 0 else 2,
    "list": lambda x: x[0].tolist(),
    "to the host": lambda x: x.cpu(),
    "from the host": lambda x: torch.ones(2).to(DEVICE),
    "number": lambda x: torch.as_tensor(3.0, device=DEVICE),
    "tensor of a list": lambda x: torch.tensor([1, 2], device=DEVICE),
    "index of a list": lambda x: x[:, [0, 1]],
    "index on the host": lambda x: x[torch.arange(2)],
    "value on the host": lambda x: x.index_put_((x.new_zeros(1, dtype=torch.int64),), torch.ones(())),
    "mask": lambda x: x[x > 0],
    "places": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
}
"""By what it is, what waits for the device."""
LET = {
    "number": lambda x: torch.full((), 3.0, device=DEVICE),
    "sent": lambda x: send(torch.ones(2), DEVICE),
    "sent back": lambda x: Fetched(x).wait(),
    "sent index": lambda x: x[:, send(torch.tensor([0, 1]), DEVICE)],
    "filled by a mask": lambda x: x.masked_fill(x > 0, 1.0),
    "read": lambda x: read({"x": x.sum()}),
    "fetched": fetch,
}


@pytest.mark.parametrize("what", WAIT)
def test_what_waits_is_refused_unless_it_is_meant(what):
    with pytest.raises(Failed, match=r"the (host|device) .*test_fake_cuda.py, line \d+"), fake_cuda():
        WAIT[what](torch.empty(4, 3, device=DEVICE))
    with fake_cuda() as gpu, waiting():
        WAIT[what](torch.empty(4, 3, device=DEVICE))
    assert all("test_fake_cuda.py" in line for line in gpu.waits) and gpu.waits


@pytest.mark.parametrize("what", LET)
def test_what_does_not_wait_or_says_so_is_let_through(what):
    with fake_cuda():
        LET[what](torch.empty(4, 3, device=DEVICE))


def test_devices_that_are_mixed_are_refused():
    with pytest.raises(Failed, match=MIXED_DEVICES), fake_cuda():
        torch.empty(3, device=DEVICE) + torch.ones(3)


def test_host_tensors_have_values_and_those_of_the_device_a_dtype():
    with fake_cuda():
        assert torch.arange(4)[torch.tensor([False, True, True, False])].tolist() == [1, 2]
        x = torch.empty(4, 3, device=DEVICE)
        with torch.autocast("cuda", torch.bfloat16):
            assert (x @ x.T).dtype == torch.bfloat16


def test_gradients_are_made_and_the_module_is_left_alone():
    layer = nn.Linear(3, 2)
    with fake_cuda():
        there = on_device(layer)
        there(torch.empty(4, 3, device=DEVICE)).square().mean().backward()
        assert there.weight.grad.shape == (2, 3) and there.weight.grad.device == DEVICE
    assert layer.weight.grad is None and layer.weight.device.type == "cpu"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_prototype_products_are_rounded_in_bf16_alone(precision):
    with fake_cuda(), mock.patch.object(torch, "mm", wraps=torch.mm) as mm:
        z_nD, W_KD, weights_n = (torch.empty(*size, device=DEVICE) for size in ((6, 4), (8, 4), (6,)))
        z_nD.requires_grad_()
        W_KD.requires_grad_()
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            args = z_nD, W_KD, z_nD.detach(), W_KD.detach(), weights_n
            prototype_cross_entropy(*args, teacher_temp=0.04, centering=Sinkhorn()).backward()
        dtypes = {(call.args[0].dtype, call.kwargs.get("out_dtype")) for call in mm.call_args_list}
        assert z_nD.grad.dtype == W_KD.grad.dtype == torch.float32
    assert dtypes == {(torch.bfloat16, torch.float32) if precision == "bf16" else (torch.float32, None)}


def test_a_latency_is_taken_with_the_device_waited_for():
    class Sums(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, view):
            return self.layer(view.x_RTJC)

    waited = []
    with fake_cuda(), mock.patch.object(torch.cuda, "synchronize", waited.append):
        with mock.patch.object(torch.cuda, "get_device_name", str):
            (found,) = latency(
                on_device(Sums()), lambda n: View.of(torch.zeros(n, 1, 2, 5, 3, device=DEVICE)), (2,), 1, 2
            )
    assert found.device == str(DEVICE) and waited == [DEVICE] * 6
