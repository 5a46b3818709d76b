"""Bodies in imported files: skeleton, up-axis, unit and origin.

M bodies, T frames, J joints, C = x, y, z.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.anatomy import CLEAR_MAJORITY, HEAD, JOINTS, contradiction, handedness, seen_mean
from skelbench.views.skeleton.topology import Topology, get_topology, topologies

Up = Literal["auto", "y", "-y", "z", "-z", "x", "-x"]
Units = Literal["m", "cm", "mm"]

ALL_ZERO = "all its coordinates are zero"
METERS = {"m": 1.0, "cm": 0.01, "mm": 0.001}

TURNS: dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]] = {
    "y": ((0, 1, 2), (1, 1, 1)),
    "-y": ((0, 1, 2), (1, -1, -1)),
    "z": ((0, 2, 1), (1, 1, -1)),
    "-z": ((0, 2, 1), (1, -1, 1)),
    "x": ((1, 0, 2), (-1, 1, 1)),
    "-x": ((1, 0, 2), (1, -1, 1)),
}
"""Rotations that make an axis point up: (which axes become x, y, z; with which sign). Left stays left."""

LOW_M, HIGH_M = 0.75, 3.0
"""Range of the height from ankles to head, in meters: people who stand, walk or sit; bones and motions give less."""

SMALLEST_M, LARGEST_M = 0.02, 10.0
"""Range of the longer side of a body's box in meters, median over a clip; hands are inside, sensor noise is below."""


def choose_topology(joints: int, requested: str | None, where: str, sample: Iterable[np.ndarray] = ()) -> Topology:
    """Return the skeleton with this number of joints; clips [..., J, C] decide between several; else raise."""
    every = topologies().values()
    fitting = [topology for topology in every if topology.num_joints == joints]
    listing = ", ".join(f"{topology.name} with {topology.num_joints}" for topology in every)
    if requested is not None:
        fitting = [get_topology(requested)]
        if fitting[0].num_joints != joints:
            raise SkelbenchError(f"{where}: {joints} joints, but topology {requested} has {fitting[0].num_joints}")
    if not fitting:
        advice = "convert the joints, or write a skeleton plugin (docs/writing_a_skeleton.md): --plugin FILE"
        raise SkelbenchError(f"{where}: {joints} joints fit no known skeleton (known: {listing}); {advice}")
    if len(fitting) > 1:
        clips = list(sample)
        human = [topology for topology in fitting if contradiction(clips, topology) == ""]
        flat = bool(clips) and clips[0].shape[-1] == 2
        fitting = human if len(human) == 1 else [topology for topology in fitting if flat or topology.name != "body25"]
    if len(fitting) > 1:
        names = " or ".join(topology.name for topology in fitting)
        raise SkelbenchError(f"{where}: {joints} joints are those of {names}; say which with --topology")
    return fitting[0]


