import numpy as np
import pytest
import torch
import torch.nn.functional as F

from skelbench.views import Distort, Free
from skelbench.views.augmentations import draw_transform
from skelbench.views.crops import Cut
from skelbench.views.keyed import Keyed
from skelbench.views.sampling import frame_positions
from skelbench.views.skeleton.topology import NTU25, topologies

KEYED, VIEW = Keyed(7, 3), 300


def distorted(op, x_R3TJ, topology=NTU25, bodies=2, dimensions=3):
    """Rows are ``bodies`` of each clip."""
    body = torch.arange(len(x_R3TJ))
    clip = body // bodies * bodies
    (change,) = draw_transform((op,), topology, KEYED, clip, body, torch.full_like(body, VIEW), dimensions)
    return change.apply(x_R3TJ.clone(), KEYED)


def draws(key, n):
    return KEYED.uniform(torch.tensor([key]), n + 1, view=VIEW, op=16)[0, 1:].double().tolist()


def literal(op, x_3TJ, key, topology):
    """One row in float64, joint by joint."""
    joints = topology.num_joints
    u = draws(key, 10 + joints)
    matrix = np.array([2 * v - 1 for v in u[1:10]]).reshape(3, 3)
    order = sorted(range(joints), key=lambda j: u[10 + j])[: int(op.share * joints + 0.5)]
    which = u[0] * (op.shear + op.zero + op.corrupt)
    out = x_3TJ.double().numpy().copy()
    if which < op.shear:
        matrix = np.eye(3) + (1 - np.eye(3)) * op.amplitude * matrix
        order = range(joints)
    for j in order:
        for t in range(out.shape[1]):
            zero = op.shear <= which < op.shear + op.zero
            out[:, t, j] = 0 if zero else matrix @ out[:, t, j]
    return out


@pytest.mark.parametrize("topology", topologies().values(), ids=topologies())
def test_distortion_is_that_of_every_joint_and_frame_in_turn(topology):
    op = Distort(amplitude=0.7)
    x_R3TJ = torch.from_numpy(np.random.default_rng(0).normal(size=(24, 3, 4, topology.num_joints))).float()
    found = distorted(op, x_R3TJ, topology)
    for row in range(24):
        assert np.allclose(found[row], literal(op, x_R3TJ[row], row // 2 * 2, topology), atol=1e-5)


def test_a_distortion_is_one_of_three_and_the_odds_are_those_of_the_public_code():
    x_R3TJ = torch.randn(4000, 3, 2, 25, generator=torch.Generator().manual_seed(0))
    found = distorted(Distort(), x_R3TJ, bodies=1)
    zeroed_RJ = (found == 0).all(2).all(1)
    same_RJ = torch.isclose(found, x_R3TJ).all(2).all(1)
    zero_R, corrupt_R = zeroed_RJ.any(1), ~zeroed_RJ.any(1) & same_RJ.any(1)
    assert set(zeroed_RJ.sum(1).tolist()) == {0, 15} and (same_RJ.sum(1)[zero_R | corrupt_R] == 10).all()
    assert zero_R.float().mean() == pytest.approx(0.25, abs=0.03)
    assert corrupt_R.float().mean() == pytest.approx(0.25, abs=0.03)
    assert zeroed_RJ[zero_R].float().mean(0).sub(0.6).abs().max() < 0.07, "every joint alike"
    assert (distorted(Distort(p=0.5), x_R3TJ, bodies=1) == x_R3TJ).flatten(1).all(1).float().mean() == pytest.approx(
        0.5, abs=0.03
    )


@pytest.mark.parametrize("length", [1, 40, 64, 65, 90, 300])
def test_the_familys_crop_is_whole_frames_and_bilinear(length):
    """maoyunyao/CMD, temporal_cropresize: a share U(0.1, 1) of the frames, at least 64 of them."""
    keys, view = torch.arange(50), torch.full((50,), VIEW)
    cut = Cut(torch.full((50,), length), "half-pixel", KEYED, keys, view)
    interval = Free(lo=0.1, hi=1.0, whole_frames=True, min_frames=64).cut(cut)
    frames = frame_positions(interval, 64, "half-pixel", cut.length_B, KEYED, keys, view)
    x_T = torch.randn(length, generator=torch.Generator().manual_seed(1))
    u_B2 = KEYED.uniform(keys, 2, view=view).double().tolist()
    for clip, (share, place) in enumerate(u_B2):
        kept = min(max(int(length * (0.1 + 0.9 * share)), 64), length)
        start = int(place * (length - kept + 1))
        expected_T = F.interpolate(x_T[None, None, start : start + kept, None], (64, 1), mode="bilinear")[0, 0, :, 0]
        found_T = x_T[frames.first_BT[clip]].lerp(x_T[frames.second_BT[clip]], frames.weight_BT[clip])
        assert torch.allclose(found_T, expected_T, atol=1e-5)
