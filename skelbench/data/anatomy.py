"""Is this a person? Bone lengths, which way is up, and whether left is left, measured on a sample of clips.

N clips of the sample, T frames, J joints, C = 3 coordinates. Lengths in metres.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skelbench.data.store.clip_store import ClipStore
from skelbench.views.skeleton.topology import Topology

JOINTS = tuple(f"{side} {joint}" for joint in ("hip", "shoulder", "knee", "ankle") for side in ("left", "right"))
"""Joints of a whole body that tell up from down and left from right."""
SAMPLE = 2000
"""Most clips that are looked at, evenly spread over the store."""


@dataclass(frozen=True)
class Anatomy:
    """Medians over the clips of the sample, first bodies only."""

    clips: int
    """N."""
    bone_J: np.ndarray
    """Length of the bone from each joint to its parent; nan at the root."""
    spread_J: np.ndarray
    """Variation within a clip: the range of the middle 80 % of frames as a share of the median length."""
    up_NC: np.ndarray
    """Unit vector from mid-hips to mid-shoulders, mean over a clip."""
    left_N: np.ndarray
    """Above 0 where the side called left is left of where the body looks, in right-handed coordinates; 0 = no sign."""
    off_centre: float
    """Distance of the centre joint in the first frame from the origin."""


def measure(store: ClipStore) -> Anatomy | None:
    """Look at a sample of ``store``. None where its skeleton does not name all of ``JOINTS``, as that of a hand, or no
    clip of the sample shows anybody, as in a damaged store."""
    topology = store.topology
    if not set(JOINTS) <= set(topology.joints):
        return None
    bones, spreads, ups, lefts, offs = [], [], [], [], []
    for clip in np.unique(np.linspace(0, len(store) - 1, min(SAMPLE, len(store))).round().astype(int)):
        x_TJC = store.clip(clip)[0].astype(np.float64)
        x_TJC = x_TJC[np.ptp(x_TJC, axis=1).any(axis=1)]
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
    return Anatomy(len(bones), bone_J, spread_J, np.array(ups), np.array(lefts), float(np.median(offs)))


def axes_of(x_TJC: np.ndarray, topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    """(from right to left, from mid-hips to mid-shoulders) of a body, [T, C] each."""
    at = {name: x_TJC[:, j] for j, name in enumerate(topology.joints)}
    side = at["left hip"] - at["right hip"] + at["left shoulder"] - at["right shoulder"]
    up = (at["left shoulder"] + at["right shoulder"] - at["left hip"] - at["right hip"]) / 2
    return side, up


def handedness(x_TJC: np.ndarray, topology: Topology) -> float:
    """Sum over frames of left . (up x ahead): positive when the side called left is the left one.

    Ahead is where feet point, knees bend to, and the nose stands out from the ears (or from the line between shoulders
    and head). Mirrored coordinates and swapped names both turn the sign, turning the body about any axis does not.
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
    """From the nearest point of the line through ``a`` and ``b`` to ``p``; [T, C] each."""
    along = b - a
    share = ((p - a) * along).sum(axis=1) / np.maximum((along**2).sum(axis=1), 1e-12)
    return p - a - share[:, None] * along
