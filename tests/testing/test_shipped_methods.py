"""Every shipped method passes the checks of methods, and a GPU gives what the CPU gives."""

import pytest
import torch
from small import METHODS

from skelbench.testing import parametrize_with_checks

CHECKS = parametrize_with_checks([*METHODS, "untrained", "raw"], kind="methods")
ELSEWHERE = "-processes"
"""Two and three processes of every method, with uneven shares besides: tests/train/test_ranks.py."""


@pytest.mark.parametrize("check", [each for each in CHECKS.args[1] if not each.id.endswith(ELSEWHERE)])
def test_a_method_is_as_it_should_be(check):
    check()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", METHODS)
def test_a_gpu_step_agrees_with_the_cpu(name, trainer):
    """Same clips, draws and weights: the losses of the first steps agree to float32 rounding."""

    def losses(device):
        training = trainer(name, device=device)
        return [float(training.train_step(step, training.views(step))["loss"]) for step in range(3)]

    assert losses("cuda") == pytest.approx(losses("cpu"), rel=1e-3)
