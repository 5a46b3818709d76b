"""Plausibility checks of bodies: bone lengths, up axis, left and right, measured on a sample of clips.

N clips of the sample, T frames, J joints, C = 3 coordinates. Lengths in meters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from skelbench.data.store.clip_store import ClipStore
from skelbench.views.skeleton.topology import Topology
from skelbench.views.skeleton.topology.tree import BETWEEN_SHOULDERS

JOINTS = tuple(f"{side} {joint}" for joint in ("hip", "shoulder", "knee", "ankle") for side in ("left", "right"))
"""Joints of a whole body that tell up from down and left from right."""
HEAD = ("head", "nose", "left eye", "right eye", "left ear", "right ear")
BETWEEN_HIPS = ("spine base", "hip center", "pelvis")
DETOUR = 1.4
"""Longest allowed bone, as a multiple of the longest step on the best path through other joints."""
SHORT_BONE = 0.3
"""Shorter bones are not checked; a fraction of the trunk's length."""
MAJORITY = 0.5
"""A rule about the trunk is broken if more than this fraction of clips contradict it."""
CLEAR_MAJORITY = 0.8
"""The same limit for rules about sides and bones, because left and right are noisy in side views."""
SAMPLE = 2000
"""Largest number of clips that are measured, evenly spread over the store."""


@dataclass(frozen=True)
class Anatomy:
    """Medians over the clips of the sample, first bodies only."""

    clips: int
    """N."""
    bone_J: np.ndarray
    """Length of the bone from each joint to its parent; nan at the root."""
    spread_J: np.ndarray
    """Variation within a clip: the range of the middle 80 % of frames as a fraction of the median length."""
    up_NC: np.ndarray
    """Unit vector from mid-hips to mid-shoulders, mean over a clip."""
    left_N: np.ndarray
    """Above 0 if the joints named left are on the body's left, in right-handed coordinates; 0 = unclear."""
    off_center: float
    """Distance of the center joint in the first frame from the origin."""
    contradiction: str
    """Reason why the joints are in the wrong order; "" if none was found."""


def measure(store: ClipStore) -> Anatomy | None:
    """Measure a sample of ``store``. Returns None if its skeleton lacks one of ``JOINTS`` (a hand, for example), or if
    no clip of the sample shows a body (a damaged store)."""
    topology = store.topology
    if not set(JOINTS) <= set(topology.joints):
        return None
    bones, spreads, ups, lefts, offs, clips = [], [], [], [], [], []
    for clip in np.unique(np.linspace(0, len(store) - 1, min(SAMPLE, len(store))).round().astype(int)):
        x_TJC = store.clip(clip)[0].astype(np.float64)
        shown_T = np.ptp(x_TJC, axis=1).any(axis=1)
        clips.append(np.where(store.confidence(clip)[0, shown_T, :, None] > 0, x_TJC[shown_T], 0))
        x_TJC = x_TJC[shown_T]
        if not len(x_TJC):
            continue
        length_TJ = np.linalg.norm(x_TJC - x_TJC[:, [max(parent, 0) for parent in topology.parents]], axis=2)
        low_J, median_J, high_J = np.quantile(length_TJ, (0.1, 0.5, 0.9), axis=0)
        bones.append(median_J)
        spreads.append((high_J - low_J) / np.maximum(median_J, 1e-9))
        up_C = axes_of(x_TJC, topology)[1].mean(axis=0)
        ups.append(up_C / max(float(np.linalg.norm(up_C)), 1e-9))
        lefts.append(handedness(x_TJC, topology))
        offs.append(float(np.linalg.norm(x_TJC[0, topology.center])))
    if not bones:
        return None
    bone_J, spread_J = np.median(bones, axis=0), np.median(spreads, axis=0)
    bone_J[topology.root] = spread_J[topology.root] = np.nan
    wrong = contradiction(clips, topology) or ""
    return Anatomy(len(bones), bone_J, spread_J, np.array(ups), np.array(lefts), float(np.median(offs)), wrong)


