"""Clips are degraded once, by seed and clip id: against a slow version of each kind, in any batch, any order."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.plugin.plugin_errors import Mistake
from skelbench.testing.clips import clip_batch, part_of
from skelbench.testing.stick7 import STICK7
from skelbench.views.augmentations import Mirror
from skelbench.views.builder import ViewBuilder
from skelbench.views.degradations import Degrade, JointNoise, MissingJoints, ParentFill, Poses, ZeroFill, degraded
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.topology import COCO17, NTU25
from skelbench.views.spec import ViewSpec
from skelbench.views.view import View

TOPOLOGIES = {"ntu25": NTU25, "coco17": COCO17, "stick7": STICK7}
every_skeleton = pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
LENGTHS = (1, 5, 9, 40, 2, 3)
KINDS = (MissingJoints(), ZeroFill(), ParentFill(), JointNoise())


def clip(batch, b):
    """Clip b as float32 [M, T, J, 3], element by element from the definition of a batch."""
    length, offset = int(batch.length[b]), int(batch.offset[b])
    x = np.zeros((int(batch.bodies[b]), length, batch.frames_FJ.shape[1], 3), dtype=np.float32)
    for m, t, c in np.ndindex(x.shape[0], length, 3):
        x[m, t, :, c] = batch.frames_FJ[offset + (m * 3 + c) * length + t]
    return x


def done(batch, *steps, topology=NTU25, dimensions=3, seed=0):
    return degraded(batch, steps, topology, dimensions, seed)


def lost(batch, share, topology=NTU25, seed=0):
    return Poses.of(batch, topology, seed=seed).lost(share).numpy()


@every_skeleton
@pytest.mark.parametrize("share", [0.0, 0.01, 0.12, 0.2, 0.32, 0.99])
def test_the_fraction_decides_the_lost_joints_without_the_center(topology, share):
    batch = clip_batch(topology, LENGTHS * 10)
    lost_BJ, joints = lost(batch, share, topology), topology.num_joints
    nearest = [n for n in range(joints + 1) if abs(n - share * joints) <= 0.5][-1] if share else 0
    assert (lost_BJ.sum(1) == min(joints - 1, max(nearest, share > 0))).all()
    assert not lost_BJ[:, topology.center].any()
    if 0 < share < 0.9:
        assert len(np.unique(lost_BJ, axis=0)) > 5, "every clip loses joints of its own"


@every_skeleton
def test_a_larger_fraction_includes_the_joints_of_a_smaller_one(topology):
    batch = clip_batch(topology, LENGTHS)
    three, five, eight = (lost(batch, share, topology) for share in (0.12, 0.2, 0.32))
    assert (three <= five).all() and (five <= eight).all()
    assert not np.array_equal(five, lost(batch, 0.2, topology, seed=1))


@every_skeleton
@pytest.mark.parametrize("share", [0.12, 0.32, 0.9])
def test_degradations_equal_a_slow_version(topology, share):
    batch = clip_batch(topology, LENGTHS)
    before, lost_BJ = batch.frames_FJ.clone(), lost(batch, share, topology)
    fills = {kind: done(batch, kind(share=share), topology=topology) for kind in (ZeroFill, ParentFill, MissingJoints)}
    bones = [(j, p) for j, p in enumerate(topology.parents) if p >= 0]
    for b in range(len(LENGTHS)):
        x_MTJC = clip(batch, b)
        gone, zero, parent = x_MTJC.copy(), x_MTJC.copy(), x_MTJC.copy()
        seen_MT = x_MTJC.any(axis=(2, 3))
        origin = x_MTJC[0, np.argmax(seen_MT[0]), topology.center] if seen_MT[0].any() else np.zeros(3)
        for j in np.flatnonzero(lost_BJ[b]):
            gone[:, :, j] = 0
            zero[:, :, j] = origin * seen_MT[..., None]
            parent[:, :, j] = x_MTJC[:, :, _stand_in(j, lost_BJ[b], bones, topology.center)]
        assert np.array_equal(clip(fills[ZeroFill], b), zero)
        assert np.array_equal(clip(fills[MissingJoints], b), gone)
        assert np.array_equal(clip(fills[ParentFill], b), parent)
    assert np.array_equal(fills[MissingJoints].missing_BJ.numpy(), lost_BJ)
    assert fills[ZeroFill].missing_BJ is None is fills[ParentFill].missing_BJ
    assert torch.equal(batch.frames_FJ, before), "the dataset's own rows stay as they are"


def _stand_in(joint, lost_J, bones, center):
    """The first joint that is not lost on the way over bones from ``joint`` to the center, found by walking back."""
    ways = {center: [center]}
    while len(ways) < len(lost_J):
        for a, b in bones:
            for here, there in ((a, b), (b, a)):
                if there in ways and here not in ways:
                    ways[here] = [here, *ways[there]]
    return next(j for j in ways[joint] if not lost_J[j])


@every_skeleton
def test_noise_has_the_requested_deviation(topology):
    lengths = (60, 90)
    batch = clip_batch(topology, lengths)
    noisy = done(batch, JointNoise(sigma=0.03), topology=topology)
    for b in range(2):
        x_MTJC = clip(batch, b).astype(np.float64)
        bones = [x_MTJC[:, :, j] - x_MTJC[:, :, p] for j, p in enumerate(topology.parents) if p >= 0]
        bone = np.mean([np.linalg.norm(each, axis=-1) for each in bones])
        noise = (clip(noisy, b) - x_MTJC) / bone
        assert abs(noise.std() / 0.03 - 1) < 0.05 and abs(noise.mean()) < 0.002
        again = (clip(done(batch, JointNoise(sigma=0.06), topology=topology), b) - x_MTJC) / bone
        assert np.allclose(again, 2 * noise, atol=1e-4), "one noise, larger"
        flat = noise.reshape(-1, 3)
        assert np.abs(np.corrcoef(flat.T) - np.eye(3)).max() < 0.1
        assert not np.array_equal(noise[:, 1:], noise[:, :-1])


def test_bone_length_and_noise_use_present_joints():
    """A body out of sight for some frames, and joints that were not found, have neither."""
    batch = clip_batch(NTU25, [40])
    x_FJ = batch.frames_FJ.clone()
    x_FJ.view(3, 40, 25)[:, 10:] = 0
    gone = replace(batch, frames_FJ=x_FJ)
    noisy = clip(done(gone, JointNoise(sigma=0.1)), 0)
    assert not noisy[:, 10:].any() and noisy[:, :10].all()
    short = replace(batch, frames_FJ=x_FJ.view(3, 40, 25)[:, :10].reshape(30, 25), length=np.array([10]))
    assert torch.equal(Poses.of(short, NTU25).bone_B, Poses.of(gone, NTU25).bone_B)

    flat = clip_batch(COCO17, [6], flat=True)
    confidence_FJ = torch.ones(6, 17)
    confidence_FJ[:, 4] = 0
    rows = flat.frames_FJ.clone()
    rows[:, 4] = 0
    sure = replace(flat, frames_FJ=rows, confidence_FJ=confidence_FJ)
    noisy = clip(done(sure, JointNoise(), topology=COCO17, dimensions=2), 0)
    assert not noisy[:, :, 4].any() and noisy[:, :, 3, :2].all()
    assert not noisy[..., 2].any(), "2-D poses stay flat"


@settings(max_examples=6, deadline=None)
@given(
    which=st.lists(st.integers(0, len(LENGTHS) - 1), min_size=1, max_size=8),
    steps=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    seed=st.integers(0, 3),
)
def test_a_clip_is_the_same_in_any_batch_and_any_order(which, steps, seed):
    batch = clip_batch(NTU25, LENGTHS)
    alone = [done(part_of(batch, [b]), *steps, seed=seed) for b in range(len(LENGTHS))]
    some = done(part_of(batch, which), *steps, seed=seed)
    for place, b in enumerate(which):
        assert np.array_equal(clip(some, place), clip(alone[b], 0))
        if some.missing_BJ is not None:
            assert torch.equal(some.missing_BJ[place], alone[b].missing_BJ[0])
    again = done(done(part_of(batch, which)), *steps, seed=seed)
    assert torch.equal(some.frames_FJ, again.frames_FJ), "where the rows lie changes nothing"


def test_steps_run_in_order_and_measure_the_original_clip():
    batch = clip_batch(NTU25, [30])
    quiet = clip(done(batch, JointNoise(sigma=0.05), ZeroFill(share=0.2)), 0)
    loud = clip(done(batch, ZeroFill(share=0.2), JointNoise(sigma=0.05)), 0)
    gone, origin = lost(batch, 0.2)[0], clip(batch, 0)[0, 0, NTU25.center]
    assert (quiet[:, :, gone] == origin).all() and (loud[:, :, gone] != origin).all()
    assert np.array_equal(quiet[:, :, ~gone], loud[:, :, ~gone])


def test_all_bodies_lose_the_same_joints_and_a_repeated_one_is_the_first():
    batch = clip_batch(NTU25, [1, 2, 12])
    assert batch.bodies[2] == 2
    x_MTJC = clip(done(batch, ZeroFill()), 2)
    gone_MJ = (x_MTJC == clip(batch, 2)[0, 0, NTU25.center]).all((1, 3))
    assert gone_MJ.sum() == 10 and np.array_equal(gone_MJ[0], gone_MJ[1])
    one = part_of(batch, [1])
    shown = replace(one, bodies=np.array([2]), stored=np.array([1]))
    view = ViewBuilder({"v": ViewSpec(frames=8)}, NTU25, 4)(done(shown, JointNoise()), Keyed(0, 0))["v"]
    assert view.rows == 2 and torch.equal(view.x_RTJC[0], view.x_RTJC[1])


def test_flags_reach_views_and_are_mirrored_with_the_joints():
    batch = done(clip_batch(NTU25, [30, 30, 30]), MissingJoints())
    specs = {
        "plain": ViewSpec(frames=8),
        "mirrored": ViewSpec(frames=8, augment=(Mirror(p=1),), count=2),
        "bone": ViewSpec(frames=8, stream="bone"),
    }
    views = ViewBuilder(specs, NTU25, 4)(batch, Keyed(0, 0))
    plain = views["plain"].missing_RJ
    assert plain.shape == (views["plain"].rows, 25) and (plain.sum(1) == 5).all()
    assert torch.equal(views["mirrored"].missing_RJ, plain[:, list(NTU25.swap)].repeat(2, 1))
    assert torch.equal(views["bone"].missing_RJ, plain | plain[:, list(NTU25.bones)])
    assert torch.equal(View.cat([views["plain"]] * 2).missing_RJ, plain.repeat(2, 1))
    without = ViewBuilder(specs, NTU25, 4)(clip_batch(NTU25, [30]), Keyed(0, 0))
    assert without["plain"].missing_RJ is None


def test_a_degradation_that_returns_no_poses_is_an_error():
    class Broken(Degrade):
        kind = "broken"

        def degrade(self, poses):
            return poses.x_F3J

    with pytest.raises(Mistake, match="not poses"):
        done(clip_batch(NTU25, [4]), Broken())