@dataclass(frozen=True)
class Pose:
    """Rotation and scale that turn a file's coordinates into meters with Y up."""

    up: str
    scale: float = 1.0

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Turn and scale coordinates [..., 3]; exact where the scale is 1. Zeros stay zeros."""
        axes, signs = TURNS[self.up]
        x = np.asarray(x, dtype=np.float32)
        if self.up != "y":
            x = x[..., list(axes)] * np.array(signs, dtype=np.float32) + np.float32(0)  # + 0: no negative zeros
        return x if self.scale == 1.0 else x * np.float32(self.scale)


def find_pose(
    sample: Sequence[np.ndarray],
    topology: Topology,
    up: Up,
    units: Units,
    where: str,
    *,
    usual: Up = "auto",
    flat: bool = False,
) -> Pose:
    """Find unit and up-axis of clips [M, T, J, 3] by their bodies; raise if they cannot be joints of this skeleton.

    ``up`` other than "auto" is not checked. ``units`` are accepted if the bodies have the size of people. ``usual``,
    the up-axis of the format, is accepted if some bodies stand along it, or if most stand along no axis.
    ``flat``: 2-D poses, whose unit is known; a joint at 0 was not seen.
    """
    upper = [j for j, name in enumerate(topology.joints) if name in ("head", "nose")]
    lower = [j for j, name in enumerate(topology.joints) if name.endswith("ankle")]
    if not upper or not lower:  # a plugin's skeleton, of a hand for instance
        if up == usual == "auto":
            raise SkelbenchError(f"{where}: skeleton {topology.name} has no head or ankles; say what is up with --up")
        return Pose(usual if up == "auto" else up, METERS[units])
    if not flat and _holds_scores(sample):
        raise SkelbenchError(f"{where}: one axis is in 0 to 1, as of pixels with a score; use keypoint_score")
    tall = []
    for x_MTJC in sample:
        x_FJC = x_MTJC.reshape(-1, *x_MTJC.shape[2:]).astype(np.float64)
        x_FJC = x_FJC[x_FJC.any(axis=(1, 2)) & np.isfinite(x_FJC).all(axis=(1, 2))]
        tall_FC = x_FJC[:, upper].mean(1) - x_FJC[:, lower].mean(1)
        if flat:  # ankles are often outside the image
            x_FJC = np.where(x_FJC.any(axis=-1, keepdims=True), x_FJC, np.nan)
            head_J = np.isin(topology.joints, HEAD)
            tall_FC = np.nan_to_num(seen_mean(x_FJC[:, head_J], 1) - seen_mean(x_FJC[:, ~head_J], 1))
        if tall_FC.any():
            tall.append(tall_FC[tall_FC.any(axis=1)])
    if not tall and flat and usual != "auto":
        return Pose(usual if up == "auto" else up)
    if not tall:
        raise SkelbenchError(f"{where}: no frame of its first clips shows a head and ankles; check the file")
    height = float(np.median(np.linalg.norm(np.concatenate(tall), axis=1))) * METERS[units]
    if not flat and not LOW_M <= height <= HIGH_M:
        fits = [unit for unit, meters in METERS.items() if LOW_M <= height / METERS[units] * meters <= 2.5]
        hint = f"say --units {fits[0]}" if fits else "give the file of joint positions in meters"
        reason = "" if fits else ", which no joint positions do (bone vectors, motions, pixels or rescaled skeletons?)"
        raise SkelbenchError(f"{where}: from head to ankles its bodies measure {height:.4g} m{reason}; {hint}")
    _check_joints(sample, topology, where)
    pose = Pose(_up_of(tall, usual, where) if up == "auto" else up, METERS[units])
    if not flat and set(JOINTS) <= set(topology.joints):
        bodies = [x_MTJC[0][np.isfinite(x_MTJC[0]).all((1, 2)) & x_MTJC[0].any((1, 2))] for x_MTJC in sample]
        mirrored = sum(handedness(x_TJC.astype(np.float64), topology) < 0 for x_TJC in bodies)
        if mirrored > CLEAR_MAJORITY * (len(sample) + 1):
            wrong = f"left and right are exchanged in {mirrored} of {len(sample)} clips"
            raise SkelbenchError(f"{where}: {wrong}, or the axes are mirrored; negate one axis or swap the joints")
    return pose


def _up_of(tall: Sequence[np.ndarray], usual: Up, where: str) -> str:
    """Return the axis along which bodies stand; ``tall``: from ankles to head [F, 3], for each clip."""
    ups = [(tall_FC / np.linalg.norm(tall_FC, axis=1, keepdims=True)).mean(axis=0) for tall_FC in tall]
    mean_C = np.mean(ups, axis=0)
    axis = int(np.argmax(np.abs(mean_C)))
    up: str = ("" if mean_C[axis] > 0 else "-") + "xyz"[axis] if abs(mean_C[axis]) >= 0.5 else usual
    if usual != "auto":  # clips of people who lie do not refute a format
        usual_C = np.eye(3)["xyz".index(usual[-1])] * (-1 if usual[0] == "-" else 1)
        up = usual if np.mean([up_C @ usual_C > np.sqrt(0.5) for up_C in ups]) > 1 - CLEAR_MAJORITY else up
    if up == "auto":
        raise SkelbenchError(f"{where}: its bodies do not show which axis points up; say which with --up")
    if usual not in ("auto", up):
        raise SkelbenchError(f"{where}: its bodies stand along {up}; say --up {up} or --up {usual}")
    return up


def _check_joints(sample: Sequence[np.ndarray], topology: Topology, where: str) -> None:
    """Raise if the joints of the clips are in another order than this skeleton's."""
    if wrong := contradiction(sample, topology):
        same_size = [body for body in topologies().values() if body.num_joints == topology.num_joints]
        fitting = [f"say --topology {body.name}" for body in same_size if contradiction(sample, body) == ""]
        advice = next(iter(fitting), "put the joints in its order, or write a skeleton plugin")
        raise SkelbenchError(f"{where}: its joints are not in the order of {topology.name}: {wrong}; {advice}")


