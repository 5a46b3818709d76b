"""What a picture shows, before anything is drawn: panels of bodies in motion, seen by one camera (numpy only).

M bodies, T frames, J joints, P temporal tokens, C = 3 coordinates (metres; Y up).
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
"""How far the viewer stands to the side of where the first body looks, and above it."""
COLOURS = (("#1d4ed8", "#38bdf8", "#475569"), ("#b91c1c", "#f59e0b", "#78716c"), ("#15803d", "#4ade80", "#57534e"))
"""Left, right and middle of each body in turn: the left is the darker side."""
FAR_M = 1e6
"""No coordinate of a picture is farther from the origin."""
HIDDEN = "#9ca3af"
"""Joints and bones that a mask hides."""
NEAR = 15.0
"""What is farther from the clip's main body than so many times its size neither scales the picture nor turns it."""


@dataclass(frozen=True)
class Panel:
    """One take: a stored clip or one view of it."""

    title: str
    x_MTJC: np.ndarray
    note: str = ""
    hidden_MPJ: np.ndarray | None = None
    """bool: tokens a mask hides; token p covers frames p * T / P up to the next one's. None = no mask."""
    drawn_MTJ: np.ndarray | None = None
    """bool: False where there is nothing to draw (padding, joints that were not found). None = all that is there."""

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
        """bool: what is drawn; a body whose joints are all in one place is absent."""
        there_MTJ = np.ones(self.x_MTJC.shape[:3], dtype=bool) if self.drawn_MTJ is None else self.drawn_MTJ
        return there_MTJ & np.ptp(self.x_MTJC, axis=2).any(axis=-1)[..., None]

    def drawn(self, frame: int) -> np.ndarray:
        """bool [M, J] at one frame."""
        return self.there_MTJ[:, frame]

    @cached_property
    def main(self) -> int:
        """The body that is there for most frames."""
        return int(self.there_MTJ.any(axis=2).sum(axis=1).argmax())

    @cached_property
    def near_MTJ(self) -> np.ndarray:
        """bool: what is there and not far from the main body; all that is there where that is not known."""
        there_TJ = self.there_MTJ[self.main]
        seen_T = there_TJ.any(axis=1)
        if not seen_T.any():
            return self.there_MTJ
        x_TJC = np.where(there_TJ[..., None], self.x_MTJC[self.main], np.nan)
        centre_TC = np.full((self.frames, 3), np.nanmedian(x_TJC, axis=(0, 1)))
        centre_TC[seen_T] = np.nanmedian(x_TJC[seen_T], axis=1)
        size_T = np.nanquantile(np.linalg.norm(x_TJC[seen_T] - centre_TC[seen_T, None], axis=2), 0.75, axis=1)
        far_MTJ = np.linalg.norm(self.x_MTJC - centre_TC[None, :, None], axis=3)
        return self.there_MTJ & (far_MTJ <= NEAR * np.median(size_T))

    def key_frames(self, count: int, most: int) -> list[int]:
        """The middle frame of each token, of every second or third ... if there are more than ``most``; without tokens
        ``count`` evenly spaced frames, both ends included."""
        if self.tokens:
            every = -(-self.tokens // most)
            return [int((p + 0.5) * self.frames / self.tokens) for p in range(0, self.tokens, every)]
        return self.evenly(count)

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
    """2-D poses: seen straight on."""

    @property
    def floor(self) -> float:
        """Height of the lowest joints of the first panel's main body, single outliers left aside."""
        first = self.panels[0]
        low_T = np.where(first.near_MTJ, first.x_MTJC[..., 1], np.inf)[first.main].min(axis=1)
        return float(np.median(low_T[np.isfinite(low_T)])) if np.isfinite(low_T).any() else 0.0

    @property
    def sides(self) -> list[int]:
        """0 left, 1 right, 2 middle, for every joint; a bone has the side of its outer joint."""
        known = {"left": 0, "right": 1}
        return [known.get(name.split()[0], 2) for name in self.topology.joints]

    @cached_property
    def angles(self) -> tuple[float, float]:
        """Yaw and pitch of the camera, radians: flat poses straight on, one body from the front and a little from the
        side, two so that they stand side by side."""
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
        if not len(pairs):  # a skeleton without sides is looked at from where its data come
            return 0.0
        left_C = (x_MTJC[first.main][:, pairs[:, 0]] - x_MTJC[first.main][:, pairs[:, 1]]).mean(axis=(0, 1))
        front = np.arctan2(-left_C[2], left_C[0])  # left x up
        return float(front + np.deg2rad(ASIDE_DEG))

    @cached_property
    def size(self) -> float:
        """Metres from the middle to the upper and lower edge of a panel that hold all but stray frames."""
        return 1.05 * max(self._reach(1), self._reach(0))

    @cached_property
    def shape(self) -> float:
        """Width over height of a panel that holds its bodies."""
        return float(np.clip(1.08 * self._reach(0) / self.size, 0.5, 1.0))

    def _reach(self, axis: int) -> float:
        """How far from the middle bodies come on the picture's axis 0 (right) or 1 (up)."""
        return max(self._reach_of(panel, axis) for panel in self.panels)

    def _reach_of(self, panel: Panel, axis: int) -> float:
        away_MTJ = np.abs((panel.x_MTJC - middle(panel)) @ self.camera[axis])
        at_T = np.where(panel.near_MTJ, away_MTJ, 0.0).max(axis=(0, 2))[panel.near_MTJ.any(axis=(0, 2))]
        return float(np.quantile(at_T, 0.98)) if len(at_T) else 0.0

    def outside(self, panel: Panel, frames: slice = slice(None)) -> np.ndarray:
        """bool [M, T]: bodies that are there and of which no joint is in the picture."""
        seen_MTJC = (panel.x_MTJC[:, frames] - middle(panel)) @ self.camera.T
        limits = self.size * np.array([self.shape, 1.0])
        there_MTJ, out_MTJ = panel.there_MTJ[:, frames], (np.abs(seen_MTJC[..., :2]) > limits).any(axis=-1)
        return there_MTJ.any(axis=2) & (out_MTJ | ~there_MTJ).all(axis=2)


def middle(panel: Panel) -> np.ndarray:
    """[3]: centre of the box around all bodies in all frames, single outliers and what is far away left aside."""
    points = panel.x_MTJC[panel.near_MTJ] if panel.near_MTJ.any() else panel.x_MTJC.reshape(-1, 3)
    return np.quantile(points, (0.01, 0.99), axis=0).mean(axis=0)


def clip_scene(store: ClipStore, clip: int) -> Scene:
    """Clip ``clip`` as it is stored; one that shows nobody, as in a damaged store, is refused."""
    flat, x_MTJC = store.meta.dimensions == 2, store.clip(clip)
    finite = (np.abs(x_MTJC) <= FAR_M).all()
    if not finite or not np.ptp(x_MTJC, axis=2).any():
        why = "all its joints are in one place" if finite else "its coordinates are not finite, or far too large"
        raise SkelbenchError(
            f"clip {clip} of data set {store.path.name} cannot be drawn, {why}; choose another --clip, or see what is "
            f"wrong: skelbench data verify {store.path.name}"
        )
    drawn_MTJ = None if store.confidence_FJ is None else store.confidence(clip) > 0
    panel = Panel("clip", x_MTJC, drawn_MTJ=drawn_MTJ)
    return Scene(caption(store, clip), store.topology, (panel,), float(store.fps[clip]), flat)


def caption(store: ClipStore, clip: int) -> str:
    """What the index says about a clip, on one line."""
    label, length = int(store.labels[clip]), int(store.lengths[clip])
    name = f" {store.names[clip]}" if store.names is not None and store.names[clip] else ""
    bodies = f", {store.bodies[clip]} bodies" if store.bodies[clip] > 1 else ""
    return plain(
        f"{store.meta.name}, clip {clip}{name}: {store.classes[label]} (class {label}), "
        f"subject {store.index['subject'][clip]}, {length} frames, {length / store.fps[clip]:.1f} s{bodies}"
    )


def find_clip(store: ClipStore, wanted: str) -> int:
    """The clip of that name or, if none is called so, of that number."""
    namesakes = np.flatnonzero(np.equal(store.names, wanted)) if store.names is not None else np.zeros(0, np.int64)
    if len(namesakes):
        return int(namesakes[0])
    if wanted.isdecimal():
        if int(wanted) >= len(store):
            last = len(store) - 1
            raise SkelbenchError(f"data set {store.meta.name} has clips 0 to {last}, there is no clip {wanted}")
        return int(wanted)
    example = f" or a name such as {store.names[0]}" if store.names is not None else "; its clips have no names"
    raise SkelbenchError(
        f"data set {store.meta.name} has no clip {wanted!r}; give a number from 0 to {len(store) - 1}{example}"
    )
