"""Moving people on any topology, made from the synthetic performances."""

import numpy as np

from skelbench.data.synthetic.dataset import perform
from skelbench.views.skeleton.mapping import joint_mapping
from skelbench.views.skeleton.topology import NTU25

ALIAS = {
    "pelvis": "spine base", "hip center": "spine base", "spine": "spine mid", "thorax": "spine shoulder",
    "shoulder center": "spine shoulder", "neck": "spine shoulder",
}  # fmt: skip
FACE = {"nose": (0.0, 0.0, 0.10), "eye": (0.03, 0.03, 0.08), "ear": (0.07, 0.02, 0.0)}
FACE |= {"toe": (0.03, -0.07, 0.15), "heel": (0.0, -0.07, -0.05)}
"""Meters from the head, or from the ankle: to the left, up, ahead."""


def person(topology, label=0, subject=1, camera=2, frames=None):
    """float32 [M, T, J, 3] in the room: Y up, facing -Z."""
    room_MTJC = perform(label, subject, 1, camera)[:, :frames]
    at = {name: room_MTJC[:, :, j] for j, name in enumerate(NTU25.joints)}
    left = at["left hip"] - at["right hip"]
    left = left / np.linalg.norm(left, axis=-1, keepdims=True)
    up = np.broadcast_to([0.0, 1.0, 0.0], left.shape)
    ahead = np.cross(left, up)
    joints, mapping = [], joint_mapping(NTU25.joints, topology)
    for name in topology.joints:
        side, _, feature = name.rpartition(" ")
        if topology.name != "ntu25" and name in ALIAS:
            joints.append(at[ALIAS[name]])
        elif name in at:
            joints.append(at[name])
        elif feature not in FACE:
            weights_K = mapping.weights_JK[topology.joints.index(name)]
            near = joints[topology.parents[len(joints)]] - 0.02 * up if not weights_K.any() else 0
            joints.append(np.einsum("k,mtkc->mtc", weights_K, room_MTJC) + near)
        else:
            sideways, upward, forward = FACE[feature]
            sign = {"left": 1.0, "right": -1.0}.get(side[:5].strip(), 0.0)
            upward += 0.03 * ("small" in name)
            sideways += 0.015 * (("outer" in name) - ("inner" in name))
            start = "head" if feature in ("nose", "eye", "ear") else f"{side.split()[0]} ankle"
            joints.append(at[start] + sign * sideways * left + upward * up + forward * ahead)
    return np.stack(joints, 2).astype(np.float32)
