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


def test_motion_is_resampled_to_the_length_of_the_clip():
    """Frame by frame: the position, among T - 1 differences, at which the middle of a frame lies."""
    made, x_BMTJC = encoder(), official.clip(2, T)
    seen = {}
    made.motion.register_forward_pre_hook(lambda _, inputs: seen.update(x_RCTJ=inputs[0]))
    made(View.of(x_BMTJC))
    x_RTJC = x_BMTJC.flatten(0, 1)
    for t in range(T):
        place = min(max((t + 0.5) * (T - 1) / T - 0.5, 0.0), T - 2)
        low, share = int(place), place - int(place)
        step = [x_RTJC[:, k + 1] - x_RTJC[:, k] for k in (low, min(low + 1, T - 2))]
        expected_RJC = (1 - share) * step[0] + share * step[1]
        torch.testing.assert_close(seen["x_RCTJ"][:, :, t].transpose(1, 2), expected_RJC, atol=1e-6, rtol=1e-4)
