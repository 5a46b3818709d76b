"""Masks and augmentations follow from the topology alone: on every known one, against slow references."""

import itertools
import math

import numpy as np
import pytest
import torch

from skelbench.skeleton.grid import Grid
from skelbench.skeleton.topology import topologies
from skelbench.views.augmentations import AxisDrop, BoneScale, CoordinateScale, Mirror, Noise, Rotate, draw_transform
from skelbench.views.keyed import Keyed
from skelbench.views.masks import MaskRows
from skelbench.views.transform import mirrored_rows
from skelbench.views.tubes import Tube, spans

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


def connected(joints, topology):
    seen, todo = set(), [min(joints)]
    while todo:
        at = todo.pop()
        seen.add(at)
        todo += {j for j in joints if topology.parents[j] == at or topology.parents[at] == j} - seen
    return seen == set(joints)


def test_spans_are_the_connected_subsets_of_the_parts(topology):
    table = spans(topology, "connected")
    found = {frozenset(row.nonzero()[:, 0].tolist()) for row in table.joints_SJ}
    expected = {
        frozenset(subset)
        for part in topology.parts.values()
        for width in range(1, len(part) + 1)
        for subset in itertools.combinations(part, width)
        if connected(subset, topology)
    }
    assert found == expected and len(found) == len(table.joints_SJ)


def test_tubes_hide_about_what_they_are_asked_to(topology):
    keys = torch.arange(400)
    request = MaskRows(Tube(lo=0.5, hi=0.9), Grid(8, 1, topology.num_joints), keys, torch.zeros_like(keys))
    mask_RN = Tube.draw_all([request], topology, KEYED)[0].mask_RN
    assert mask_RN.shape == (400, 8 * topology.num_joints)
    share = mask_RN.double().mean(1)
    assert 0.4 < share.min() and share.max() <= 0.9 and 0.64 < share.mean() < 0.72
    per_joint = mask_RN.unflatten(1, (8, -1)).double().mean((0, 1))
    assert per_joint.min() > 0.45, "no joint is left out"


def test_mirror_is_a_reflection_with_sides_swapped(topology):
    x_R3TJ = coordinates(topology)
    out, steps = transform((Mirror(p=1),), topology, x_R3TJ)
    for joint, name in enumerate(topology.joints):
        other = topology.joints.index(_other(name))
        assert torch.equal(out[..., joint], x_R3TJ[..., other] * torch.tensor([-1.0, 1, 1])[:, None])
    assert mirrored_rows(steps).tolist() == list(range(ROWS))


def _other(name):
    return name.replace("left", "RIGHT").replace("right", "left").replace("RIGHT", "right")


def test_mirrored_rows_are_those_mirrored_an_odd_number_of_times(topology):
    ops = (Mirror(p=0.5), BoneScale(p=1), Noise(p=0.5), Mirror(p=0.5), Rotate())
    _, steps = transform(ops, topology, coordinates(topology))
    gates = [KEYED.uniform(torch.arange(ROWS), 1, op=16 + 2 * index)[:, 0] < 0.5 for index in (0, 3)]
    assert mirrored_rows(steps).tolist() == (gates[0] ^ gates[1]).nonzero()[:, 0].tolist()
    assert mirrored_rows(()).tolist() == []


def test_bone_scaling_scales_each_part_by_one_factor_and_keeps_directions(topology):
    x_R3TJ = coordinates(topology)
    out, _ = transform((BoneScale(p=1, lo=0.5, hi=2.0),), topology, x_R3TJ)
    assert torch.equal(out[..., topology.root], x_R3TJ[..., topology.root])
    for part in topology.parts.values():
        joints = [j for j in part if j != topology.root]
        parents = [topology.parents[j] for j in joints]
        before, after = (x[..., joints] - x[..., parents] for x in (x_R3TJ, out))
        ratio = (after.norm(dim=1) / before.norm(dim=1)).flatten(1)
        assert (ratio.std(1) < 2e-3).all() and (ratio > 0.499).all() and (ratio < 2.001).all()
        assert (torch.cosine_similarity(before, after, dim=1) > 1 - 1e-4).all()


def test_flat_poses_stay_flat_and_turn_in_their_plane_only(topology):
    x_R3TJ = coordinates(topology, flat=True)
    ops = (Rotate(p=1, vertical_deg=180, tilt_deg=30), Mirror(), BoneScale(), CoordinateScale(), Noise(p=1, std=0.1))
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


def test_of_flat_poses_only_x_or_y_is_dropped(topology):
    out, _ = transform((AxisDrop(p=1),), topology, coordinates(topology, flat=True), dimensions=2)
    gone = (out == 0).flatten(2).all(2)
    assert gone[:, 2].all() and (gone[:, :2].sum(1) == 1).all() and gone[:, 0].any() and gone[:, 1].any()
