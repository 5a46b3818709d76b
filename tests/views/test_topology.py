import dataclasses

import numpy as np
import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.views.skeleton.topology import (
    COCO17,
    H36M17,
    KINECT20,
    NTU25,
    OPENPOSE18,
    Topology,
    get_topology,
    topologies,
)

every_topology = pytest.mark.parametrize("topology", topologies().values(), ids=topologies())


@every_topology
def test_ancestors_follow_the_path_from_the_root(topology):
    for joint in range(topology.num_joints):
        path, at = set(), joint
        while at != -1:
            path.add(at)
            at = topology.parents[at]
        assert {k for k in range(topology.num_joints) if topology.ancestors[joint, k]} == path
        assert topology.ancestors[joint].sum() == len(path)


@every_topology
def test_differences_are_bones_and_ancestors_undo_them(topology):
    x_JC = np.random.default_rng(0).normal(size=(topology.num_joints, 3))
    bones = topology.differences @ x_JC
    for joint, parent in enumerate(topology.parents):
        assert np.array_equal(bones[joint], x_JC[joint] - (x_JC[parent] if parent >= 0 else 0))
    assert np.array_equal(topology.ancestors @ topology.differences, np.eye(topology.num_joints))


@every_topology
def test_mirror_swaps_left_and_right_names(topology):
    for joint, name in enumerate(topology.joints):
        other = {"left": "right", "right": "left"}.get(name.split()[0])
        expected = name.replace(name.split()[0], other, 1) if other else name
        assert topology.joints[topology.swap[joint]] == expected
        assert topology.swap[topology.swap[joint]] == joint
        parent = topology.parents[joint]
        assert topology.parents[topology.swap[joint]] == (topology.swap[parent] if parent >= 0 else -1)


@every_topology
def test_five_parts_named_for_their_side(topology):
    assert list(topology.parts)[1:] == ["left arm", "right arm", "left leg", "right leg"]
    for name, part in topology.parts.items():
        sides = {topology.joints[j].split()[0] for j in part}
        assert sides == {name.split()[0]} if name.split()[0] in ("left", "right") else sides - {"left", "right"}
    assert {len(limb) for limb in list(topology.limbs.values())[1:]} == {
        2 * len(topology.parts["left arm"]), 2 * len(topology.parts["left leg"])
    }  # fmt: skip


# Index of a joint in each format, as their own documentation numbers them (0-based).
WHERE = {
    "kinect20": (KINECT20, {"head": 3, "left hand": 7, "right shoulder": 8, "left hip": 12, "right foot": 19}),
    "coco17": (COCO17, {"nose": 0, "right eye": 2, "left shoulder": 5, "left wrist": 9, "right hip": 12}),
    "openpose18": (OPENPOSE18, {"neck": 1, "right wrist": 4, "left shoulder": 5, "right hip": 8, "left ear": 17}),
    "h36m17": (H36M17, {"right hip": 1, "left ankle": 6, "thorax": 8, "head": 10, "left elbow": 12, "right wrist": 16}),
}


@pytest.mark.parametrize("topology,places", WHERE.values(), ids=WHERE)
def test_joints_have_the_order_of_their_format(topology, places):
    assert {name: topology.joints.index(name) for name in places} == places
    assert get_topology(topology.name) is topology
    for side in ("left", "right"):
        for chain in (("shoulder", "elbow", "wrist"), ("hip", "knee", "ankle")):
            inner, middle, outer = (topology.joints.index(f"{side} {joint}") for joint in chain)
            assert topology.parents[outer] == middle and topology.parents[middle] == inner


def test_parts_and_limbs():
    assert [len(part) for part in NTU25.parts.values()] == [5, 6, 6, 4, 4]
    assert [set(limb) for limb in NTU25.limbs.values()] == [
        {0, 1, 2, 3, 20},
        {4, 5, 6, 7, 21, 22, 8, 9, 10, 11, 23, 24},
        set(range(12, 20)),
    ]
    assert set(NTU25.part_graphs["left arm"][7]) == {6, 21, 22}
    assert NTU25.part_graphs["left leg"][12] == (13,)


BAD = {
    "not a tree": {"parents": (-1, 2, 1)},
    "two roots": {"parents": (-1, -1, 0)},
    "joint in two pairs": {"pairs": ((1, 2), (2, 1))},
    "joint missing from the parts": {"parts": {"all": (0, 1)}},
    "part not connected": {"parts": {"sides": (1, 2), "middle": (0,)}},
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_contradictory_topologies_are_rejected(change):
    good = Topology("t", ("mid", "left", "right"), (-1, 0, 0), ((1, 2),), {"all": (0, 1, 2)}, root=0, center=0)
    with pytest.raises(SkelbenchError, match="topology 't' is not valid"):
        dataclasses.replace(good, **change)