def contradiction(clips: Iterable[np.ndarray], topology: Topology) -> str | None:
    """Return why the joints of ``clips`` [..., J, C] do not fit ``topology``, in words; "" if they fit.

    A joint at 0 was not seen. Rules compare joints with the body's own trunk and need no up axis; the clips decide by
    majority. Returns None if the skeleton has no trunk or no clip shows one.
    """
    if not set(JOINTS) <= set(topology.joints):
        return None
    trunk, fails = [topology.joints.index(name) for name in JOINTS[:4]], dict[tuple[str, float], list[bool]]()
    for x in clips:
        x_FJC = np.asarray(x, dtype=np.float64).reshape(-1, *x.shape[-2:])
        x_FJC = x_FJC[np.isfinite(x_FJC).all(axis=(1, 2)) & np.ptp(x_FJC, axis=1).any(axis=1)]
        x_FJC = np.where(x_FJC.any(axis=-1, keepdims=True), x_FJC, np.nan)
        x_FJC = x_FJC[np.isfinite(x_FJC[:, trunk]).all(axis=(1, 2))]
        for rule, most, margin_F in _margins(x_FJC, topology) if len(x_FJC) else ():
            if np.isfinite(margin_F).any():
                fails.setdefault((rule, most), []).append(bool(np.nanmedian(margin_F) <= 0))
    if not fails:
        return None
    # A few clips are no evidence, so one clip without a contradiction is added.
    wrong = {rule: float(np.mean(hits)) for (rule, most), hits in fails.items() if sum(hits) > most * (len(hits) + 1)}
    if not wrong:
        return ""
    rule = max(wrong, key=lambda rule: wrong[rule])
    return f"{rule} in {wrong[rule]:.0%} of the clips"


def seen_mean(x: np.ndarray, axis: int) -> np.ndarray:
    """Return the mean without NaN; NaN if there is nothing else."""
    finite = np.isfinite(x)
    return np.asarray(np.where(finite, x, 0).sum(axis) / np.where(finite.any(axis), finite.sum(axis), np.nan))


