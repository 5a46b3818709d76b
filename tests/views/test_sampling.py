import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.views.crops import CROP, Alike, Center, Cut, Free, Inside, Interval, ReflectCrop, Same, Tempo
from skelbench.views.keyed import Keyed
from skelbench.views.sampling import BINS, extended_length, frame_positions

KEYED = Keyed(3, 5)


def lengths(*values):
    return torch.tensor(values, dtype=torch.int64)


def draw(crop, resize, length_B, parent=None, view=1):
    keys = 2 * torch.arange(len(length_B))
    return crop.cut(Cut(length_B, resize, KEYED, keys, torch.full_like(keys, view), parent))


def positions(interval, frames, resize, clip_length_B):
    keys = 2 * torch.arange(len(interval.start_B))
    return frame_positions(interval, frames, resize, clip_length_B, KEYED, keys, torch.ones_like(keys))


def read(frames, x_BL):
    """Interpolate x, a list of 1-D clips, at ``frames``, in float64."""
    rows = []
    for b, x in enumerate(x_BL):
        first, second = x[frames.first_BT[b]], x[frames.second_BT[b]]
        rows.append(first + frames.weight_BT[b].double() * (second - first))
    return torch.stack(rows)


def test_free_interval_is_the_literal_formula():
    length_B = lengths(1, 2, 17, 300)
    interval = draw(Free(lo=0.5, hi=0.9), "ends", length_B)
    for b, length in enumerate(length_B.tolist()):
        u = KEYED.uniform(torch.tensor([2 * b]), 2, view=1, op=CROP)[0].tolist()
        duration = (0.5 + u[0] * 0.4) * (length - 1)
        assert interval.duration_B[b].item() == pytest.approx(duration, abs=1e-12)
        assert interval.start_B[b].item() == pytest.approx(u[1] * (length - 1 - duration), abs=1e-12)


def test_crops_from_a_parent_are_the_literal_formulas():
    length_B = lengths(2, 17, 300)
    parent = draw(Free(lo=0.3, hi=0.8), "ends", length_B)
    inside = draw(Inside(parent="p", lo=0.2, hi=0.5), "ends", length_B, parent, view=2)
    alike = draw(Alike(parent="p"), "ends", length_B, parent, view=2)
    u_B2 = KEYED.uniform(2 * torch.arange(3), 2, view=2, op=CROP).double()
    torch.testing.assert_close(inside.duration_B, (0.2 + 0.3 * u_B2[:, 0]) * parent.duration_B)
    torch.testing.assert_close(inside.start_B, parent.start_B + u_B2[:, 1] * (parent.duration_B - inside.duration_B))
    assert torch.equal(alike.duration_B, parent.duration_B)
    torch.testing.assert_close(alike.start_B, u_B2[:, 1] * (length_B - 1 - parent.duration_B))


def test_whole_frames_follow_mamps_rule():
    length_B = lengths(*range(1, 200))
    interval = draw(Free(lo=0.5, hi=1, whole_frames=True, min_frames=64), "half-pixel", length_B)
    starts = set()
    for b, length in enumerate(length_B.tolist()):
        u = KEYED.uniform(torch.tensor([2 * b]), 2, view=1, op=CROP)[0].tolist()
        crop = min(max(int(math.floor((0.5 + 0.5 * u[0]) * length)), 64), length)
        assert interval.duration_B[b] == crop - 1
        assert interval.start_B[b] == math.floor(u[1] * (length - crop + 1))
        starts.add((interval.start_B[b] + crop == length).item())
    assert starts == {True, False}


LENGTH, SHARE, RESIZE = st.integers(1, 300), st.floats(0, 1), st.sampled_from(["ends", "half-pixel", "pad", "release"])


def test_whole_frames_inside_a_parent_are_the_literal_formula():
    length_B = lengths(*range(1, 200))
    parent = draw(Free(lo=0.5, hi=1, whole_frames=True, min_frames=16), "release", length_B)
    inside = draw(Inside(parent="p", lo=0.15, hi=0.4, whole_frames=True, min_frames=16), "release", length_B, parent, 2)
    for b in range(len(length_B)):
        u = KEYED.uniform(torch.tensor([2 * b]), 2, view=2, op=CROP)[0].tolist()
        whole = int(parent.duration_B[b]) + 1
        count = min(max(math.floor((0.15 + 0.25 * u[0]) * whole), 16), whole)
        assert inside.duration_B[b] == count - 1
        assert inside.start_B[b] == parent.start_B[b] + math.floor(u[1] * (whole - count + 1))


def test_center_continuous_and_whole():
    for length in (1, 2, 19, 20, 40, 103, 300):
        interval = draw(Center(share=0.95), "ends", lengths(length))
        assert interval.duration_B.item() == pytest.approx(0.95 * (length - 1))
        assert interval.start_B.item() == pytest.approx(0.025 * (length - 1))
        cut = int((1 - 0.95) * length / 2)
        kept = list(range(length))[cut : length - cut]
        whole = draw(Center(share=0.95), "half-pixel", lengths(length))
        assert (whole.start_B.item(), whole.duration_B.item()) == (kept[0], kept[-1] - kept[0])


