"""Forward kinematics of a person on the 25 joints of NTU RGB+D (Kinect v2), for synthetic data.

A pose is a row of joint angles; :func:`forward` turns T of them into joint positions. Body frame: meters, X to the
person's right, Y up, Z backwards, so that a person facing a camera has the camera's axes. Sizes fit an
adult of 1.7 m, rounded.

T frames, A angles (:data:`CHANNELS`), J = 25 joints.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_ARM = ("lift", "spread", "cross", "roll", "elbow", "wrist")
_LEG = ("lift", "spread", "roll", "knee", "ankle")
CHANNELS: tuple[str, ...] = (
    *("side", "ahead", "jump", "yaw", "pitch", "lean"),  # pelvis: meters to the right, forward, up; then angles
    *("bend", "sway", "twist", "nod", "shake", "tilt"),  # trunk and head
    *(f"{side}.arm.{angle}" for side in ("left", "right") for angle in _ARM),
    *(f"{side}.leg.{angle}" for side in ("left", "right") for angle in _LEG),
)
"""Angles (radians) and pelvis offsets (meters) of a pose. Positive: arm or leg lifted forward, spread outward, arm
crossed inward, rolled inward, elbow and knee bent, trunk bent forward, head nodded forward; sway, lean, tilt to the
right; yaw, twist, shake to the left."""

CHANNEL: Mapping[str, int] = {name: i for i, name in enumerate(CHANNELS)}

PARTS: tuple[str, ...] = ("trunk", "head", "arms", "legs")
"""Groups of bones whose length a person scales together."""

# joint: (parent, part, rest offset from the parent with the arms hanging down)
_REST: dict[int, tuple[int, str, tuple[float, float, float]]] = {
    1: (0, "trunk", (0.0, 0.29, 0.0)),
    20: (1, "trunk", (0.0, 0.22, 0.0)),
    2: (20, "head", (0.0, 0.08, 0.0)),
    3: (2, "head", (0.0, 0.15, -0.02)),
}
for _first, _hip, _sign in ((4, 12, -1.0), (8, 16, 1.0)):
    _tip, _thumb = (21, 22) if _first == 4 else (23, 24)
    _REST |= {
        _first: (20, "trunk", (_sign * 0.17, -0.03, 0.0)),
        _first + 1: (_first, "arms", (0.0, -0.28, 0.0)),
        _first + 2: (_first + 1, "arms", (0.0, -0.25, 0.0)),
        _first + 3: (_first + 2, "arms", (0.0, -0.08, 0.0)),
        _tip: (_first + 3, "arms", (0.0, -0.08, 0.0)),
        _thumb: (_first + 3, "arms", (0.0, -0.03, -0.05)),
        _hip: (0, "trunk", (_sign * 0.09, -0.03, 0.0)),
        _hip + 1: (_hip, "legs", (0.0, -0.42, 0.0)),
        _hip + 2: (_hip + 1, "legs", (0.0, -0.40, 0.0)),
        _hip + 3: (_hip + 2, "legs", (0.0, -0.06, -0.13)),
    }
JOINTS = 25


def turn(axis: int, angle_T: np.ndarray) -> np.ndarray:
    """Rotation matrices [T, 3, 3] about one coordinate axis (0 = X, 1 = Y, 2 = Z), right-handed."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    r_T33 = np.zeros((len(angle_T), 3, 3))
    r_T33[:, axis, axis] = 1.0
    r_T33[:, i, i] = r_T33[:, j, j] = np.cos(angle_T)
    r_T33[:, j, i] = np.sin(angle_T)
    r_T33[:, i, j] = -r_T33[:, j, i]
    return r_T33


def forward(pose_TA: np.ndarray, scale: Mapping[str, float]) -> np.ndarray:
    """Joint positions [T, J, 3] in the body frame; the lower foot stands on Y = 0 unless the person jumps.

    ``scale`` multiplies the bone lengths of each of :data:`PARTS`.
    """

    def angle(name: str) -> np.ndarray:
        return pose_TA[:, CHANNEL[name]]

    frames: dict[int, np.ndarray] = {}  # joint -> orientation of the bones that begin at it
    frames[0] = turn(1, angle("yaw")) @ turn(2, -angle("lean")) @ turn(0, -angle("pitch"))
    # The trunk's angles are shared between its two joints, as a spine bends along its length.
    half = turn(1, angle("twist") / 2) @ turn(2, -angle("sway") / 2) @ turn(0, -angle("bend") / 2)
    frames[1] = frames[0] @ half
    frames[20] = frames[1] @ half
    frames[2] = frames[20] @ turn(1, angle("shake")) @ turn(2, -angle("tilt")) @ turn(0, -angle("nod"))
    for first, hip, side, sign in ((4, 12, "left", -1.0), (8, 16, "right", 1.0)):
        arm, leg = f"{side}.arm.", f"{side}.leg."
        shoulder = frames[20] @ turn(1, sign * angle(arm + "cross")) @ turn(0, angle(arm + "lift"))
        frames[first] = shoulder @ turn(2, sign * angle(arm + "spread")) @ turn(1, sign * angle(arm + "roll"))
        frames[first + 1] = frames[first] @ turn(0, angle(arm + "elbow"))
        frames[first + 2] = frames[first + 3] = frames[first + 1] @ turn(0, angle(arm + "wrist"))
        lifted = frames[0] @ turn(0, angle(leg + "lift"))
        frames[hip] = lifted @ turn(2, sign * angle(leg + "spread")) @ turn(1, sign * angle(leg + "roll"))
        frames[hip + 1] = frames[hip] @ turn(0, -angle(leg + "knee"))
        frames[hip + 2] = frames[hip + 1] @ turn(0, angle(leg + "ankle"))
    x_TJC = np.zeros((len(pose_TA), JOINTS, 3))
    for joint, (parent, part, offset) in _REST.items():
        x_TJC[:, joint] = x_TJC[:, parent] + frames[parent] @ (scale[part] * np.array(offset))
    floor_T = x_TJC[:, (14, 15, 18, 19), 1].min(axis=1)
    x_TJC[:, :, 0] += angle("side")[:, None]
    x_TJC[:, :, 1] += (angle("jump") - floor_T)[:, None]
    x_TJC[:, :, 2] -= angle("ahead")[:, None]
    return x_TJC