def _margins(x_FJC: np.ndarray, topology: Topology) -> Iterator[tuple[str, float, np.ndarray]]:
    """Iterate over rules: contradiction, fraction of clips that may show it, margin [F] (above 0 is good)."""
    at = {name: x_FJC[:, j] for j, name in enumerate(topology.joints)}

    distance_FJJ = np.linalg.norm(x_FJC[:, :, None] - x_FJC[:, None], axis=-1)

    def far(a: str, b: str) -> np.ndarray:
        return distance_FJJ[:, topology.joints.index(a), topology.joints.index(b)]

    def middle(joint: str) -> np.ndarray:
        return (at[f"left {joint}"] + at[f"right {joint}"]) / 2

    hips_FC, shoulders_FC = middle("hip"), middle("shoulder")
    trunk_FC = shoulders_FC - hips_FC
    square_F = np.maximum((trunk_FC**2).sum(axis=1), 1e-12)
    head_FC = seen_mean(x_FJC[:, [j for j, name in enumerate(topology.joints) if name in HEAD]], axis=1)

    def along(point_FC: np.ndarray) -> np.ndarray:  # 0 at the hips, 1 at the shoulders
        return np.asarray(((point_FC - hips_FC) * trunk_FC).sum(axis=1) / square_F)

    yield "the head is not beyond the shoulders, seen from the hips,", MAJORITY, along(head_FC) - 1
    for joint in ("knee", "ankle"):
        yield f"the {joint}s are nearer to the shoulders than to the hips", MAJORITY, 0.5 - along(middle(joint))
    for names, sign, place in ((BETWEEN_HIPS, 1, "hips"), (BETWEEN_SHOULDERS, -1, "shoulders")):
        if name := next((name for name in names if name in at), ""):
            yield f"the {name} is not near the {place}", MAJORITY, sign * (0.5 - along(at[name]))
    legs_F = np.stack([far(f"{s} hip", f"{s} knee") + far(f"{s} knee", f"{s} ankle") for s in ("left", "right")]).max(0)
    yield "the legs are shorter than the neck", MAJORITY, legs_F - np.linalg.norm(head_FC - shoulders_FC, axis=1)
    sides = [at[f"left {joint}"] - at[f"right {joint}"] for joint in ("hip", "shoulder")]
    yield "left and right differ between hips and shoulders", CLEAR_MAJORITY, (sides[0] * sides[1]).sum(axis=1)
    for near, joint in (("hip", "knee"), ("knee", "ankle"), ("shoulder", "elbow"), ("elbow", "wrist")):
        a, b, c, d = (f"{side} {name}" for name in (near, joint) for side in ("left", "right"))
        if {a, c} <= set(at):
            other_F = far(c, b) + far(d, a)
            yield f"each {joint} belongs to the other side's {near}", CLEAR_MAJORITY, other_F - far(c, a) - far(d, b)
    distance_JJ = seen_mean(distance_FJJ, axis=0)
    step_JJ = np.nan_to_num(distance_JJ, nan=np.inf)
    for j in range(len(step_JJ)):  # the smallest possible longest step of a path
        step_JJ = np.minimum(step_JJ, np.maximum(step_JJ[:, j, None], step_JJ[None, j]))
    limit_JJ = np.maximum(DETOUR * step_JJ, SHORT_BONE * np.sqrt(np.median(square_F)))
    trunk = {*JOINTS[:4], *BETWEEN_HIPS, *BETWEEN_SHOULDERS}
    for j, parent in ((j, topology.parents[j]) for j in topology.order[1:]):
        if not {topology.joints[j], topology.joints[parent]} <= trunk:
            rule = f"the {topology.joints[j]} is far from the {topology.joints[parent]}"
            yield rule, CLEAR_MAJORITY, (limit_JJ - distance_JJ)[j, parent : parent + 1]


def axes_of(x_TJC: np.ndarray, topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    """Return the directions from right to left and from mid-hips to mid-shoulders of a body, [T, C] each."""
    at = {name: x_TJC[:, j] for j, name in enumerate(topology.joints)}
    side = at["left hip"] - at["right hip"] + at["left shoulder"] - at["right shoulder"]
    up = (at["left shoulder"] + at["right shoulder"] - at["left hip"] - at["right hip"]) / 2
    return side, up


def handedness(x_TJC: np.ndarray, topology: Topology) -> float:
    """Sum over frames of left . (up x ahead): positive if the side named left is the body's left side.

    Ahead is where feet point, knees bend to, and the nose is in front of the ears (or of the line from shoulders to
    head). Mirrored coordinates and swapped names change the sign; turning the body does not.
    """
    at = {name: x_TJC[:, j] for j, name in enumerate(topology.joints)}
    ahead_TC = np.zeros_like(x_TJC[:, 0])
    for side in ("left", "right"):
        ahead_TC += _off_line(at[f"{side} knee"], at[f"{side} hip"], at[f"{side} ankle"])
        if f"{side} foot" in at:
            ahead_TC += at[f"{side} foot"] - at[f"{side} ankle"]
        if "nose" in at and f"{side} ear" in at:
            ahead_TC += at["nose"] - at[f"{side} ear"]
    if "nose" in at and "head" in at and topology.joints[topology.anchor] not in ("nose", "head"):
        ahead_TC += _off_line(at["nose"], x_TJC[:, topology.anchor], at["head"])
    left_TC, up_TC = axes_of(x_TJC, topology)
    return float((left_TC * np.cross(up_TC, ahead_TC)).sum())


def _off_line(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the vector from the nearest point of the line through ``a`` and ``b`` to ``p``; [T, C] each."""
    along = b - a
    share = ((p - a) * along).sum(axis=1) / np.maximum((along**2).sum(axis=1), 1e-12)
    return p - a - share[:, None] * along
