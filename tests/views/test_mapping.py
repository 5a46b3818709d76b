"""Conversion between skeletons: what each joint follows from, and what a conversion keeps."""

import numpy as np
import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.views.skeleton.mapping import joint_mapping
from skelbench.views.skeleton.topology import NTU25, get_topology, topologies

HUMAN = [name for name in topologies() if name not in ("ntu25", "stick7")]


def clip(topology, seed=0):
    return np.random.default_rng(seed).normal(size=(2, 5, topology.num_joints, 3)), np.ones((2, 5, topology.num_joints))


@pytest.mark.parametrize("name", HUMAN)
def test_a_conversion_commutes_with_mirroring_rotation_and_scaling(name):
    source = get_topology(name)
    mapping = joint_mapping(source.joints, NTU25)
    x, sure = clip(source)
    y, _ = mapping.apply(x, sure)
    mirrored, _ = mapping.apply((x * [-1, 1, 1])[..., list(source.swap), :], sure)
    np.testing.assert_allclose(mirrored, (y * [-1, 1, 1])[..., list(NTU25.swap), :], atol=1e-5)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    here = np.array([mapping.kinds[joint] != "absent" for joint in NTU25.joints])
    moved, _ = mapping.apply(1.7 * x @ turn + 2.0, sure)
    np.testing.assert_allclose(moved[..., here, :], (1.7 * y @ turn + 2.0)[..., here, :], atol=1e-4)
    assert not y[..., ~here, :].any() and {"left hip", "right knee", "left wrist"} <= {
        joint for joint, kind in mapping.kinds.items() if kind == "exact"
    }


def test_kinds_and_formulas():
    v1 = joint_mapping(get_topology("kinect20").joints, NTU25)
    assert v1.kinds["spine base"] == "midpoint" and v1.formulas["spine base"] == "0.5 left hip + 0.5 right hip"
    assert (v1.kinds["neck"], v1.formulas["neck"]) == ("exact", "shoulder center")
    assert (v1.kinds["left thumb"], v1.kinds["left hand tip"]) == ("absent", "extrapolated")
    coco = joint_mapping(get_topology("coco17").joints, NTU25)
    assert coco.formulas["spine mid"].count("0.29") == coco.formulas["spine mid"].count("0.21") == 2
    assert coco.kinds["left foot"] == "absent" and "absent: left foot" in coco.summary
    back = joint_mapping(NTU25.joints, get_topology("kinect20"))
    assert "absent" not in back.kinds.values() and back.kinds["left hand"] == "exact"


def test_joints_that_were_not_seen_stay_unseen():
    source = get_topology("coco17")
    x, sure = clip(source)
    sure[:, 2, source.joints.index("left hip")] = 0
    y, certain = joint_mapping(source.joints, NTU25).apply(x, sure)
    lost = [NTU25.joints.index(joint) for joint in ("left hip", "spine base", "spine mid")]
    assert not certain[:, 2, lost].any() and not y[:, 2, lost].any()
    assert certain[:, 1, lost].all() and certain[:, 2, NTU25.joints.index("right hip")].all()


def test_joints_without_hips_are_rejected():
    with pytest.raises(SkelbenchError, match="left hip"):
        joint_mapping(["head", "left shoulder", "right shoulder"], NTU25)
