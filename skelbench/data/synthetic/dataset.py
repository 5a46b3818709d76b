"""Synthetic dataset, shaped like NTU RGB+D: 32 actions, 16 subjects, 3 cameras, 6 setups.

Each clip is a movement by forward kinematics with the subject's proportions, posture and style, idle motion and an
unrelated gesture of limbs that the action does not use. The subject faces camera 2; cameras 1 and 3 are 70 degrees
to either side. Unlike in NTU each camera records a separate performance: with one performance for three cameras, a
test clip of the cross-view split would be a training clip turned about the vertical. A clip is a pure function of
(action, subject, repetition, camera), on a grid of 2^-13 m, so that rounding differences between machines vanish.

M bodies, T frames, J = 25 joints, A angles (:data:`skelbench.data.synthetic.kinematics.CHANNELS`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.roots import SYNTHETIC
from skelbench.data.store.splits import FieldRule
from skelbench.data.store.writer import Clip, StoreWriter, make_once
from skelbench.data.synthetic.actions import ACTIONS, Motion
from skelbench.data.synthetic.kinematics import CHANNEL, CHANNELS, PARTS, forward, turn
from skelbench.plugin import DatasetSpec, hookimpl
from skelbench.views.skeleton.topology import NTU25

NAME = SYNTHETIC
VERSION = "skelbench-synthetic/1"
SUBJECTS, REPETITIONS, CAMERAS, SETUPS = 16, 2, 3, 6
FPS = 30.0
SPLITS = {
    "cross-subject": FieldRule(field="subject", train="odd"),
    "cross-view": FieldRule(field="camera", train=(2, 3)),
    "cross-setup": FieldRule(field="setup", train="even"),
}
CAMERA_YAW = {1: -np.deg2rad(70), 2: 0.0, 3: np.deg2rad(70)}
"""Position of a camera, as an angle about the vertical through the performer."""

_SEED = 20_250
_GRID = 2.0**13
_CENTER = NTU25.center


def _random(purpose: int, *key: int) -> np.random.Generator:
    """Return a separate generator for each set of draws, so that nothing depends on the order of generation."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((_SEED, purpose, *key))))


class Subject(NamedTuple):
    """Traits of a person: bone lengths, posture, vigour, pace, preferred hand, idle motion, sense of space."""

    scale: dict[str, float]
    posture_A: np.ndarray
    vigour: float
    pace: float
    hand: str
    restless: float


class Setup(NamedTuple):
    """One arrangement of the cameras: yaw offset, tilt (radians), height, distance (meters)."""

    yaw: float
    tilt: float
    height: float
    distance: float


@cache
def subject_of(subject: int) -> Subject:
    """The person with that number (1-based)."""
    rng = _random(1, subject)
    height = rng.uniform(0.86, 1.14)
    scale = {part: height * rng.uniform(0.93, 1.07) for part in PARTS}
    posture_A = np.zeros(len(CHANNELS))
    posture_A[CHANNEL["bend"]] = rng.uniform(-0.03, 0.16)
    posture_A[CHANNEL["nod"]] = rng.uniform(-0.1, 0.2)
    for side in ("left", "right"):
        posture_A[CHANNEL[f"{side}.arm.spread"]] = rng.uniform(0.05, 0.25)
        posture_A[CHANNEL[f"{side}.arm.elbow"]] = rng.uniform(0.1, 0.5)
        posture_A[CHANNEL[f"{side}.leg.spread"]] = rng.uniform(0.02, 0.14)
    vigour, pace = rng.uniform(0.6, 1.1), rng.uniform(0.8, 1.25)
    hand = "left" if rng.uniform() < 0.15 else "right"
    return Subject(scale, posture_A, vigour, pace, hand, restless=rng.uniform(0.6, 1.4))


@cache
def setup_of(setup: int) -> Setup:
    """The arrangement with that number (1-based)."""
    rng = _random(2, setup)
    yaw, tilt = rng.uniform(-0.1, 0.1), rng.uniform(0.0, 0.2)
    return Setup(yaw, tilt, height=rng.uniform(0.9, 1.8), distance=rng.uniform(2.4, 3.6))


def setup_number(subject: int, repetition: int) -> int:
    """Return the setup of a performance: each subject has an odd and an even one, half of them the odd one first."""
    return 1 + (subject + 3 * repetition) % SETUPS