@pytest.mark.parametrize("frames", [1, 2, 8, 64])
def test_ends_is_numpy_linspace_and_interp(frames):
    rng = np.random.default_rng(frames)
    length_B = lengths(1, 2, 5, 64, 150)
    interval = draw(Free(lo=0.2, hi=1), "ends", length_B)
    x_BL = [torch.from_numpy(rng.normal(size=length)) for length in length_B.tolist()]
    got = read(positions(interval, frames, "ends", length_B), x_BL)
    for b, x in enumerate(x_BL):
        start, end = interval.start_B[b].item(), (interval.start_B + interval.duration_B)[b].item()
        at = np.linspace(start, end, frames) if frames > 1 else [(start + end) / 2]
        assert np.allclose(got[b], np.interp(at, np.arange(len(x)), x), atol=1e-6)


@given(length=st.integers(1, 300), frames=st.integers(1, 128), seed=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_half_pixel_is_torch_interpolate(length, frames, seed):
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=length))
    interval = draw(Free(lo=0.3, hi=1, whole_frames=True, min_frames=4), "half-pixel", lengths(length))
    first = int(interval.start_B)
    crop = x[first : first + int(interval.duration_B) + 1]
    expected = F.interpolate(crop[None, None], size=frames, mode="linear", align_corners=False)[0, 0]
    assert torch.allclose(read(positions(interval, frames, "half-pixel", lengths(length)), [x])[0], expected, atol=1e-6)


def test_pad_keeps_frames_unchanged():
    interval = Interval(torch.tensor([2.0, 0.0]), torch.tensor([3.0, 9.0]))
    frames = positions(interval, 6, "pad", lengths(9, 10))
    assert frames.real_BT.tolist() == [[True] * 4 + [False] * 2, [True] * 6]
    assert frames.first_BT[0, :4].tolist() == [2, 3, 4, 5] and frames.first_BT[1].tolist() == [0, 1, 2, 3, 4, 5]
    assert not frames.weight_BT.any()


