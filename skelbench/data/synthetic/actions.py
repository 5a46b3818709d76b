"""Actions of the synthetic dataset: 28 of one person, 4 of two, as trajectories of joint angles.

Many pairs of actions differ in one property only: the side; the direction relative to the body (reach, kick, step,
lean), which a turned camera confuses; the order (arms up and squat, sit and stand); the sense of rotation (arm
circles); the pace (walk and run in place).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from skelbench.data.synthetic.kinematics import CHANNEL

_SIDES = ("left", "right")
_METERS = ("side", "ahead", "jump")


class Motion:
    """One person's pose over a clip, built up channel by channel.

    ``u_T`` runs from 0 to 1 over the action (and rests at 0 and 1 outside it), ``seconds`` is the action's duration,
    ``vigour`` scales all amplitudes, ``hand`` is the preferred side. Amounts are degrees, for the pelvis meters.
    """

    def __init__(
        self, pose_TA: np.ndarray, u_T: np.ndarray, seconds: float, vigour: float, hand: str, rng: np.random.Generator
    ) -> None:
        self.pose_TA, self.u_T, self.seconds = pose_TA, u_T, seconds
        self.vigour, self.hand, self.rng = vigour, hand, rng
        self.used: set[str] = set()

    @property
    def other(self) -> str:
        """The side that is not preferred."""
        return "left" if self.hand == "right" else "right"

    def keys(self, channel: str, *knots: tuple[float, float]) -> None:
        """Move through (u, amount) knots, at rest in each; before the first and after the last nothing changes."""
        times = np.sort([u + self.rng.uniform(-0.02, 0.02) for u, _ in knots])
        amounts = np.array([amount for _, amount in knots])
        k = np.clip(np.searchsorted(times, self.u_T, side="right") - 1, 0, len(knots) - 2)
        share_T = np.clip((self.u_T - times[k]) / np.maximum(times[k + 1] - times[k], 1e-3), 0.0, 1.0)
        smooth_T = share_T**3 * (10 + share_T * (6 * share_T - 15))  # least jerk between two rests
        self._add(channel, amounts[k] + (amounts[k + 1] - amounts[k]) * smooth_T)

    def swing(
        self, channel: str, amount: float, hz: float, lo: float, hi: float, phase: float = 0.0, half: bool = False
    ) -> None:
        """Oscillate between ``lo`` and ``hi`` of the action, fading in and out; ``half`` keeps the positive half."""
        fade_T = np.clip(np.minimum(self.u_T - lo, hi - self.u_T) / 0.08, 0.0, 1.0)
        wave_T = np.sin(2 * np.pi * (hz * (self.u_T - lo) * self.seconds + phase))
        self._add(channel, amount * fade_T * (np.maximum(wave_T, 0.0) if half else wave_T))

    def circle(self, channel: str, turns: float) -> None:
        """Turn a limb a whole number of times at even speed; the number does not depend on ``vigour``."""
        self.used.add(channel)
        self.pose_TA[:, CHANNEL[channel]] += 2 * np.pi * turns * self.u_T

    def _add(self, channel: str, amount_T: np.ndarray) -> None:
        self.used.add(channel)
        gain = self.vigour * self.rng.uniform(0.85, 1.15)
        unit = 1.0 if channel in _METERS else np.pi / 180
        self.pose_TA[:, CHANNEL[channel]] += gain * unit * amount_T


# ------------------------------------------------------------------------------------------------ one person
def _wave(m: Motion, side: str) -> None:
    phase, hz = m.rng.uniform(), m.rng.uniform(1.4, 2.0)
    m.keys(f"{side}.arm.spread", (0.0, 0), (0.2, 75), (0.8, 75), (1.0, 0))
    m.keys(f"{side}.arm.roll", (0.0, 0), (0.2, -80), (0.8, -80), (1.0, 0))
    m.keys(f"{side}.arm.elbow", (0.0, 0), (0.2, 75), (0.8, 75), (1.0, 0))
    m.swing(f"{side}.arm.roll", 25, hz, 0.15, 0.85, phase)
    m.swing(f"{side}.arm.spread", 12, hz, 0.15, 0.85, phase)


def _kick(m: Motion, side: str) -> None:
    m.keys(f"{side}.leg.lift", (0.0, 0), (0.25, -25), (0.5, 70), (0.7, 15), (1.0, 0))
    m.keys(f"{side}.leg.knee", (0.0, 0), (0.25, 75), (0.5, 5), (0.7, 30), (1.0, 0))
    m.keys("bend", (0.0, 0), (0.25, 8), (0.5, -12), (1.0, 0))
    m.keys(f"{'left' if side == 'right' else 'right'}.arm.lift", (0.0, 0), (0.5, 35), (1.0, 0))


def _reach(m: Motion, side: str, lift: float, spread: float) -> None:
    m.keys(f"{side}.arm.lift", (0.0, 0), (0.4, lift), (0.6, lift), (1.0, 0))
    m.keys(f"{side}.arm.spread", (0.0, 0), (0.4, spread), (0.6, spread), (1.0, 0))
    m.keys(f"{side}.arm.elbow", (0.0, 0), (0.4, -10), (0.6, -10), (1.0, 0))


def _kick_out(m: Motion, side: str) -> None:
    m.keys(f"{side}.leg.spread", (0.0, 0), (0.45, 55), (0.6, 50), (1.0, 0))
    m.keys(f"{side}.leg.knee", (0.0, 0), (0.25, 35), (0.5, 0), (1.0, 0))
    m.keys("sway", (0.0, 0), (0.5, 12 if side == "left" else -12), (1.0, 0))


def _step(m: Motion, ahead: float, right: float) -> None:
    m.keys("ahead", (0.1, 0), (0.9, 0.5 * ahead))
    m.keys("side", (0.1, 0), (0.9, 0.5 * right))
    first, second = ("left", "right") if right < 0 else ("right", "left")
    for side, lo in ((first, 0.05), (second, 0.5)):
        m.keys(f"{side}.leg.lift", (lo, 0), (lo + 0.22, 12 + 16 * ahead), (lo + 0.45, 0))
        m.keys(f"{side}.leg.knee", (lo, 0), (lo + 0.22, 35), (lo + 0.45, 0))
        m.keys(f"{side}.leg.spread", (lo, 0), (lo + 0.22, 14 * abs(right)), (lo + 0.45, 0))


def _lean(m: Motion, channel: str, amount: float) -> None:
    m.keys(channel, (0.0, 0), (0.4, amount), (0.6, amount), (1.0, 0))
    m.keys("pitch" if channel == "bend" else "lean", (0.0, 0), (0.4, amount / 4), (0.6, amount / 4), (1.0, 0))


def _throw(m: Motion) -> None:
    arm = f"{m.hand}.arm."
    turn = -25 if m.hand == "right" else 25
    m.keys(arm + "spread", (0.0, 0), (0.4, 85), (0.6, 40), (1.0, 0))
    m.keys(arm + "roll", (0.0, 0), (0.4, -95), (0.58, 0), (1.0, 0))
    m.keys(arm + "elbow", (0.0, 0), (0.4, 100), (0.6, 15), (1.0, 0))
    m.keys(arm + "cross", (0.0, 0), (0.4, -20), (0.62, 60), (1.0, 0))
    m.keys("twist", (0.0, 0), (0.4, turn), (0.62, -turn), (1.0, 0))
    m.keys(f"{m.other}.leg.lift", (0.3, 0), (0.5, 25), (0.7, 10), (1.0, 0))


def _drink(m: Motion) -> None:
    arm = f"{m.hand}.arm."
    m.keys(arm + "lift", (0.0, 0), (0.3, 45), (0.7, 55), (1.0, 0))
    m.keys(arm + "elbow", (0.0, 0), (0.3, 120), (0.7, 125), (1.0, 0))
    m.keys(arm + "roll", (0.0, 0), (0.3, 25), (0.7, 25), (1.0, 0))
    m.keys("nod", (0.2, 0), (0.4, -22), (0.65, -22), (0.85, 0))


def _clap(m: Motion) -> None:
    hz = m.rng.uniform(1.6, 2.4)
    for side in _SIDES:
        m.keys(f"{side}.arm.lift", (0.0, 0), (0.15, 40), (0.85, 40), (1.0, 0))
        m.keys(f"{side}.arm.elbow", (0.0, 0), (0.15, 65), (0.85, 65), (1.0, 0))
        m.keys(f"{side}.arm.roll", (0.0, 0), (0.15, 18), (0.85, 18), (1.0, 0))
        m.swing(f"{side}.arm.roll", 20, hz, 0.12, 0.88)


def _crouch(m: Motion, *depth: tuple[float, float]) -> None:
    """Bend both legs through (u, fraction of a full squat) knots; the trunk keeps its balance."""
    for side in _SIDES:
        m.keys(f"{side}.leg.lift", *((u, 95 * share) for u, share in depth))
        m.keys(f"{side}.leg.knee", *((u, 110 * share) for u, share in depth))
        m.keys(f"{side}.leg.ankle", *((u, 15 * share) for u, share in depth))
    m.keys("bend", *((u, 28 * share) for u, share in depth))


def _seat(m: Motion, *share: tuple[float, float]) -> None:
    for side in _SIDES:
        m.keys(f"{side}.leg.lift", *((u, 85 * s) for u, s in share))
        m.keys(f"{side}.leg.knee", *((u, 88 * s) for u, s in share))
        m.keys(f"{side}.arm.elbow", *((u, 45 * s) for u, s in share))
    m.keys("ahead", *((u, -0.35 * s) for u, s in share))


def _sit_down(m: Motion) -> None:
    _seat(m, (0.1, 0), (0.8, 1))
    m.keys("bend", (0.1, 0), (0.45, 35), (0.85, 4))


def _stand_up(m: Motion) -> None:
    _seat(m, (0.2, 1), (0.9, 0))
    m.keys("bend", (0.15, 4), (0.55, 35), (0.9, 0))


def _pace(m: Motion, hz: float) -> None:
    phase = 0.0 if m.rng.uniform() < 0.5 else 0.5
    for side, opposite, shift in (("left", "right", phase), ("right", "left", phase + 0.5)):
        m.swing(f"{side}.leg.lift", 55, hz, 0.02, 0.98, shift, half=True)
        m.swing(f"{side}.leg.knee", 75, hz, 0.02, 0.98, shift, half=True)
        m.swing(f"{opposite}.arm.lift", 28, hz, 0.02, 0.98, shift)
        m.swing(f"{opposite}.arm.elbow", 25, hz, 0.02, 0.98, shift, half=True)


def _jump(m: Motion) -> None:
    hz = m.rng.uniform(0.9, 1.2)
    m.swing("jump", 0.25, hz, 0.05, 0.95, half=True)
    for side in _SIDES:
        m.swing(f"{side}.arm.lift", 40, hz, 0.05, 0.95)
        m.swing(f"{side}.leg.lift", 25, hz, 0.02, 0.98, 0.5, half=True)
        m.swing(f"{side}.leg.knee", 45, hz, 0.02, 0.98, 0.5, half=True)


def _arm_circles(m: Motion, direction: int) -> None:
    turns = direction * int(m.rng.integers(2, 4))
    for side in _SIDES:
        m.keys(f"{side}.arm.spread", (0.0, 0), (0.1, 18), (0.9, 18), (1.0, 0))
        m.circle(f"{side}.arm.lift", turns)


def _arms_up(m: Motion, lo: float, hi: float) -> None:
    for side in _SIDES:
        m.keys(f"{side}.arm.lift", (lo, 0), ((2 * lo + hi) / 3, 140), ((lo + 2 * hi) / 3, 140), (hi, 0))


def _up_then_squat(m: Motion) -> None:
    _arms_up(m, 0.0, 0.45)
    _crouch(m, (0.5, 0), (0.72, 1), (0.78, 1), (1.0, 0))


def _squat_then_up(m: Motion) -> None:
    _crouch(m, (0.0, 0), (0.22, 1), (0.28, 1), (0.5, 0))
    _arms_up(m, 0.55, 1.0)


# ------------------------------------------------------------------------------------------------ two people
def _handshake(a: Motion, b: Motion) -> None:
    hz = a.rng.uniform(1.8, 2.4)
    for m in (a, b):
        m.keys("right.arm.lift", (0.0, 0), (0.25, 48), (0.8, 48), (1.0, 0))
        m.keys("right.arm.elbow", (0.0, 0), (0.25, 40), (0.8, 40), (1.0, 0))
        m.swing("right.arm.elbow", 12, hz, 0.25, 0.8)
        m.keys("bend", (0.0, 0), (0.25, 8), (0.8, 8), (1.0, 0))


def _push(a: Motion, b: Motion) -> None:
    for side in _SIDES:
        a.keys(f"{side}.arm.lift", (0.0, 0), (0.25, 55), (0.45, 80), (0.7, 70), (1.0, 0))
        a.keys(f"{side}.arm.elbow", (0.0, 0), (0.25, 95), (0.45, 5), (0.7, 20), (1.0, 0))
        b.keys(f"{side}.arm.lift", (0.42, 0), (0.6, 45), (1.0, 5))
        b.keys(f"{side}.arm.elbow", (0.42, 0), (0.6, 35), (1.0, 5))
    a.keys("ahead", (0.15, 0), (0.45, 0.18), (1.0, 0.1))
    a.keys("bend", (0.0, 0), (0.45, 18), (1.0, 0))
    b.keys("bend", (0.42, 0), (0.58, -18), (0.85, 0))
    b.keys("ahead", (0.42, 0), (0.75, -0.45))
    b.keys("right.leg.lift", (0.42, 0), (0.55, 30), (0.72, 0))
    b.keys("right.leg.knee", (0.42, 0), (0.55, 45), (0.72, 0))


def _hug(a: Motion, b: Motion) -> None:
    for m in (a, b):
        m.keys("ahead", (0.0, 0), (0.35, 0.28), (0.7, 0.28), (1.0, 0))
        for side in _SIDES:
            m.keys(f"{side}.arm.lift", (0.05, 0), (0.3, 70), (0.7, 70), (1.0, 0))
            m.keys(f"{side}.arm.cross", (0.2, -25), (0.42, 45), (0.7, 45), (0.9, 0))
            m.keys(f"{side}.arm.elbow", (0.2, 10), (0.42, 60), (0.7, 60), (0.95, 0))


def _high_five(a: Motion, b: Motion) -> None:
    for m in (a, b):
        m.keys("right.arm.lift", (0.0, 0), (0.3, 95), (0.5, 125), (0.62, 115), (1.0, 0))
        m.keys("right.arm.elbow", (0.0, 0), (0.3, 75), (0.5, 20), (0.62, 35), (1.0, 0))
        m.keys("ahead", (0.1, 0), (0.48, 0.12), (1.0, 0))


class Action(NamedTuple):
    """A class of the dataset: its name, its motion, how long it takes and how many people it needs."""

    name: str
    move: Callable[..., None]
    seconds: float
    people: int = 1


ACTIONS: tuple[Action, ...] = (
    *(Action(f"wave {side} hand", partial(_wave, side=side), 2.8) for side in _SIDES),
    *(Action(f"reach forward, {side} arm", partial(_reach, side=side, lift=80, spread=5), 2.4) for side in _SIDES),
    *(Action(f"reach sideways, {side} arm", partial(_reach, side=side, lift=5, spread=80), 2.4) for side in _SIDES),
    *(Action(f"kick forward, {side} leg", partial(_kick, side=side), 2.0) for side in _SIDES),
    *(Action(f"kick sideways, {side} leg", partial(_kick_out, side=side), 2.0) for side in _SIDES),
    Action("step forward", lambda m: _step(m, 1, 0), 2.0),
    Action("step back", lambda m: _step(m, -1, 0), 2.0),
    Action("step to the left", lambda m: _step(m, 0, -1), 2.0),
    Action("step to the right", lambda m: _step(m, 0, 1), 2.0),
    Action("bow", lambda m: _lean(m, "bend", 45), 2.4),
    Action("lean back", lambda m: _lean(m, "bend", -35), 2.4),
    Action("lean to the left", lambda m: _lean(m, "sway", -40), 2.4),
    Action("lean to the right", lambda m: _lean(m, "sway", 40), 2.4),
    Action("throw", _throw, 2.0),
    Action("drink", _drink, 3.2),
    Action("sit down", _sit_down, 2.2),
    Action("stand up", _stand_up, 2.2),
    Action("walk in place", lambda m: _pace(m, m.rng.uniform(0.75, 0.95)), 3.2),
    Action("run in place", lambda m: _pace(m, m.rng.uniform(1.6, 2.0)), 2.8),
    Action("arm circles forward", lambda m: _arm_circles(m, 1), 3.2),
    Action("arm circles backward", lambda m: _arm_circles(m, -1), 3.2),
    Action("arms up, then squat", _up_then_squat, 3.8),
    Action("squat, then arms up", _squat_then_up, 3.8),
    Action("handshake", _handshake, 2.8, people=2),
    Action("push", _push, 2.2, people=2),
    Action("hug", _hug, 3.4, people=2),
    Action("high five", _high_five, 2.0, people=2),
)
"""Label k is ``ACTIONS[k]``."""
