import numpy as np
import pytest
import torch

from skelbench.views import Distort
from skelbench.views.augmentations import draw_transform
from skelbench.views.keyed import Keyed
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
def test_distortions_equal_a_loop_over_joints_and_frames(topology):
    op = Distort(amplitude=0.7)
    x_R3TJ = torch.from_numpy(np.random.default_rng(0).normal(size=(24, 3, 4, topology.num_joints))).float()
    found = distorted(op, x_R3TJ, topology)
    for row in range(24):
        assert np.allclose(found[row], literal(op, x_R3TJ[row], row // 2 * 2, topology), atol=1e-5)