def test_strided_takes_every_nth_frame_from_the_beginning():
    """Sampling of Predict and Cluster: stride floor(n / T) until there are T frames; shorter clips are padded."""
    counts, frames = (4, 6, 11, 12, 17, 40), 6
    interval = Interval(torch.zeros(len(counts)), torch.tensor(counts).double() - 1)
    at = positions(interval, frames, "strided", lengths(*counts))
    for b, count in enumerate(counts):
        expected = [*range(0, count, max(1, count // frames))][:frames]
        assert at.first_BT[b, : len(expected)].tolist() == expected and not at.weight_BT.any()
        assert at.real_BT[b].tolist() == [t < len(expected) for t in range(frames)]


def test_tempo_resizes_to_drawn_frames_then_cuts_or_pads():
    """Sampling of GL-Transformer's feeder: int(length (1 +- u amount)) frames, half-pixel, at most T of them."""
    length_B = lengths(*range(1, 41))
    interval = draw(Tempo(amount=0.3), "pad", length_B)
    frames = positions(interval, 30, "pad", length_B)
    u_B = KEYED.uniform(2 * torch.arange(40), 1, view=1, op=CROP)[:, 0].double()
    clips = [torch.from_numpy(np.random.default_rng(n).normal(size=n)) for n in length_B.tolist()]
    for b, (n, x) in enumerate(zip(length_B.tolist(), clips)):
        shown = max(1, int(n * (1 + (2 * float(u_B[b]) - 1) * 0.3)))
        expected = F.interpolate(x[None, None], size=shown, mode="linear", align_corners=False)[0, 0, :30]
        assert frames.real_BT[b].tolist() == [t < shown for t in range(30)]
        assert torch.allclose(read(frames, clips)[b][: len(expected)], expected, atol=1e-6)
    again = draw(Same(parent="x"), "pad", length_B, parent=interval)
    assert torch.equal(again.frames_B, interval.frames_B) and torch.equal(
        again.take(length_B - 1).frames_B, again.frames_B
    )
    assert torch.equal(
        positions(interval, 30, "ends", length_B).first_BT, positions(again, 30, "ends", length_B).first_BT
    )


@pytest.mark.parametrize("count,frames", [(5, 8), (8, 8), (9, 8), (15, 8), (16, 8), (75, 8), (1, 4)])
def test_release_is_the_literal_sampling(count, frames):
    """KAIST-VICLab/SLiM in training: interpolated when short, gaps of 1 or 2 in the middle, a random frame per bin."""
    rows = 40
    interval = Interval(torch.full((rows,), 3.0), torch.full((rows,), count - 1.0))
    at_BT = positions(interval, frames, "release", torch.full((rows,), count + 6))
    for b in range(rows):
        u = KEYED.uniform(torch.tensor([2 * b]), 2 * frames, view=1, op=BINS)[0].tolist()
        at = (at_BT.first_BT[b] + at_BT.weight_BT[b].double()).numpy() - 3
        if count < frames:
            whole = torch.arange(count).double()[None, None]
            expected = F.interpolate(whole, size=frames, mode="linear", align_corners=False)[0, 0].numpy()
        elif count < 2 * frames:
            dropping = sorted(range(frames + 1), key=lambda gap: u[gap])[: count - frames]  # noqa: B023
            expected, at_frame = [], 0
            for gap in range(frames):
                at_frame += gap in dropping
                expected.append(at_frame)
                at_frame += 1
            assert set(np.diff(expected)) <= {1, 2} and expected[-1] < count
        else:
            edges = [t * count // frames for t in range(frames + 1)]
            expected = [lo + math.floor(u[t] * (hi - lo)) for t, (lo, hi) in enumerate(zip(edges, edges[1:]))]
        assert np.allclose(at, expected, atol=1e-6)


def test_bin_starts_are_the_literal_test_time_frames():
    """KAIST-VICLab/SLiM at test, on clips of every length."""
    for length in range(1, 301):
        interval = Center(share=0.95).cut(
            Cut(lengths(length), "bin-starts", KEYED, torch.zeros(1, dtype=torch.int64), torch.ones(1), frames=64)
        )
        frames = positions(interval, 64, "bin-starts", lengths(length))
        at = (frames.first_BT + frames.weight_BT.double())[0].numpy()
        count = min(max(int(0.95 * length), 64), length)
        repeated = [*range(length), *range(length - 1, -1, -1)] * 2
        crop = np.array(repeated[int((1 - 0.95) * length / 2) :][:count])
        if count < 64:
            whole = torch.from_numpy(crop).double()[None, None]
            expected = F.interpolate(whole, size=64, mode="linear", align_corners=False)[0, 0].numpy()
        else:
            expected = crop[[i * count // 64 for i in range(64)]]
        assert np.allclose(at, expected, atol=1e-5)


@given(length=st.integers(1, 30), below=st.integers(0, 30))
@settings(max_examples=80, deadline=None)
def test_very_short_clips_are_played_forth_and_back(length, below):
    """In whole passes that show the turning frames twice, as KAIST-VICLab/SLiM does."""
    clip, played = list(range(length)), list(range(length))
    while length < below and len(played) < 150:
        played += clip[::-1] if len(played) // length % 2 else clip
    long = extended_length(lengths(length), 150, below)
    assert long.item() == len(played)
    whole = Interval(torch.zeros(1, dtype=torch.float64), (long - 1).double())
    at_T = positions(whole, len(played), "bin-starts", lengths(length)).first_BT[0]
    assert at_T.tolist() == played


@given(st.integers(1, 40), LENGTH, st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_uniform_frames_are_recorded_ones_of_longer_crops_and_ends_of_others(frames, length, share, place):
    duration = share * (length - 1)
    interval = Interval(*(torch.tensor([x], dtype=torch.float64) for x in (place * (length - 1 - duration), duration)))
    uniform, ends = (positions(interval, frames, how, lengths(length)) for how in ("uniform-frames", "ends"))
    if duration + 1 <= frames:
        assert all(torch.equal(getattr(uniform, name), getattr(ends, name)) for name in ("first_BT", "weight_BT"))
        return
    exact_T = ends.first_BT[0] + ends.weight_BT[0].double()
    chosen_T = uniform.first_BT[0]
    assert not uniform.weight_BT.any() and len(set(chosen_T.tolist())) == frames
    assert (chosen_T.double() - exact_T).abs().max() <= 0.5 + 1e-5 and 0 <= chosen_T.min() <= chosen_T.max() < length


def test_a_reflected_crop_plays_the_clip_backwards_beyond_its_ends():
    lengths, keys = torch.tensor([31, 31, 61]), torch.tensor([0, 2, 4])
    cut = Cut(lengths, "ends", KEYED, keys, torch.full_like(keys, 256))
    interval = ReflectCrop(pad=1 / 6).cut(cut)
    assert torch.equal(interval.duration_B, lengths.double() - 1)
    assert (interval.start_B.abs() <= (lengths - 1) / 6).all() and len(interval.start_B.unique()) == 3
    frames = frame_positions(interval, 61, "ends", lengths, KEYED, keys, torch.full_like(keys, 256))
    for b, (start, length) in enumerate(zip(interval.start_B.tolist(), lengths.tolist())):
        place = start + np.linspace(0, length - 1, 61)
        place = np.abs(place)
        place = np.where(place > length - 1, 2 * (length - 1) - place, place)
        assert np.allclose(frames.first_BT[b] + frames.weight_BT[b].double(), place, atol=1e-4)
