"""The confidence of joints travels with their coordinates; a repeated body reads the stored one again."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from skelbench.views.augmentations import BoneScale, Mirror, Rotate
from skelbench.views.builder import ViewBuilder
from skelbench.views.clips import ClipBatch
from skelbench.views.crops import Center, Free, Inside
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.topology import COCO17
from skelbench.views.spec import ViewSpec

KEYED = Keyed(9, 4)
LENGTHS, BODIES = [30, 7, 1, 50], [2, 1, 1, 2]


def batch(confident=True):
    """Clips whose first coordinate is their confidence, so that both must be read at the same places."""
    rng = np.random.default_rng(0)
    confidence = [rng.uniform(0, 1, (m, n, 17)).astype(np.float32) for m, n in zip(BODIES, LENGTHS)]
    frames = [np.stack([c, rng.normal(size=c.shape), 0 * c], 1).reshape(-1, 17) for c in confidence]
    rows = [3 * m * n for m, n in zip(BODIES, LENGTHS)]
    frames_FJ = torch.from_numpy(np.concatenate(frames).astype(np.float32))
    confidence_FJ = torch.from_numpy(np.concatenate([c.reshape(-1, 17) for c in confidence])) if confident else None
    offset, length, bodies = np.cumsum(rows) - rows, np.array(LENGTHS), np.array(BODIES)
    clips = ClipBatch(np.arange(4), frames_FJ, offset, length, bodies, 2, np.array(BODIES), confidence_FJ)
    return confidence, clips


def build(specs, batch, **settings):
    return ViewBuilder(specs, COCO17, 4, dimensions=2, **settings)(batch, KEYED)


@pytest.mark.parametrize("resize", ["ends", "half-pixel", "release"])
def test_confidence_is_interpolated_like_coordinates(resize):
    _, clips = batch()
    specs = {
        "a": ViewSpec(frames=16, crop=Free(lo=0.3), resize=resize, count=2),
        "b": ViewSpec(frames=8, crop=Inside(parent="a", lo=0.2, hi=0.9), resize=resize),
    }
    for view in build(specs, clips).values():
        torch.testing.assert_close(view.confidence_RTJ, view.x_RTJC[..., 0])
        assert view.confidence_RTJ.min() >= 0 and view.confidence_RTJ.max() <= 1


def test_confidence_is_mirrored_only_with_the_joints():
    confidence, clips = batch()
    whole = {"resize": "pad", "crop": Center(share=1), "frames": 50}
    ops = (Mirror(p=0.5), BoneScale(p=1, lo=0.5, hi=2), Rotate(p=1), Mirror(p=0.5))
    view = build({"v": ViewSpec(**whole, augment=ops, count=4)}, clips)["v"]
    plain = build({"v": ViewSpec(**whole, augment=(Mirror(p=1),))}, clips)["v"]
    swapped = 0
    for row in range(view.rows):
        k = row % plain.rows
        clip, slot = divmod(int(view.rows_R[k]), 2)
        expected = np.zeros((50, 17), dtype=np.float32)
        expected[: LENGTHS[clip]] = confidence[clip][slot]
        mirrored = expected[:, list(COCO17.swap)]
        assert np.array_equal(plain.confidence_RTJ[k].numpy(), mirrored)
        got = view.confidence_RTJ[row].numpy()
        assert np.array_equal(got, expected) or np.array_equal(got, mirrored)
        swapped += np.array_equal(got, mirrored)
    assert 0 < swapped < view.rows


@pytest.mark.parametrize("confident", [True, False])
def test_unseen_and_missing_joints_stay_at_the_origin(confident):
    """Interpolated between a frame that shows a joint and one that does not, it goes half the way."""
    _, clips = batch(confident=confident)
    lost = clips.frames_FJ.reshape(-1, 17).clone()
    if confident:
        clips.confidence_FJ[1, 4] = 0  # clip 0, first body, second frame
        lost[[1, 31, 61], 4] = 0
    missing_BJ = torch.zeros(len(clips.ids), 17, dtype=torch.bool)
    missing_BJ[0, 6] = True
    lost[: 2 * 90, 6] = 0  # both bodies of clip 0
    clips = replace(clips, frames_FJ=lost, missing_BJ=missing_BJ)
    if confident:
        clips.confidence_FJ[:60, 6] = 0
    frames = 60
    spec = {"v": ViewSpec(frames=frames, crop=Center(share=1), resize="ends")}
    body = lost[:90].reshape(3, 30, 17).permute(1, 2, 0)
    origin = body[0, COCO17.center]
    seen = body.any(2, keepdim=True)
    centered = (body - origin) * seen
    at = torch.linspace(0, 29, frames)
    low, high = at.floor().long(), at.ceil().long()
    expected = torch.lerp(centered[low], centered[high], (at - low)[:, None, None])
    moved = build(spec, clips, center="body")["v"].x_RTJC[0]
    torch.testing.assert_close(moved, expected)
    assert not moved[:, 6].any() and moved[:, 5].any()


def test_a_bone_or_motion_has_the_lower_confidence():
    confidence, clips = batch()
    whole = {"resize": "pad", "crop": Center(share=1), "frames": 50}
    views = build({s: ViewSpec(**whole, stream=s) for s in ("bone", "motion")}, clips)
    c = confidence[3][1]
    starts = list(COCO17.bones)
    assert np.array_equal(views["bone"].confidence_RTJ[-1].numpy(), np.minimum(c, c[:, starts]))
    assert np.array_equal(views["motion"].confidence_RTJ[-1, :-1].numpy(), np.minimum(c[:-1], c[1:]))


def test_without_confidence_a_view_has_none_and_the_same_coordinates():
    spec = {"v": ViewSpec(frames=16, augment=(Mirror(), Rotate()), count=2)}
    (_, with_it), (_, without) = batch(), batch(confident=False)
    sure, plain = build(spec, with_it)["v"], build(spec, without)["v"]
    assert plain.confidence_RTJ is None and torch.equal(plain.x_RTJC, sure.x_RTJC)
