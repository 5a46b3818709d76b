"""Masks and augmentations follow from the topology alone: on every known one, against slow references."""

import math
import re

import numpy as np
import pytest
import torch

from skelbench.views.augmentations import (
    AxisRotate,
    Blur,
    BoneScale,
    CoordinateScale,
    Mirror,
    Noise,
    Rotate,
    Shear,
    TimeFlip,
    draw_transform,
)
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.topology import topologies
from skelbench.views.transform import mirrored_rows

KEYED = Keyed(3, 1)
ROWS, FRAMES = 40, 3
pytestmark = pytest.mark.parametrize("topology", topologies().values(), ids=topologies())


def coordinates(topology, flat=False):
    x_R3TJ = np.random.default_rng(0).normal(size=(ROWS, 3, FRAMES, topology.num_joints)).astype(np.float32)
    x_R3TJ[:, 2] *= not flat
    return torch.from_numpy(x_R3TJ)


def transform(ops, topology, x_R3TJ, dimensions=3):
    keys, view_R = torch.arange(ROWS), torch.zeros(ROWS, dtype=torch.int64)
    steps = draw_transform(ops, topology, KEYED, keys, keys, view_R, dimensions)
    out = x_R3TJ.clone()
    for step in steps:
        out = step.apply(out, KEYED)
    return out, steps


def test_mirror_is_a_reflection_with_sides_swapped(topology):
    x_R3TJ = coordinates(topology)
    out, steps = transform((Mirror(p=1),), topology, x_R3TJ)
    side = {"left": "right", "right": "left"}
    for joint, name in enumerate(topology.joints):
        other = topology.joints.index(re.sub("left|right", lambda match: side[match[0]], name))
        assert torch.equal(out[..., joint], x_R3TJ[..., other] * torch.tensor([-1.0, 1, 1])[:, None])
    assert mirrored_rows(steps).tolist() == list(range(ROWS))


def test_flat_poses_stay_flat_and_turn_in_their_plane_only(topology):
    x_R3TJ = coordinates(topology, flat=True)
    ops = (Rotate(p=1, vertical_deg=180, tilt_deg=30), Mirror(), BoneScale(), CoordinateScale(), Noise(p=1, std=0.1))
    ops += AxisRotate(), Shear(), Blur(), TimeFlip()
    out, _ = transform(ops, topology, x_R3TJ, dimensions=2)
    assert not out[:, 2].any() and not torch.equal(out, x_R3TJ)
    leaves, _ = transform(ops, topology, x_R3TJ, dimensions=3)
    assert leaves[:, 2].any()

    turned, steps = transform((Rotate(p=1, vertical_deg=180, tilt_deg=30),), topology, x_R3TJ, dimensions=2)
    angles = torch.atan2(steps[0].space.table_KDD[:, 1, 0], steps[0].space.table_KDD[:, 0, 0])
    assert math.radians(20) < angles.abs().max() <= math.radians(30) and angles.min() < 0 < angles.max()
    for row, angle in enumerate(angles.tolist()):
        x, y = x_R3TJ[row, 0], x_R3TJ[row, 1]
        expected = torch.stack([math.cos(angle) * x - math.sin(angle) * y, math.sin(angle) * x + math.cos(angle) * y])
        torch.testing.assert_close(turned[row, :2], expected, rtol=1e-5, atol=1e-5)
