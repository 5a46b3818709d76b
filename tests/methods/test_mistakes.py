"""Missing parts of a plugin's file give one error that names the class."""

import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.methods import Method
from skelbench.views import Augment


class Mine(Method):
    def __init__(self, step):
        super().__init__(None, None)
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.step = step

    def training_step(self, views, step):
        return self.step(self.weight)


@pytest.mark.parametrize(
    "step,sentence",
    [
        (lambda weight: {"los": weight.sum()}, r"Mine.training_step: returned no 'loss' but a dict of \['los'\]"),
        (lambda weight: {"loss": weight}, r"returned a tensor of shape \[2\] as 'loss'"),
        (lambda weight: {"loss": weight.detach().sum()}, "depends on no trainable parameter"),
    ],
)
def test_a_step_without_a_loss_is_an_error(step, sentence):
    with pytest.raises(SkelbenchError, match=sentence):
        Mine(step)({}, None)
    assert Mine(lambda weight: {"loss": weight.sum()})({}, None)["loss"] == 2


def test_a_method_without_views_or_step():
    with pytest.raises(SkelbenchError, match="class Mine has no views"):
        Mine.views(None, None)
    with pytest.raises(SkelbenchError, match="class Method has no training_step"):
        Method(None, None)({}, None)


def test_a_component_without_kind():
    class Jitter(Augment):
        amount: float = 0.1

    with pytest.raises(SkelbenchError, match="class Jitter of the augmentations has no kind; add one"):
        Jitter(amount=0.2)
