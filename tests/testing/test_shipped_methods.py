"""Every shipped method is built, some of different kinds pass all checks, and a GPU gives what the CPU gives."""

import pytest
import torch
from small import METHODS

from skelbench.testing import parametrize_with_checks

CHECKS = parametrize_with_checks([*METHODS, "untrained", "raw"], kind="methods").args[1]
FULL = tuple(f"{method}-" for method in ("slim", "cmd", "longt-gan", "untrained", "raw"))
"""Methods with all checks, except "processes" (tests/training/test_ranks.py) and, where it takes seconds, "learns"."""
SKIPPED = ("-processes", "slim-learns", "cmd-learns", "longt-gan-learns")
SELECTED = [check for check in CHECKS if check.id.startswith(FULL) and not check.id.endswith(SKIPPED)]
SELECTED += [check for check in CHECKS if check.id.endswith("-builds") and check not in SELECTED]


@pytest.mark.parametrize("check", SELECTED)
def test_a_shipped_method_passes_its_checks(check):
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
