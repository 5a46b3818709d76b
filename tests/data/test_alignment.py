"""Alignment against slow references written from what CrosSCLR's and 2s-AGCN's preparation does, frame by frame."""

import math

import numpy as np
import pytest
import torch
from made.clips import open_writer, write_store

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.alignment import Alignment
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.source import ClipSource
from skelbench.views.skeleton.topology import COCO17

HOWS = (
    "frames", "first-frame", "frames-as-released", "first-frame-as-released", "first-frame-shoulders",
    "first-frame-hips", "frames-with-path",
)  # fmt: skip


def people(count=5, seed=0):
    """Clips [M, T, 25, 3] of upright bodies in all headings that sway; some bodies are missing from some frames."""
    rng, clips = np.random.default_rng(seed), []
    for i in range(count):
        bodies, frames = 1 + i % 2, 6 + i
        x = rng.normal(0, 0.1, (bodies, frames, 25, 3)) + rng.normal(0, 0.3, (bodies, frames, 1, 3))
        x[:, :, :2, 1] += np.array([0.0, 0.5])
        x[:, :, 20, 1] += 0.8
        for m in range(bodies):
            heading = rng.uniform(-math.pi, math.pi) + rng.normal(0, 0.2, frames)
            side = 0.2 * np.stack([np.cos(heading), 0 * heading, np.sin(heading)], -1)
            x[m, :, 8] = x[m, :, 20] + side
            x[m, :, 4] = x[m, :, 20] - side + [0, 0.03, 0]
        clips.append(x.astype(np.float32))
    clips[1][1, -3:] = 0  # leaves early
    clips[3][1, :2] = 0  # comes late
    clips[3][1, 5] = 0
    clips[4][0, [0, 3]] = 0
    return clips


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return ClipStore.open(write_store(tmp_path_factory.mktemp("root") / "made", people()))


def aligned(store, how, ids=None, **options):
    """[M, T, J, 3] of each clip."""
    ids = np.arange(len(store)) if ids is None else ids
    batch = ClipSource(store, align=how, **options).gather(ids)
    out = []
    for b in range(len(ids)):
        length, bodies, start = (int(v[b]) for v in (batch.length, store.bodies[ids], batch.offset))
        rows = batch.frames_FJ[start : start + 3 * length * bodies]
        out.append(rows.unflatten(0, (bodies, 3, length)).permute(0, 2, 3, 1).numpy())
    return out


def about_y(angle):
    return np.array([[math.cos(angle), 0, math.sin(angle)], [0, 1, 0], [-math.sin(angle), 0, math.cos(angle)]])


def shortest(a, b):
    """Rotation from the direction of a to the direction of b; vectors orthogonal to both stay."""
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    v, c = np.cross(a, b), a @ b
    k = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.eye(3) + k + k @ k / (1 + c)


def slow_frames(x_MTJC, one_sense, with_path):
    out = x_MTJC.astype(np.float64)
    for body in out:
        seen = body.any((1, 2))
        path = (body[:, 20] - body[seen.argmax(), 20]) * seen[:, None]
        body -= body[:, 20:21]
        if with_path:
            body[:, 20] = path
        across = body[:, 8] - body[:, 4]
        sense = across[:, 2].sum() >= 0
        for frame, (x, _, z) in zip(body, across):
            if x == z == 0:
                continue
            angle = math.acos(x / math.hypot(x, z))
            positive = sense if one_sense else z >= 0
            frame[:] = frame @ about_y(angle if positive else -angle).T
    return out