def perform(label: int, subject: int, repetition: int, camera: int) -> np.ndarray:
    """Return the performance for ``camera``, in the room: [M, T, J, 3] meters, Y up, the floor at 0, camera 2 at -Z."""
    action, person, rng = ACTIONS[label], subject_of(subject), _random(3, label, subject, repetition, camera)
    seconds = action.seconds * rng.uniform(0.85, 1.15) / person.pace
    frames = int(np.clip(round(seconds * FPS), 40, 150))
    begin, end = rng.uniform(0.02, 0.25), rng.uniform(0.77, 0.98)
    u_T = np.clip((np.linspace(0, 1, frames) - begin) / (end - begin), 0, 1)
    u_T = u_T + rng.uniform(-0.08, 0.08) * np.sin(np.pi * u_T) + rng.uniform(-0.025, 0.025) * np.sin(2 * np.pi * u_T)
    partner = 1 + (subject + SUBJECTS // 2 - 1) % SUBJECTS
    cast = [person, subject_of(partner)][: action.people]
    motions = []
    for actor in cast:
        pose_TA = actor.posture_A + _idle(frames, actor.restless, rng)
        vigour = actor.vigour * rng.uniform(0.85, 1.15)
        motions.append(Motion(pose_TA, u_T, frames * (end - begin) / FPS, vigour, actor.hand, rng))
    action.move(*motions)
    for motion in motions:
        _distract(motion, frames, rng)
    bodies = [forward(motion.pose_TA, actor.scale) for motion, actor in zip(motions, cast, strict=True)]
    if action.people == 2:
        # Two people stand face to face, side on to the camera that the performance faces, either on either side.
        distance, flip = rng.uniform(0.8, 1.0), np.pi if rng.uniform() < 0.5 else 0.0
        for i, body in enumerate(bodies):
            body[:, :, 2] += distance / 2
            bodies[i] = body @ turn(1, np.array([np.pi / 2 + np.pi * i + flip]))[0].T
        # NTU's pipeline stores the body that moves more first.
        bodies.sort(key=lambda body: -body.reshape(-1, 3).var(axis=0).sum())
    facing = rng.normal(0, 0.08)
    place = np.array([rng.normal(0, 0.15), 0.0, rng.normal(0, 0.15)])
    return np.stack(bodies) @ turn(1, np.array([facing]))[0].T + place


def record(room_MTJC: np.ndarray, label: int, subject: int, repetition: int, camera: int) -> np.ndarray:
    """Return a performance as one camera records it: [M, T, J, 3] in its own frame, with noise and lost joints."""
    rng, setup = _random(4, label, subject, repetition, camera), setup_of(setup_number(subject, repetition))
    around = turn(1, np.array([-(CAMERA_YAW[camera] + setup.yaw)]))[0]
    tilted = turn(0, np.array([-setup.tilt]))[0]
    aim = np.array([0.0, 0.9 - setup.height, setup.distance])  # the camera points at waist height
    x_MTJC = ((room_MTJC - (0, 0.9, 0)) @ around.T + aim) @ tilted.T
    # Joints on the far side of the body are guessed by the sensor rather than seen.
    depth_MTJ = x_MTJC[..., 2] - x_MTJC[:, :, _CENTER : _CENTER + 1, 2]
    sigma_MTJ = 0.008 * (1 + 2 * np.clip(depth_MTJ / 0.2, 0, 1))
    x_MTJC = x_MTJC + sigma_MTJ[..., None] * rng.standard_normal(x_MTJC.shape)
    bodies, frames, joints = x_MTJC.shape[:3]
    for _ in range(rng.poisson(1.5 * bodies)):
        body, joint = rng.integers(bodies), rng.integers(2, joints)
        start, length = rng.integers(frames), rng.integers(2, 9)
        x_MTJC[body, start : start + length, joint] += rng.normal(0, 0.12, 3)
    return np.round(x_MTJC * _GRID) / _GRID


def _idle(frames: int, restless: float, rng: np.random.Generator) -> np.ndarray:
    """Slow swaying of every joint, [T, A]."""
    seconds_T1 = np.arange(frames)[:, None] / FPS
    idle_TA = np.zeros((frames, len(CHANNELS)))
    for _ in range(3):
        hz, phase = rng.uniform(0.1, 0.6, len(CHANNELS)), rng.uniform(0, 2 * np.pi, len(CHANNELS))
        idle_TA += rng.normal(0, 0.045, len(CHANNELS)) * np.sin(2 * np.pi * hz * seconds_T1 + phase)
    idle_TA[:, CHANNEL["jump"]] = 0.0
    return restless * idle_TA


def _distract(motion: Motion, frames: int, rng: np.random.Generator) -> None:
    """Add a gesture that is unrelated to the action, with limbs that the action does not use."""
    aside = Motion(motion.pose_TA, np.linspace(0, 1, frames), frames / FPS, 1.0, motion.hand, rng)
    for side in ("left", "right"):
        if not any(channel.startswith(f"{side}.arm") for channel in motion.used) and rng.uniform() < 0.6:
            up, down = np.sort(rng.uniform(-0.3, 1.3, 2))
            for angle, lo, hi in (("lift", -15, 50), ("spread", 0, 35), ("roll", -20, 40), ("elbow", 10, 110)):
                amount = rng.uniform(lo, hi)
                aside.keys(f"{side}.arm.{angle}", (up - 0.25, 0), (up, amount), (down, amount), (down + 0.25, 0))
    for channel, most in (("shake", 35), ("twist", 15), ("sway", 8)):
        if channel not in motion.used and rng.uniform() < 0.5:
            up, down = np.sort(rng.uniform(-0.3, 1.3, 2))
            amount = rng.uniform(-most, most)
            aside.keys(channel, (up - 0.25, 0), (up, amount), (down, amount), (down + 0.25, 0))


def generate(
    path: Path,
    *,
    subjects: Sequence[int] = range(1, SUBJECTS + 1),
    labels: Sequence[int] = range(len(ACTIONS)),
    repetitions: int = REPETITIONS,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Make the dataset (or a part of it) at ``path``; ``progress(done, total)`` is called as clips are written.

    A clip does not depend on which others are made. Splits as in NTU: odd subjects train, cameras 2 and 3 train (the
    default), even setups train.
    """
    clips, total = 0, len(subjects) * len(labels) * repetitions * CAMERAS
    with StoreWriter(
        path,
        topology=NTU25,
        classes=[action.name for action in ACTIONS],
        splits=SPLITS,
        default_split="cross-view",
        lineage=f"{VERSION}, centered at SpineMid of the first frame",
        license="Apache-2.0",
        fps=FPS,
        overwrite=overwrite,
    ) as writer:
        for subject in subjects:
            for repetition in range(1, repetitions + 1):
                setup = setup_number(subject, repetition)
                for label in labels:
                    for camera in range(1, CAMERAS + 1):
                        room_MTJC = perform(label, subject, repetition, camera)
                        x_MTJC = record(room_MTJC, label, subject, repetition, camera)
                        origin = x_MTJC[0, 0, _CENTER].copy()
                        who = dict(subject=subject, camera=camera, setup=setup, trial=repetition)
                        writer.add_clip(Clip(x_MTJC - origin, label, origin, who=who))
                    clips += CAMERAS
                    if progress is not None:
                        progress(clips, total)
    return path


def open_synthetic(root: Path, progress: Callable[[int, int], None] | None = None) -> ClipStore:
    """Open the full dataset, generated (in seconds) on first use at ``root``/synthetic-v1."""
    path = Path(root) / NAME
    make_once(path, partial(generate, path, progress=progress))
    store = ClipStore.open(path)
    if not store.meta.lineage.startswith(VERSION):
        raise SkelbenchError(f"{path} is not the dataset that is made there; rename that folder")
    return store


@hookimpl
def skelbench_datasets() -> list[DatasetSpec]:
    """The synthetic dataset; names of splits are written out, so that a listing does not import the rules."""
    splits = ("cross-subject", "cross-view", "cross-setup")
    summary = "forward kinematics on 25 joints, three cameras; made on first use, the same everywhere"
    spec = DatasetSpec(name="synthetic", target=":open_synthetic", summary=summary, splits=splits,
                       default_split="cross-view", license="generated")  # fmt: skip
    return [spec]
