import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.data.synthetic.kinematics import CHANNEL, CHANNELS, PARTS, forward
from skelbench.views.skeleton.topology import NTU25

SAME = dict.fromkeys(PARTS, 1.0)
J = {name: i for i, name in enumerate(NTU25.joints)}


def pose(**degrees):
    """One frame; keyword ``left_arm_lift=90`` sets channel ``left.arm.lift``. Pelvis offsets in meters."""
    x_1A = np.zeros((1, len(CHANNELS)))
    for name, value in degrees.items():
        channel = name.replace("_", ".")
        x_1A[0, CHANNEL[channel]] = value if channel in ("side", "ahead", "jump") else np.deg2rad(value)
    return forward(x_1A, SAME)[0]


def bone(x_JC, child):
    return x_JC[J[child]] - x_JC[NTU25.parents[J[child]]]


def unit(x):
    return x / np.linalg.norm(x)


RIGHT, UP, BACK = np.eye(3)


@pytest.mark.parametrize(("settings", "child", "direction"), [
    ({}, "left wrist", -UP),
    (dict(left_arm_lift=90), "left wrist", -BACK),
    (dict(right_arm_lift=180), "right elbow", UP),
    (dict(left_arm_spread=90), "left elbow", -RIGHT),
    (dict(right_arm_lift=90, right_arm_cross=90), "right wrist", -RIGHT),
    (dict(left_arm_elbow=90), "left wrist", -BACK),
    (dict(left_arm_elbow=90, left_arm_roll=90), "left wrist", RIGHT),
    (dict(right_leg_lift=90), "right knee", -BACK),
    (dict(right_leg_spread=90), "right knee", RIGHT),
    (dict(left_leg_knee=90), "left ankle", BACK),
    (dict(bend=90), "neck", -BACK),
    (dict(sway=90), "neck", RIGHT),
    (dict(pitch=90), "spine mid", -BACK),
    (dict(lean=90), "spine mid", RIGHT),
    (dict(twist=90, left_arm_lift=90), "left wrist", -RIGHT),
])  # fmt: skip
def test_every_angle_turns_its_bone_in_its_named_direction(settings, child, direction):
    np.testing.assert_allclose(unit(bone(pose(**settings), child)), direction, atol=1e-12)


ANGLES = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).normal(0, 0.7, (3, len(CHANNELS))))


@settings(max_examples=25, deadline=None)
@given(pose_TA=ANGLES)
def test_a_mirrored_pose_is_the_mirror_image(pose_TA):
    mirrored_TA = pose_TA.copy()
    for name, i in CHANNEL.items():
        if name.startswith("left."):
            mirrored_TA[:, i] = pose_TA[:, CHANNEL[name.replace("left", "right")]]
        elif name.startswith("right."):
            mirrored_TA[:, i] = pose_TA[:, CHANNEL[name.replace("right", "left")]]
        elif name in ("side", "yaw", "lean", "sway", "twist", "shake", "tilt"):
            mirrored_TA[:, i] *= -1
    expected = forward(pose_TA, SAME)[:, NTU25.swap] * (-1, 1, 1)
    np.testing.assert_allclose(forward(mirrored_TA, SAME), expected, atol=1e-12)
