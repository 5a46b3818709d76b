"""A subclass of a base class of ours that brings too little is told what it has to bring, and where."""

import pytest
import torch

from skelbench.evaluation.native import NativeLinear
from skelbench.evaluation.robustness import DegradedLinear
from skelbench.models.two_branch import TwoBranchEncoder
from skelbench.plugin.plugin_errors import Mistake


class Probe(NativeLinear):
    """Neither rate nor passes."""


class Degraded(DegradedLinear):
    """No conditions."""


class Encoder(TwoBranchEncoder):
    """No branches."""

    def __init__(self):
        torch.nn.Module.__init__(self)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: Probe().rate(0.5), "class Probe has no rate; give it one: def rate(self, epoch)"),
        (lambda: Probe().passes(None, 0, "cpu", None), "class Probe has no passes; give it one: def passes(self, "),
        (lambda: Degraded().measures, "class Degraded has no conditions; give it one: def conditions(self)"),
        (lambda: Encoder().branches(torch.zeros(1)), "class Encoder has no branches; give it one: def branches(self, "),
    ],
)
def test_what_is_lacking_is_said(ask, said):
    with pytest.raises(Mistake) as error:
        ask()
    assert said in str(error.value)
