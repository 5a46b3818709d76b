"""HCN against numbers of the public code, and its cost."""

import official
import pytest
import torch
from skelbench_plugins.hcn import HCN, HCNConfig

from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T = 18


def encoder(topology=NTU25, frames=T, **settings):
    settings = {"channels": 4, "image": 16, "dropout": 0.0} | settings
    return official.fill(HCN(HCNConfig(**settings), topology, Grid(frames, 1, topology.num_joints)))


FEATURES = [0.142046, 0.049388, 0.0, 0.168829, 0.157084, 0.049388, 0.0, 0.169259]
GRADIENTS = {
    "motion.points.0.weight": [-0.00060722, -0.0013026, -0.00080033],
    "position.images.2.weight": [0.26028, 0.25269, 0.26],
    "joined.0.weight": [0.78068, 0.70062, 0.69563],
}


def test_features_and_gradients_of_the_public_code():
    """Made by running fmthoker/skeleton-contrast, ``moco.HCN.HCN(out_channel=4, window_size=16)`` without dropout, with
    these weights on these clips."""
    made, view = encoder(), View.of(official.clip(3, T))
    encoded = made(view)
    assert encoded.per_clip and encoded.pooled_RD.shape == (3, 16) and not encoded.tokens_RND.numel()
    (encoded.pooled_RD * torch.from_numpy(official.wave((3, 16), 1.0))).sum().backward()
    assert encoded.pooled_RD[::2, ::4].flatten().tolist() == pytest.approx(FEATURES, abs=2e-6)
    for name, expected in GRADIENTS.items():
        assert made.get_parameter(name).grad.flatten()[:3].tolist() == pytest.approx(expected, rel=2e-4, abs=1e-8)
