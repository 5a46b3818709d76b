import numpy as np
import pytest
from made.literal_ntu import literal_clip, literal_recording
from made.ntu import FIRST_ID, Track, person, scene, wild_scene, write_recording

from skelbench.data.raw.files import BadFile
from skelbench.data.raw.ntu.clip import make_clip
from skelbench.data.raw.ntu.text import parse


def clip_of(tracks, frames):
    return make_clip(parse(write_recording(tracks, frames)))


def walker(frames, seed=0, place=0.0, liveliness=1.0):
    return person(np.random.default_rng(seed), frames, place, liveliness)


def track(number, frames, **how):
    return Track(FIRST_ID + number, list(frames), walker(len(frames), seed=number, **how))


def read(x_TJC):
    """Coordinates as written in the text."""
    return np.array([np.float32(f"{value:.7g}") for value in x_TJC.ravel()]).reshape(x_TJC.shape)


@pytest.mark.parametrize("make", [scene, wild_scene])
def test_clips_equal_a_plain_version_of_the_pipeline(make):
    outcomes = set()
    for seed in range(50):
        rng = np.random.default_rng([9, seed])
        frames = int(rng.integers(30, 45))
        data = write_recording(make(rng, frames), frames)
        seen = literal_recording(data)
        expected = seen and literal_clip(*seen)
        try:
            clip = make_clip(parse(data))
        except BadFile:
            assert expected is None
            outcomes.add("refused")
            continue
        bodies, origin = expected
        np.testing.assert_array_equal(clip.x_MTJC, np.array(bodies).reshape(clip.x_MTJC.shape))
        np.testing.assert_array_equal(clip.origin, origin)
        outcomes.add(len(bodies))
    assert outcomes >= {1, 2}


@pytest.mark.parametrize("shared", [0, 1, 2])
def test_bodies_that_follow_each_other_become_one(shared):
    """One frame in common is no overlap, and there the later body stands; two are one."""
    first = track(0, range(20), liveliness=1.5)
    second = track(1, range(20 - shared, 40), liveliness=0.5)
    clip = clip_of([first, second], 40)
    assert clip.x_MTJC.shape[:2] == (2, 40)
    merged = shared < 2
    assert clip.empty_body == merged
    assert clip.x_MTJC[1].any() != merged
    if merged:
        origin = read(first.x_TJC)[0, 1]
        np.testing.assert_array_equal(clip.x_MTJC[0, 20 - shared :], read(second.x_TJC) - origin)
        np.testing.assert_array_equal(clip.x_MTJC[0, : 20 - shared], read(first.x_TJC)[: 20 - shared] - origin)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_nonfinite_coordinates_matter_only_in_kept_bodies(value):
    bad = track(0, range(30))
    bad.x_TJC[7, 3, 2] = value
    for others in ([], [track(1, range(30), place=1.0, liveliness=0.1)]):
        with pytest.raises(BadFile, match="joint . in frame .* not finite"):
            clip_of([bad, *others], 30)
    flicker = track(0, range(9))
    flicker.x_TJC[7, 3, 2] = value
    kept = track(1, range(30), place=1.0)
    np.testing.assert_array_equal(clip_of([flicker, kept], 30).x_MTJC, clip_of([kept], 30).x_MTJC)