def _holds_scores(sample: Sequence[np.ndarray]) -> bool:
    """Whether one axis of clips [M, T, J, 3] is in 0 to 1, as scores are, while the others are pixels."""
    seen_nC = np.concatenate([x_MTJC[x_MTJC.any(axis=-1)] for x_MTJC in sample])
    low_C, high_C = np.nanmin(seen_nC, axis=0), np.nanmax(seen_nC, axis=0)
    score_C = (low_C >= 0) & (high_C <= 1) & (high_C > low_C)
    return bool(score_C.sum() == 1 and (high_C - low_C)[~score_C].min() > 20)


class Unusable(Exception):
    """Reason why a clip is skipped; ``expected``: the format foresees it, for example a clip without a person."""

    def __init__(self, reason: str, expected: bool = False) -> None:
        super().__init__(reason)
        self.expected = expected


def check_finite(x_MTJC: np.ndarray, score_MTJ: np.ndarray | None = None) -> None:
    """Raise :class:`Unusable` for a coordinate or a score that is not a finite number."""
    finite_MTJ = np.isfinite(x_MTJC).all(axis=-1) & (True if score_MTJ is None else np.isfinite(score_MTJ))
    if not finite_MTJ.all():
        body, frame, joint = np.argwhere(~finite_MTJ)[0].tolist()
        hint = "" if score_MTJ is None else "; give unseen joints the score 0"
        raise Unusable(f"a coordinate is not a finite number (joint {joint} of body {body} in frame {frame}){hint}")


def check_usable(x_MTJC: np.ndarray, confidence_MTJ: np.ndarray | None = None) -> None:
    """Raise :class:`Unusable` for a clip that no run could use; coordinates are meters with Y up.

    Joints of confidence 0, which are at the origin, do not count for the size of bodies.
    """
    check_finite(x_MTJC)
    seen_MT = x_MTJC.any(axis=(2, 3))
    seen_FJC = x_MTJC[seen_MT]
    if not len(seen_FJC):
        raise Unusable(ALL_ZERO, expected=True)
    sure_FJ1 = True if confidence_MTJ is None else (confidence_MTJ[seen_MT] > 0)[..., None]
    high_FC, low_FC = (sign * np.where(sure_FJ1, sign * seen_FJC, -np.inf).max(axis=1) for sign in (1, -1))
    size = float(np.median((high_FC - low_FC).max(axis=1)))
    # A flat body may show a single joint, which has no size.
    if size > LARGEST_M or (size < SMALLEST_M and seen_FJC[..., 2].any()):
        raise Unusable(f"its bodies measure {size:.3g} m from end to end, which no joint positions in meters do")


def seen_longest(seen_MT: np.ndarray, most: int) -> np.ndarray:
    """Return the bodies that are in some frame, at most ``most``; bodies seen in more frames come first."""
    bodies = np.flatnonzero(seen_MT.any(axis=1))
    longest = np.argsort(-seen_MT[bodies].sum(axis=1), kind="stable")[:most]
    return np.sort(bodies[longest])


def center(x_MTJC: np.ndarray, joint: int) -> tuple[np.ndarray, np.ndarray]:
    """Move ``joint`` of the first body, in the first frame that shows it, to 0: the clip (float32), the old place.

    Bodies that are absent from a frame (all zeros) stay zeros. A clip with ``joint`` at 0 is returned unchanged.
    """
    x_MTJC = np.asarray(x_MTJC, dtype=np.float32)
    seen_MT = np.any(x_MTJC, axis=(2, 3))
    body = int(np.argmax(seen_MT.any(axis=1)))
    origin = x_MTJC[body, int(np.argmax(seen_MT[body])), joint].copy()
    if origin.any():
        x_MTJC = np.where(seen_MT[:, :, None, None], x_MTJC - origin, np.float32(0))
    return x_MTJC, origin
