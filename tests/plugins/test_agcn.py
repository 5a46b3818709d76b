"""2s-AGCN against numbers of the public code, and its graph against a literal reading of it."""

import official
import pytest
import torch
from skelbench_plugins.agcn import AGCN, AGCNConfig

from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T = 10


def encoder(topology=NTU25, frames=T, **settings):
    settings = {"base": 8} | settings
    return official.fill(AGCN(AGCNConfig(**settings), topology, Grid(frames, 1, topology.num_joints)))


FEATURES = {
    "train": [0.75453, 1.410042, 1.347977, 1.378331, 1.262275, 1.166559, 0.985153, 1.1926],
    "eval": [1.153728, 6.193229, 3.179819, 4.086559, 1.200895, 6.47618, 2.921892, 3.921587],
}
GRADIENTS = {
    "blocks.0.graph.own_SJJ": [-0.038248, -0.029289, 0.057077],
    "blocks.4.graph.query.1.weight": [-0.00092671, 0.0018783, 0.020385],
    "blocks.7.residual.0.weight": [0.012542, -0.35238, -0.10528],
}


def test_features_and_gradients_of_the_public_code():
    """Made by running fmthoker/skeleton-contrast, ``moco.AGCN.Model`` of ten of its units, eight times narrower than
    published, with these weights on these clips: a step in training mode, then, by its statistics, in eval mode."""
    made, view = encoder(), View.of(official.clip(3, T))
    encoded = made.train()(view)
    assert encoded.per_clip and encoded.pooled_RD.shape == (3, 32)
    (encoded.pooled_RD * torch.from_numpy(official.wave((3, 32), 1.0))).sum().backward()
    assert encoded.pooled_RD[::2, ::8].flatten().tolist() == pytest.approx(FEATURES["train"], abs=2e-5)
    for name, expected in GRADIENTS.items():
        assert made.get_parameter(name).grad.flatten()[:3].tolist() == pytest.approx(expected, rel=2e-3, abs=1e-5)
    with torch.no_grad():
        features = made.eval()(view).pooled_RD
    assert features[::2, ::8].flatten().tolist() == pytest.approx(FEATURES["eval"], rel=2e-5)


def test_initial_weights_equal_the_public_code():
    """A graph convolution that adds next to nothing, so that a block is its residual."""
    torch.manual_seed(0)
    made = AGCN(AGCNConfig(), NTU25, Grid(T, 1, 25))
    graph = made.blocks[5].graph
    assert (graph.own_SJJ == 1e-6).all() and (graph.norm.weight == 1e-6).all()
    assert graph.value[1].weight.std().item() == pytest.approx((2 / (3 * 128 * 128)) ** 0.5, rel=0.05)
    assert made.blocks[5].time[0].weight.std().item() == pytest.approx((2 / (128 * 9)) ** 0.5, rel=0.05)
    assert not any(part.bias.any() for part in (*graph.query, *graph.key, *graph.value, made.blocks[5].time[0]))
