"""Kernels of the prototype loss in Triton's interpreter, in a process of its own, against the loss in float64."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = {
    "uneven tails": (37, 2, 24, 83, {}),
    "one tile of prototypes": (20, 1, 16, 16, {}),
    "several parts": (21, 3, 40, 50, {"RESIDUALS": 500, "TILES": 2}),
    "no samples": (0, 2, 8, 20, {}),
}
"""Samples, views, width, prototypes, constants."""
MODES = ["none", "center", "sinkhorn"]


def compare():
    """Print the largest error of loss and gradients, relative to the largest value, for each case and centering."""
    import torch
    from test_prototype_loss import TEMPS, Sinkhorn, chunked, grads, sample

    from skelbench.models import prototype_kernel, prototype_loss

    kernels = prototype_loss._fused
    errors = {}
    for name, (n, views, dim, prototypes, constants) in CASES.items():
        for module in (prototype_loss, prototype_kernel):
            vars(module).update({key: value for key, value in constants.items() if hasattr(module, key)})
        for mode in MODES:
            centering = {"none": None, "center": torch.linspace(-0.2, 0.2, prototypes), "sinkhorn": Sinkhorn()}[mode]
            found = []
            for dtype in (torch.float32, torch.float64):
                tensors = sample(n, views, dim, prototypes)
                given = {key: value.detach().to(dtype) for key, value in tensors.items()}
                for key in ("student_z", "student_W"):
                    given[key].requires_grad_()
                # The interpreter has no products in bfloat16.
                prototype_loss._fused = lambda W: prototype_kernel if W.dtype == torch.float32 else None
                loss = chunked(centering, **given, **TEMPS)
                prototype_loss._fused = kernels
                found.append([loss.detach(), *grads(3.0 * loss, given)])
            pairs = ((got.double(), want) for got, want in zip(*found) if want.numel())
            errors[f"{name}, {mode}"] = [
                float((got - want).abs().max() / want.abs().max().clamp_min(1e-9)) for got, want in pairs
            ]
    print(json.dumps(errors))


@pytest.fixture(scope="module")
def errors():
    pytest.importorskip("triton", reason="Triton is not installed")
    paths = os.pathsep.join(str(Path(__file__).parents[up]) for up in (0, 2))
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-c", "import test_prototype_kernel; test_prototype_kernel.compare()"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_equal_the_reference(case, mode, errors):
    assert max(errors[f"{case}, {mode}"]) < 2e-5