def slow_first_frame(x_MTJC, how):
    out = x_MTJC.astype(np.float64)
    for body in out:
        if not body[0].any():
            seen = [frame.copy() for frame in body if frame.any()]
            body[:] = 0
            body[: len(seen)] = seen
        for t in range(1, len(body)):
            if not body[t:].any():
                for later in range(t, len(body)):
                    body[later] = body[later - t]
                break
    main = out[0, :, 1].copy()
    if how == "first-frame-hips":  # Predict and Cluster's "view-invariant transform"; z is up there
        main = np.repeat(out[0, :1, 0], len(main), 0)
        v1, v2 = out[0, 0, 1] - out[0, 0, 0], out[0, 0, 12] - out[0, 0, 16]
        v1 /= np.linalg.norm(v1)
        v2 -= (v1 @ v2) * v1
        v2 /= np.linalg.norm(v2)
        v3 = np.cross(v2, v1) / np.linalg.norm(np.cross(v2, v1))
        turn = np.linalg.inv(np.stack([v2, v3, v1], 1))[[0, 2, 1]]
    for body in out:
        for t, frame in enumerate(body):
            body[t] = (frame - main[t]) * frame.any()
    spine, across = out[0, 0, 1] - out[0, 0, 0], out[0, 0, 8] - out[0, 0, 4]
    if how == "first-frame-hips":
        pass
    elif how == "first-frame-shoulders":
        turn = shortest(across, np.array([1, 0, 0]))
    elif how == "first-frame-as-released":
        turn = shortest(spine, np.array([0, 0, 1]))
        turn = shortest(turn @ across, np.array([1, 0, 0])) @ turn
        turn = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]]) @ turn  # its z is our y
    else:
        x = across / np.linalg.norm(across)
        y = spine - (spine @ x) * x
        y /= np.linalg.norm(y)
        turn = np.stack([x, y, np.cross(x, y)])
    return out @ turn.T


@pytest.mark.parametrize("how", HOWS)
def test_alignment_equals_the_frame_by_frame_version(store, how):
    for found, clip in zip(aligned(store, how), people(), strict=True):
        one_sense, with_path = how != "frames", how.endswith("path")
        slow = slow_frames(clip, one_sense, with_path) if how.startswith("frames") else slow_first_frame(clip, how)
        np.testing.assert_allclose(found, slow, atol=1e-5)


@pytest.mark.parametrize("how", HOWS)
def test_alignment_gives_equal_bits_in_every_batch_and_transfer(store, how):
    together = aligned(store, how)
    resident = aligned(store, how, resident=True)
    for i in range(len(store)):
        (alone,) = aligned(store, how, ids=np.array([i]))
        assert np.array_equal(together[i], alone) and np.array_equal(together[i], resident[i])
    assert np.array_equal(store.clip(0), people()[0]), "the store itself is untouched"


def test_confidence_moves_with_the_frames_that_are_filled(tmp_path):
    clip = people()[1]
    sure = np.linspace(0, 1, clip[..., 0].size, dtype=np.float32).reshape(clip.shape[:3])
    with open_writer(tmp_path / "sure") as writer:
        for i in range(3):
            writer.add(clip, 0, subject=i, camera=1 + i, confidence_MTJ=sure)
    batch = ClipSource(ClipStore.open(tmp_path / "sure"), align="first-frame").gather(np.array([0]))
    expected = sure.copy()
    expected[1, -3:] = sure[1, :3]
    assert np.array_equal(batch.confidence_FJ.numpy(), expected.reshape(-1, 25))


def test_a_skeleton_without_the_needed_joints_is_rejected(tmp_path):
    x = np.ones((1, 4, 17, 3), dtype=np.float32)
    store = ClipStore.open(write_store(tmp_path / "made", [x] * 3, topology=COCO17))
    with pytest.raises(SkelbenchError, match="align=first-frame needs .*spine mid.*topology coco17 has no such joints"):
        Alignment(store, "first-frame")


def test_a_body_without_shoulders_or_spine_is_not_rotated(tmp_path):
    """Joints in one point have no direction: the clip stays as it is, and no number is lost."""
    clip = np.ones((1, 3, 25, 3), dtype=np.float32)
    store = ClipStore.open(write_store(tmp_path / "made", [clip] * 3))
    for how in HOWS:
        found = aligned(store, how)[0]
        assert not torch.from_numpy(found).any()
