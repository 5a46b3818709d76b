"""AimCLR against numbers of the public code, and its parts against slow references."""

import math

import official_graph
import pytest
import torch
from official import in_float64
from skelbench_plugins.aimclr import AimCLR, AimCLRConfig
from skelbench_plugins.stgcn import STGCN, STGCNConfig

from skelbench.methods import Step
from skelbench.methods.contract import Context
from skelbench.methods.extreme_contrast import drop_energetic
from skelbench.methods.momentum_contrast import imported
from skelbench.pipeline.checkpoint_file import fit
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

GOLDEN = {
    "contrast": (0.7587819, 1.7606757, 0.0933353, 0.4375832),
    "mining": (1.4731523, 1.7606757, 0.3524053, 1.0875117),
}
"""InfoNCE, half the two cross-entropies, and gradient norms of the first temporal convolution and of the head's last
layer, of Levigty/AimCLR (commit 6cd7376), net/aimclr.py, in training mode without dropout at temperature 0.5 on clips
0 (strong), 1 (query) and 2 (key)."""


def made(phase):
    """A step's output and the method, with the weights of ``official_graph.state()``."""
    grid, encoder = Grid(16, 1, 25), STGCNConfig(base=4, out=12, dropout=0.0)
    config = AimCLRConfig(queue=8, embedding=6, temperature=0.5)
    method = AimCLR(config, Context(NTU25, grid, lambda: STGCN(encoder, NTU25, grid), 12, 12))
    assert fit(method, imported(official_graph.state(), {}).weights, "official_graph.state")
    views = {name: View.of(official_graph.clips(k).double()) for k, name in enumerate(("strong", "query", "key"))}
    with in_float64():
        return method.double()(views, Step(2, 9, 0.0, torch.Generator(), lambda *_: None, phase=phase)), method


@pytest.mark.parametrize("phase", GOLDEN)
def test_the_step_equals_the_public_code(phase):
    out, method = made(phase)
    out["loss"].backward()
    gradients = method.encoder.blocks[0].time[2].weight.grad, method.head[2].weight.grad
    found = [float(out["contrast"]), float(out["taught"]), *(float(g.norm()) for g in gradients)]
    assert found == pytest.approx(GOLDEN[phase], rel=2e-4)
    assert float(out["loss"].detach()) == pytest.approx(sum(found[:2]), rel=1e-6)


def literal_drop(x_RND, joints, limit):
    """net/att_drop.py, one number after the other."""
    rows, cells, channels = x_RND.shape
    attention = torch.zeros_like(x_RND)
    for r in range(rows):
        for d in range(channels):
            values = x_RND[r, :, d].tolist()
            mean = sum(values) / cells
            variance = sum((v - mean) ** 2 for v in values) / (cells - 1)
            for n, v in enumerate(values):
                attention[r, n, d] = 1 / (1 + math.exp(-((v - mean) ** 2 / (4 * (variance + 1e-4)) + 0.5)))
    kept_joints = torch.ones_like(x_RND)
    for r in range(rows):
        for j in range(joints):
            if attention[r, j::joints].mean() >= limit:
                kept_joints[r, j::joints] = 0
    kept = (attention < limit).float()
    return x_RND * kept_joints * kept / kept_joints.mean() / kept.mean(), kept_joints, kept


@pytest.mark.parametrize("limit", [0.68, 0.7, 0.75])
def test_energetic_features_are_dropped(limit):
    x_RND = torch.randn(3, 4 * 5, 6, generator=torch.Generator().manual_seed(0))
    x_RND[:, 2::5] *= 2
    expected, kept_joints, kept = literal_drop(x_RND, 5, limit)
    assert 0 < kept.mean() < 1 and (0 < kept_joints.mean() < 1) == (limit < 0.75)
    torch.testing.assert_close(drop_energetic(x_RND, 5, limit), expected, rtol=1e-5, atol=1e-6)


def test_dropping_all_features_gives_no_nan():
    assert torch.equal(drop_energetic(torch.randn(2, 10, 3), 5, 0.6), torch.zeros(2, 10, 3))


def test_no_gradient_passes_through_the_attention():
    x_RND = torch.randn(2, 20, 3, requires_grad=True)
    out = drop_energetic(x_RND, 5, 0.7)
    out.sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(x_RND.grad, (out / x_RND).detach(), rtol=1e-4, atol=1e-5)
