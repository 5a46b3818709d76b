"""A loss of the global batch has, by ``step.gather(x, gradient=True)``, on two processes the gradient of one."""

import pytest
import torch
from small import on_two_processes
from torch import nn
from torch.nn import functional as F

from skelbench.core import distributed
from skelbench.methods.contract import Step
from skelbench.models.decorrelation import covariance, variance_hinge

CLIPS, WIDTH = 6, 5


def simclr(first_BD, second_BD):
    """SimCLR's loss: every clip of the batch is a negative of every other clip."""
    logits = F.normalize(first_BD) @ F.normalize(second_BD).T / 0.2
    target = torch.arange(len(logits))
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def vicreg(first_BD, second_BD):
    """VICReg's loss: invariance, variance and covariance over the batch."""
    apart = sum(25 * variance_hinge(x) + covariance(x) for x in (first_BD, second_BD))
    return 25 * F.mse_loss(first_BD, second_BD) + apart


LOSSES = {"simclr": simclr, "vicreg": vicreg}


def gradients(rows):
    """Gradient of each loss by a layer's weight, averaged as in DDP, in a process with the clips ``rows``."""
    step = Step(0, 1, 0.0, torch.Generator(), lambda keys, n, op=0: None, distributed.world())
    torch.manual_seed(0)
    views, found = torch.randn(2, CLIPS, WIDTH), {}
    for name, loss in LOSSES.items():
        layer = nn.Linear(WIDTH, 4)
        nn.init.orthogonal_(layer.weight)
        loss(*(step.gather(layer(view[rows]), gradient=True) for view in views)).backward()
        found[name] = distributed.global_sum(layer.weight.grad) / distributed.world()
    return found


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The gradients that each of two processes has, with a third and two thirds of the batch."""
    folder = tmp_path_factory.mktemp("gather")

    def part():
        distributed.start_from_environment("cpu")
        rank = distributed.rank()
        torch.save(gradients([slice(0, 2), slice(2, None)][rank]), folder / f"{rank}.pt")
        distributed.leave()

    on_two_processes(part)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_of_the_global_batch_is_the_same_on_two_processes(name, two):
    whole = gradients(slice(None))[name]
    assert whole.abs().max() > 1e-3
    for each in two:
        torch.testing.assert_close(each[name], whole, rtol=1e-4, atol=1e-6)
