"""Contents of a picture, before anything is drawn: panels of bodies in motion, seen by one camera (numpy only).

M bodies, T frames, J joints, P temporal tokens, C = 3 coordinates (meters; Y up).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.text import plain
from skelbench.data.store.clip_store import ClipStore
from skelbench.views.skeleton.topology import Topology

ASIDE_DEG, PITCH_DEG = 35.0, 12.0
"""Angle of the viewer to the side of the first body's front, and above it."""
COLORS = (("#1d4ed8", "#38bdf8", "#475569"), ("#b91c1c", "#f59e0b", "#78716c"), ("#15803d", "#4ade80", "#57534e"))
"""Left, right and middle of each body: the left is the darker side."""
HIDDEN = "#9ca3af"
"""Color of joints and bones that a mask hides."""
NEAR = 15.0
"""Joints farther from the main body than this multiple of its size neither scale nor turn the picture."""


@dataclass(frozen=True)
class Panel:
    """A stored clip or one view of it."""

    title: str
    x_MTJC: np.ndarray
    note: str = ""
    hidden_MPJ: np.ndarray | None = None
    """bool: tokens that a mask hides; token p covers frames p * T / P up to the next one's. None = no mask."""
    drawn_MTJ: np.ndarray | None = None
    """bool: False for padding and joints that were not detected. None = all are drawn."""

    @property
    def frames(self) -> int:
        """T."""
        return self.x_MTJC.shape[1]

    @property
    def tokens(self) -> int | None:
        """P of a masked view."""
        return None if self.hidden_MPJ is None else self.hidden_MPJ.shape[1]

    def hidden(self, frame: int) -> np.ndarray:
        """bool [M, J] at one frame."""
        if self.hidden_MPJ is None:
            return np.zeros(self.x_MTJC.shape[::2], dtype=bool)
        return self.hidden_MPJ[:, frame * self.hidden_MPJ.shape[1] // self.frames]

    @cached_property
    def there_MTJ(self) -> np.ndarray:
        """bool: joints to draw; a body whose joints are all in one place is absent."""
        there_MTJ = np.ones(self.x_MTJC.shape[:3], dtype=bool) if self.drawn_MTJ is None else self.drawn_MTJ
        return there_MTJ & np.ptp(self.x_MTJC, axis=2).any(axis=-1)[..., None]

    @cached_property
    def main(self) -> int:
        """The body that is present in most frames."""
        return int(self.there_MTJ.any(axis=2).sum(axis=1).argmax())

    @cached_property
    def near_MTJ(self) -> np.ndarray:
        """bool: joints to draw that are not far from the main body; all of them without a main body."""
        there_TJ = self.there_MTJ[self.main]
        seen_T = there_TJ.any(axis=1)
        if not seen_T.any():
            return self.there_MTJ
        x_TJC = np.where(there_TJ[..., None], self.x_MTJC[self.main], np.nan)
        center_TC = np.full((self.frames, 3), np.nanmedian(x_TJC, axis=(0, 1)))
        center_TC[seen_T] = np.nanmedian(x_TJC[seen_T], axis=1)
        size_T = np.nanquantile(np.linalg.norm(x_TJC[seen_T] - center_TC[seen_T, None], axis=2), 0.75, axis=1)
        far_MTJ = np.linalg.norm(self.x_MTJC - center_TC[None, :, None], axis=3)
        return self.there_MTJ & (far_MTJ <= NEAR * np.median(size_T))

    def key_frames(self, count: int, most: int) -> list[int]:
        """The middle frame of each token, of every second or third ... if there are more than ``most``; without tokens
        ``count`` evenly spaced frames, both ends included."""
        if not self.tokens:
            return self.evenly(count)
        every = -(-self.tokens // most)
        return [int((p + 0.5) * self.frames / self.tokens) for p in range(0, self.tokens, every)]

    def evenly(self, count: int) -> list[int]:
        """At most ``count`` evenly spaced frames, both ends included."""
        return sorted(set(np.linspace(0, self.frames - 1, count).round().astype(int).tolist()))


@dataclass(frozen=True)
class Scene:
    """Panels under one title."""

    title: str
    topology: Topology
    panels: tuple[Panel, ...]
    fps: float
    flat: bool = False
    """2-D poses, seen straight on."""

    @property
    def floor(self) -> float:
        """Median height of the lowest joint of the first panel's main body."""
        first = self.panels[0]
        low_T = np.where(first.near_MTJ, first.x_MTJC[..., 1], np.inf)[first.main].min(axis=1)
        return float(np.median(low_T[np.isfinite(low_T)])) if np.isfinite(low_T).any() else 0.0

    @property
    def sides(self) -> list[int]:
        """0 left, 1 right, 2 middle, for every joint; a bone has the side of its outer joint."""
        sides = {"left": 0, "right": 1}
        return [sides.get(name.split()[0], 2) for name in self.topology.joints]

    @cached_property
    def angles(self) -> tuple[float, float]:
        """Yaw and pitch of the camera, radians: flat poses straight on, one body from the front and a little from the
        side, two bodies side by side."""
        return (0.0, 0.0) if self.flat else (-self._heading(), float(np.deg2rad(PITCH_DEG)))

    @cached_property
    def camera(self) -> np.ndarray:
        """[3, 3], rows right, up and towards the viewer."""
        yaw, pitch = self.angles
        turn = np.array([[np.cos(yaw), 0, np.sin(yaw)], [0, 1, 0], [-np.sin(yaw), 0, np.cos(yaw)]])
        tilt = np.array([[1, 0, 0], [0, np.cos(pitch), -np.sin(pitch)], [0, np.sin(pitch), np.cos(pitch)]])
        return tilt @ turn

    def _heading(self) -> float:
        """Angle of the viewer about Y, radians; 0 is along +Z."""
        first, names = self.panels[0], self.topology.joints
        x_MTJC, both_T = first.x_MTJC, first.near_MTJ[:2].any(axis=2).all(axis=0)
        if len(x_MTJC) > 1 and both_T.any():
            apart_C = (x_MTJC[1] - x_MTJC[0])[both_T].mean(axis=(0, 1))
            return float(np.arctan2(-apart_C[2], apart_C[0]))
        hips = [(names.index("left hip"), names.index("right hip"))] if {"left hip", "right hip"} <= {*names} else ()
        pairs = np.array([*(hips or self.topology.pairs)], dtype=int).reshape(-1, 2)
        if not len(pairs):  # a skeleton without sides
            return 0.0
        left_C = (x_MTJC[first.main][:, pairs[:, 0]] - x_MTJC[first.main][:, pairs[:, 1]]).mean(axis=(0, 1))
        front = np.arctan2(-left_C[2], left_C[0])  # left x up
        return float(front + np.deg2rad(ASIDE_DEG))

    @cached_property
    def size(self) -> float:
        """Meters from the middle to the upper and lower edge of a panel that hold all but stray frames."""
        return 1.05 * float(self._reach_2.max())

    @cached_property
    def shape(self) -> float:
        """Width over height of a panel that holds its bodies."""
        return float(np.clip(1.08 * self._reach_2[0] / self.size, 0.5, 1.0))

    @cached_property
    def _reach_2(self) -> np.ndarray:
        """Largest distance of bodies from the middle to the right and upwards."""
        reach = []
        for panel in self.panels:
            away_MTJ2 = np.abs((panel.x_MTJC - middle(panel)) @ self.camera[:2].T)
            away_T2 = np.where(panel.near_MTJ[..., None], away_MTJ2, 0.0).max(axis=(0, 2))
            away_T2 = away_T2[panel.near_MTJ.any(axis=(0, 2))]
            reach.append(np.quantile(away_T2, 0.98, axis=0) if len(away_T2) else np.zeros(2))
        return np.max(reach, axis=0)

    def outside(self, panel: Panel, frames: slice = slice(None)) -> np.ndarray:
        """bool [M, T]: bodies that are present without a joint in the picture."""
        seen_MTJC = (panel.x_MTJC[:, frames] - middle(panel)) @ self.camera.T
        limits = self.size * np.array([self.shape, 1.0])
        there_MTJ, out_MTJ = panel.there_MTJ[:, frames], (np.abs(seen_MTJC[..., :2]) > limits).any(axis=-1)
        return there_MTJ.any(axis=2) & (out_MTJ | ~there_MTJ).all(axis=2)


def middle(panel: Panel) -> np.ndarray:
    """[3]: center of the box around all bodies in all frames, without outliers and far bodies."""
    points = panel.x_MTJC[panel.near_MTJ] if panel.near_MTJ.any() else panel.x_MTJC.reshape(-1, 3)
    return np.quantile(points, (0.01, 0.99), axis=0).mean(axis=0)


def clip_scene(store: ClipStore, clip: int) -> Scene:
    """Return clip ``clip`` as stored; raise SkelbenchError if it shows no body, as in a damaged store."""
    flat, x_MTJC = store.meta.dimensions == 2, store.clip(clip)
    if not np.isfinite(x_MTJC).all() or not np.ptp(x_MTJC, axis=2).any():
        raise SkelbenchError(
            f"clip {clip} of dataset {store.path.name} cannot be drawn, it shows nobody or is damaged; choose another "
            f"--clip, or see what is wrong: skelbench data verify {store.path.name}"
        )
    drawn_MTJ = None if store.confidence_FJ is None else store.confidence(clip) > 0
    panel = Panel("clip", x_MTJC, drawn_MTJ=drawn_MTJ)
    return Scene(caption(store, clip), store.topology, (panel,), store.meta.fps, flat)


def caption(store: ClipStore, clip: int) -> str:
    """Facts of a clip from the index, on one line."""
    label, length = int(store.labels[clip]), int(store.lengths[clip])
    name = f" {store.names[clip]}" if store.names is not None and store.names[clip] else ""
    bodies = f", {store.bodies[clip]} bodies" if store.bodies[clip] > 1 else ""
    return plain(
        f"{store.meta.name}, clip {clip}{name}: {store.classes[label]} (class {label}), "
        f"subject {store.index['subject'][clip]}, {length} frames, {length / store.meta.fps:.1f} s{bodies}"
    )


def find_clip(store: ClipStore, wanted: str) -> int:
    """The clip of this name or, if there is none, of this number."""
    namesakes = np.flatnonzero(np.equal(store.names, wanted)) if store.names is not None else np.zeros(0, np.int64)
    if len(namesakes):
        return int(namesakes[0])
    if wanted.isdecimal():
        if int(wanted) >= len(store):
            last = len(store) - 1
            raise SkelbenchError(f"dataset {store.meta.name} has clips 0 to {last}, there is no clip {wanted}")
        return int(wanted)
    example = f" or a name such as {store.names[0]}" if store.names is not None else "; its clips have no names"
    raise SkelbenchError(
        f"dataset {store.meta.name} has no clip {wanted!r}; give a number from 0 to {len(store) - 1}{example}"
    )
