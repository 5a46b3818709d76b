import dataclasses

import numpy as np
import pytest

from skelbench.errors import SkelbenchError
from skelbench.skeleton.topology import NTU25, Topology, get_topology


def test_ancestors_follow_the_path_from_the_root():
    for joint in range(25):
        path, at = set(), joint
        while at != -1:
            path.add(at)
            at = NTU25.parents[at]
        assert {k for k in range(25) if NTU25.ancestors[joint, k]} == path
        assert NTU25.ancestors[joint].sum() == len(path)


def test_differences_are_bones_and_ancestors_undo_them():
    x_JC = np.random.default_rng(0).normal(size=(25, 3))
    bones = NTU25.differences @ x_JC
    for joint, parent in enumerate(NTU25.parents):
        assert np.array_equal(bones[joint], x_JC[joint] - (x_JC[parent] if parent >= 0 else 0))
    assert np.array_equal(NTU25.ancestors @ NTU25.differences, np.eye(25))


def test_order_puts_parents_first_where_indices_do_not():
    place = {joint: i for i, joint in enumerate(NTU25.order)}
    assert sorted(place) == list(range(25)) and NTU25.order[0] == NTU25.root
    assert all(place[parent] < place[joint] for joint, parent in enumerate(NTU25.parents) if parent >= 0)
    assert any(parent > joint for joint, parent in enumerate(NTU25.parents))


def test_mirror_swaps_left_and_right_names():
    for joint, name in enumerate(NTU25.joints):
        other = {"left": "right", "right": "left"}.get(name.split()[0])
        expected = name.replace(name.split()[0], other, 1) if other else name
        assert NTU25.joints[NTU25.swap[joint]] == expected
        assert NTU25.swap[NTU25.swap[joint]] == joint


def test_parts_and_limbs():
    assert [len(part) for part in NTU25.parts.values()] == [5, 6, 6, 4, 4]
    for joint in range(25):
        assert joint in list(NTU25.parts.values())[NTU25.part_of[joint]]
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
    "parent out of range": {"parents": (-1, 0, 7)},
    "joint in two pairs": {"pairs": ((1, 2), (2, 1))},
    "joint missing from the parts": {"parts": {"all": (0, 1)}},
    "joint in two parts": {"parts": {"all": (0, 1, 2), "more": (2,)}},
    "part not connected": {"parts": {"sides": (1, 2), "middle": (0,)}},
    "part without image": {"parts": {"body": (0, 1), "arm": (2,)}},
    "root is no joint": {"root": 3},
    "same name twice": {"joints": ("a", "a", "b")},
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_contradictory_topologies_are_refused(change):
    good = Topology("t", ("mid", "left", "right"), (-1, 0, 0), ((1, 2),), {"all": (0, 1, 2)}, root=0, center=0)
    with pytest.raises(SkelbenchError, match="topology 't' is not valid"):
        dataclasses.replace(good, **change)


def test_unknown_topology_names_the_nearest():
    assert get_topology("ntu25") is NTU25
    with pytest.raises(SkelbenchError, match="did you mean 'ntu25'"):
        get_topology("ntu52")
