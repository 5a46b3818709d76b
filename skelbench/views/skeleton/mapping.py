"""Convert clips from one skeleton to another by the names of joints.

A target joint is a joint of the source ("exact"), a point between joints ("midpoint"), a point beyond the end of a bone
("extrapolated"), or not there ("absent"). Each is a weighted sum whose weights add up to 1. A conversion therefore
commutes with mirroring, rotating and scaling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.views.skeleton.topology.tree import BETWEEN_SHOULDERS, Topology

Kind = Literal["exact", "midpoint", "extrapolated", "absent"]
SIDES = ("left", "right")
SAME = {
    "pelvis": "spine base",
    "thorax": "spine shoulder",
    "spine 2": "spine mid",
    "lower neck": "neck",
    **{f"{side} {toe}": f"{side} foot" for side in SIDES for toe in ("big toe", "foot index")},
}
"""Other names of a joint -> its name in :data:`RULES`."""
_SIDED: dict[str, tuple[dict[str, float], ...]] = {
    "hand": ({"index": 0.5, "pinky": 0.5}, {"wrist": 1.25, "elbow": -0.25}),
    "hand tip": ({"index": 1.0}, {"wrist": 1.55, "elbow": -0.55}),
    "index": ({"hand tip": 1.0},),
    "collar": ({"*spine shoulder": 0.75, "shoulder": 0.25},),
}
RULES: dict[str, tuple[dict[str, float], ...]] = {
    "spine base": ({"left hip": 0.5, "right hip": 0.5},),
    "hip center": ({"spine base": 0.85, "spine mid": 0.15},),
    "spine mid": ({"spine": 0.683, "shoulder center": 0.317}, {"spine base": 0.42, "spine shoulder": 0.58}),
    "spine": ({"spine base": 0.6, "spine mid": 0.4},),
    "spine 1": ({"spine base": 0.6, "spine mid": 0.4},),
    "spine 3": ({"spine mid": 0.5, "spine shoulder": 0.5},),
    "spine shoulder": (
        {"shoulder center": 0.5, "left shoulder": 0.25, "right shoulder": 0.25},
        {"left shoulder": 0.5, "right shoulder": 0.5},
    ),
    "shoulder center": ({"neck": 1.0},),
    "neck": ({"shoulder center": 1.0}, {"spine shoulder": 1.14, "spine base": -0.14}),
    "head": (
        {"left ear": 0.5, "right ear": 0.5},
        {"left eye": 0.5, "right eye": 0.5},
        {"nose": 1.0},
        {"spine shoulder": 1.42, "spine base": -0.42},
    ),
    **{
        f"{side} {joint}": tuple(
            {name[1:] if name[0] == "*" else f"{side} {name}": weight for name, weight in rule.items()}
            for rule in rules
        )
        for side in SIDES
        for joint, rules in _SIDED.items()
    },
}
"""Joint -> sums of other joints that replace it, the best first. Extrapolated lengths were measured on Kinect v2
(UI-PRMD); spine mid and neck of Kinect v1 follow arXiv 2604.17013."""


@dataclass(frozen=True)
class JointMapping:
    """Target joints as weighted sums of source joints."""

    weights_JK: np.ndarray
    """float64 [target joints, source joints]; rows of absent joints are 0."""
    kinds: dict[str, Kind]
    """Kind of each target joint, by its name."""
    formulas: dict[str, str]
    """Description of the sum for each target joint; "" = absent."""

    @property
    def summary(self) -> str:
        """Number of exact joints, and the names of the others by kind."""
        kinds = ("midpoint", "extrapolated", "absent")
        named = {kind: [joint for joint, value in self.kinds.items() if value == kind] for kind in kinds}
        others = [f"{kind}: {', '.join(joints)}" for kind, joints in named.items() if joints]
        return "; ".join([f"{list(self.kinds.values()).count('exact')} exact", *others])

    def apply(self, x: np.ndarray, confidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert coordinates [..., K, 3] and confidence [..., K] to [..., J, 3] and [..., J], float32.

        The confidence of a joint is the lowest one of its sum; joints of confidence 0 are at 0.
        """
        used_JK = self.weights_JK != 0
        spread = np.where(used_JK, confidence[..., None, :], np.inf).min(axis=-1)
        certain = np.where(used_JK.any(axis=1), spread, 0)
        y = np.einsum("jk,...kc->...jc", self.weights_JK, x) * (certain > 0)[..., None]
        return y.astype(np.float32), certain.astype(np.float32)


def joint_mapping(joints: Sequence[str], target: Topology) -> JointMapping:
    """Return the mapping from joints of these names to ``target``; raise if it would have no hips or shoulders."""
    places = {name: row for name, row in zip(_common_names(joints), np.eye(len(joints)))}
    weights_JK, kinds, formulas = np.zeros((target.num_joints, len(joints))), dict[str, Kind](), {}
    for j, (joint, name) in enumerate(zip(target.joints, _common_names(target.joints))):
        place_K = _place(name, places, ())
        weights_JK[j] = 0 if place_K is None else place_K
        used = [(weight, joints[k]) for k, weight in enumerate(weights_JK[j].tolist()) if weight]
        formulas[joint] = " + ".join(source if weight == 1 else f"{weight:.3g} {source}" for weight, source in used)
        kinds[joint] = _kind([weight for weight, _ in used])
    trunk = [f"{side} {joint}" for side in SIDES for joint in ("hip", "shoulder")]
    if lost := [joint for joint in trunk if kinds.get(joint) == "absent"]:
        raise SkelbenchError(
            f"joints {', '.join(joints)[:200]}: none is the {lost[0]}, so they do not make {target.name}"
        )
    return JointMapping(weights_JK, kinds, formulas)


def _kind(weights: Sequence[float]) -> Kind:
    if not weights:
        return "absent"
    if min(weights) < 0:
        return "extrapolated"
    return "exact" if len(weights) == 1 else "midpoint"


def _common_names(joints: Sequence[str]) -> list[str]:
    """Return names as :data:`RULES` has them; a neck without collars or a joint below it is between the shoulders."""
    neck = set(joints).isdisjoint((*BETWEEN_SHOULDERS[:3], "left collar", "lower neck"))
    names = {**SAME, **({"neck": "spine shoulder"} if neck else {})}
    if "thorax" in joints and "spine" in joints:  # Human3.6M: half way up
        names["spine"] = "spine mid"
    common = [names.get(joint, joint) for joint in joints]
    return [name if common.count(name) == 1 else joint for name, joint in zip(common, joints)]


def _place(name: str, places: Mapping[str, np.ndarray], asked: tuple[str, ...]) -> np.ndarray | None:
    """Return the weights of ``name``; None if no rule leads to existing joints."""
    if name in places:
        return places[name]
    for rule in () if name in asked else RULES.get(name, ()):
        parts = [(weight, _place(part, places, (*asked, name))) for part, weight in rule.items()]
        if all(part is not None for _, part in parts):
            return np.sum([weight * part for weight, part in parts if part is not None], axis=0)
    return None
