from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import center
from skelbench.views.augmentations import AxisDrop, BoneScale, Mirror, Noise, Rotate, Translate
from skelbench.views.builder import ViewBuilder, evaluation_spec
from skelbench.views.clips import ClipBatch
from skelbench.views.crops import Center, Free, Inside, Same
from skelbench.views.keyed import Keyed
from skelbench.views.masks import RandomTokens
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.spec import ViewSpec
from skelbench.views.tubes import Tube

KEYED = Keyed(5, 77)
SAA = (Rotate(), Mirror(), BoneScale())
ANCHORED = Inside(parent="global", lo=0.15, hi=0.4)
SLIM = {
    "global": ViewSpec(frames=64, augment=SAA, mask=Tube(), count=2),
    "local16": ViewSpec(frames=16, crop=ANCHORED, augment=SAA, mask=Tube(p=0.5), count=2),
}


def make_store(lengths, bodies, slots=2):
    """Every clip, dense [M, L, J, 3], and all of them as one resident batch."""
    rng = np.random.default_rng(0)
    clips = [rng.normal(size=(m, length, 25, 3)).astype(np.float32) for length, m in zip(lengths, bodies)]
    frames_FJ = torch.from_numpy(np.concatenate([clip.transpose(0, 3, 1, 2).reshape(-1, 25) for clip in clips]))
    lengths, bodies = np.array(lengths), np.array(bodies)
    size = 3 * lengths * bodies
    return clips, ClipBatch(np.arange(len(clips)), frames_FJ, np.cumsum(size) - size, lengths, bodies, slots)


def select(batch, index, streamed=False):
    """Some clips of a batch; ``streamed`` copies their rows, as a source does when the store is not resident."""
    part = replace(batch, **{name: getattr(batch, name)[index] for name in ("ids", "offset", "length", "bodies")})
    if not streamed:
        return part
    size = 3 * part.length * part.bodies
    rows = [batch.frames_FJ[start : start + n] for start, n in zip(part.offset, size)]
    return replace(part, frames_FJ=torch.cat(rows), offset=np.cumsum(size) - size)


LENGTHS, BODIES = [90, 1, 33, 200, 64, 7], [1, 2, 1, 2, 2, 1]


@pytest.fixture
def store():
    return make_store(LENGTHS, BODIES)


def stored_bodies(clips):
    """Coordinates [L, J, 3] of every body, in the order of a view's rows."""
    return [body for clip in clips for body in clip]


def build(specs, batch, bodies="valid", keyed=KEYED, **settings):
    return ViewBuilder(specs, NTU25, 8, bodies, **settings)(batch, keyed)


def same(a, b):
    """Every tensor of two views is equal, bit for bit."""
    pairs = [(getattr(a, f), getattr(b, f)) for f in ("x_RTJC", "rows_R", "mask_RN", "masked_I", "keep_RK", "real_RT")]
    return all((x is None and y is None) or torch.equal(x, y) for x, y in pairs)


# ---------------------------------------------------------------------------------------------- coordinates
def test_the_central_crop_is_interpolation_at_both_ends(store):
    clips, batch = store
    view = build({"eval": evaluation_spec(Grid(64, 8, 25))}, batch)["eval"]
    assert view.x_RTJC.shape == (sum(BODIES), 64, 25, 3) and view.mask_RN is None and view.real_RT is None
    for x_TJC, body in zip(view.x_RTJC, stored_bodies(clips), strict=True):
        span = len(body) - 1
        at = np.linspace(0.025 * span, 0.975 * span, 64)
        expected = [[np.interp(at, np.arange(span + 1), body[:, j, c]) for c in range(3)] for j in range(25)]
        assert np.allclose(x_TJC, np.array(expected).transpose(2, 0, 1), atol=1e-5)


def test_pad_shows_real_frames_then_zeros(store):
    clips, batch = store
    for stream in ("joint", "motion"):
        spec = ViewSpec(frames=80, crop=Center(share=1), resize="pad", augment=(Noise(p=1, std=0.5),), stream=stream)
        view = build({"v": spec}, batch)["v"]
        noiseless = build({"v": spec.model_copy(update={"augment": ()})}, batch)["v"]
        for r, body in enumerate(stored_bodies(clips)):
            real = min(80, len(body))
            assert view.real_RT[r].tolist() == [True] * real + [False] * (80 - real)
            assert (view.x_RTJC[r, real:] == 0).all()
            shown = torch.from_numpy(body)[:80]
            if stream == "motion":
                shown = torch.cat([shown[1:] - shown[:-1], torch.zeros(1, 25, 3)])
            assert torch.allclose(noiseless.x_RTJC[r, :real], shown, atol=1e-6)


def test_streams(store):
    _, batch = store
    specs = {
        "joint": ViewSpec(frames=16, augment=SAA),
        "bone": ViewSpec(frames=16, crop=Same(parent="joint"), inherit=True, stream="bone"),
        "motion": ViewSpec(frames=16, crop=Same(parent="joint"), inherit=True, stream="motion"),
    }
    views = build(specs, batch)
    x = views["joint"].x_RTJC
    # The field's list, 1-based: (1, 2), (2, 21), (3, 21), ..., (21, 21), (22, 23), (23, 8), (24, 25), (25, 12).
    begins = [2, 21, 21, 3, 21, 5, 6, 7, 21, 9, 10, 11, 1, 13, 14, 15, 1, 17, 18, 19, 21, 23, 8, 25, 12]
    for j, other in enumerate(begins):
        assert torch.equal(views["bone"].x_RTJC[:, :, j], x[:, :, j] - x[:, :, other - 1])
    assert torch.equal(views["motion"].x_RTJC[:, :-1], x[:, 1:] - x[:, :-1])
    assert (views["motion"].x_RTJC[:, -1] == 0).all()


# ---------------------------------------------------------------------------------------------- parents
@pytest.mark.parametrize("resize", ["ends", "half-pixel", "pad", "strided", "release"])
def test_same_and_inherit(store, resize):
    _, batch = store
    specs = {
        "a": ViewSpec(frames=16, augment=(*SAA, Translate(p=1), Noise(p=1), Rotate()), resize=resize, count=2),
        "plain": ViewSpec(frames=16, crop=Same(parent="a"), resize=resize),
        "copy": ViewSpec(frames=16, crop=Same(parent="a"), resize=resize, inherit=True, count=2),
        "noisy": ViewSpec(frames=16, crop=Same(parent="copy"), resize=resize, inherit=True, augment=(AxisDrop(p=1),)),
        "twin": ViewSpec(frames=16, augment=(), resize=resize, count=2),
    }
    views = build(specs, batch)
    x = views["a"].x_RTJC.chunk(2)
    copies = views["copy"].x_RTJC.chunk(4)
    assert all(torch.equal(copies[i], x[i // 2]) for i in range(4))
    still = build({"a": specs["a"].model_copy(update={"augment": ()})}, batch)["a"]
    assert torch.equal(views["plain"].x_RTJC, still.x_RTJC)
    assert not torch.equal(views["twin"].x_RTJC, still.x_RTJC)
    dropped = views["noisy"].x_RTJC
    zero = (dropped == 0).flatten(1, 2).all(1)
    assert (zero.sum(1) >= 1).all()
    assert torch.allclose(dropped, torch.where(zero[:, None, None, :], 0.0, views["copy"].x_RTJC), atol=1e-5)


def test_extended_parents(store):
    clips, batch = store
    specs = {
        "a": ViewSpec(frames=147, crop=Center(share=1), extend=147, extend_below=16, resize="bin-starts"),
        "b": ViewSpec(frames=9, crop=Inside(parent="a", lo=0.9, hi=1)),
    }
    views = build(specs, batch)
    short = torch.from_numpy(clips[5][0])
    forth_and_back = torch.cat([short, short.flip(0)] * 11)[:147]
    assert torch.equal(views["a"].x_RTJC[-1], forth_and_back)
    assert views["b"].x_RTJC.isfinite().all()


# ---------------------------------------------------------------------------------------------- bodies
def test_which_bodies_become_rows(store):
    clips, batch = store
    spec = {"v": ViewSpec(frames=8, augment=(Noise(p=1), *SAA), count=2, mask=RandomTokens())}
    valid, slots, first = (build(spec, batch, bodies)["v"] for bodies in ("valid", "all-slots", "first"))
    present = torch.tensor([[m < n for m in range(2)] for n in BODIES]).repeat(2, 1)
    assert torch.equal(valid.valid_BM, present) and valid.rows == present.sum() and valid.clips == 6
    assert slots.rows == 24 and slots.valid_BM.all()
    assert torch.equal(slots.x_BMTJC[present], valid.x_RTJC)
    assert (slots.x_BMTJC[~present] == 0).all(), "an absent body is zero whatever is done to the others"
    assert first.valid_BM[:, 0].all() and not first.valid_BM[:, 1].any()
    assert torch.allclose(first.x_BMTJC[:, 0], valid.x_BMTJC[:, 0], atol=1e-6)
    assert torch.equal(slots.mask_RN[slots.rows_R[present.flatten()]], valid.mask_RN)


def test_random_valid_takes_one_present_body_for_all_views(store):
    _, batch = store
    spec = {"a": ViewSpec(frames=8, count=2), "b": ViewSpec(frames=8, crop=Inside(parent="a", lo=0.5, hi=0.5))}
    seen = set()
    for step in range(30):
        views = build(spec, batch, "random-valid", keyed=Keyed(0, step))
        chosen = views["a"].valid_BM
        assert (chosen.sum(1) == 1).all() and not chosen[:, 1][torch.tensor(BODIES * 2) == 1].any()
        assert torch.equal(chosen[:6], chosen[6:]) and torch.equal(chosen, views["b"].valid_BM)
        everyone = build(spec, batch, "valid", keyed=Keyed(0, step))["a"]
        assert torch.allclose(views["a"].x_BMTJC[chosen], everyone.x_BMTJC[chosen], atol=1e-6)
        seen.add(tuple(chosen[:6, 1].tolist()))
    assert len(seen) > 4


# ---------------------------------------------------------------------------------------------- determinism
def test_views_do_not_depend_on_order_of_declaration(store):
    _, batch = store
    one = ViewSpec(frames=8, augment=SAA, mask=Tube())
    forward, backward = build({"a": one, "b": one}, batch), build({"b": one, "a": one}, batch)
    assert same(forward["a"], backward["a"]) and same(forward["b"], backward["b"])
    assert not torch.equal(forward["a"].x_RTJC, forward["b"].x_RTJC)


@given(st.permutations(range(6)), st.integers(1, 6))
@settings(max_examples=5, deadline=None)
def test_a_clips_views_do_not_depend_on_its_batch(order, size):
    _, batch = make_store(LENGTHS, BODIES)
    specs = {**SLIM, "noisy": ViewSpec(frames=8, augment=(Noise(), AxisDrop()), resize="release", mask=RandomTokens())}
    index = np.array(order[:size])
    everything, part = build(specs, batch), build(specs, select(batch, index))
    for name in specs:
        whole, some = everything[name], part[name]
        clip = torch.arange(6).repeat(whole.count).view(whole.count, 6)[:, index].flatten()
        at = clip + 6 * torch.arange(whole.count).repeat_interleave(size)
        assert torch.equal(whole.valid_BM[at], some.valid_BM)
        assert torch.allclose(whole.x_BMTJC[at], some.x_BMTJC, atol=1e-5)
        dense = [torch.zeros(v.valid_BM.numel(), v.mask_RN.shape[1], dtype=torch.bool) for v in (whole, some)]
        for view, full in zip((whole, some), dense):
            full[view.rows_R] = view.mask_RN
        assert torch.equal(dense[0].view(-1, 2, dense[0].shape[1])[at].flatten(0, 1), dense[1])


@pytest.mark.parametrize("bodies", ["valid", "all-slots", "random-valid"])
def test_resident_and_streamed_batches_give_the_same_bits(store, bodies):
    _, batch = store
    index = np.array([4, 1, 3, 0])
    resident, again = (build(SLIM, select(batch, index), bodies) for _ in range(2))
    streamed = build(SLIM, select(batch, index, streamed=True), bodies)
    other = build(SLIM, select(batch, index), bodies, keyed=Keyed(5, 78))
    for name in SLIM:
        assert same(resident[name], streamed[name]) and same(resident[name], again[name])
        assert not torch.equal(resident[name].x_RTJC, other[name].x_RTJC)


# ---------------------------------------------------------------------------------------------- refusals
V = ViewSpec
REFUSED = {
    "unknown parent": ({"v": V(frames=8, crop=Same(parent="w"))}, "not among the declared"),
    "frames not in patches": ({"v": V(frames=12, mask=Tube())}, "patches of 8"),
    "too many views": ({"v": V(frames=8, count=256)}, "256 views"),
    "inherit from nobody": ({"v": V(frames=8, inherit=True)}, "no parent"),
}


@pytest.mark.parametrize("specs,reason", REFUSED.values(), ids=REFUSED)
def test_impossible_views_are_rejected_by_name(specs, reason):
    with pytest.raises(SkelbenchError, match=reason) as error:
        ViewBuilder(specs, NTU25, 8)
    assert "'v'" in str(error.value)


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        (Free, {"lo": 0.5, "hi": 1.5}, "less than or equal to 1"),
        (Free, {"lo": 0.9, "hi": 0.5}, "swap"),
        (Noise, {"std": -1}, "greater than or equal to 0"),
        (Tube, {"a_min": 0}, "greater than or equal to 1"),
    ],
)
def test_settings_outside_their_bounds_are_rejected(kind, settings, reason):
    with pytest.raises(ValidationError, match=reason):
        kind(**settings)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_gives_the_same_views(store):
    _, batch = store
    specs = {**SLIM, "noisy": ViewSpec(frames=8, augment=(Noise(p=1), *SAA), resize="pad", stream="motion")}
    cpu = build(specs, batch)
    resident = replace(batch, frames_FJ=batch.frames_FJ.cuda())
    gpu = ViewBuilder(specs, NTU25, 8, device="cuda")(resident, KEYED)
    for name in specs:
        assert torch.allclose(gpu[name].x_RTJC.cpu(), cpu[name].x_RTJC, atol=1e-5)
        assert gpu[name].mask_RN is None or torch.equal(gpu[name].mask_RN.cpu(), cpu[name].mask_RN)


def test_each_body_can_be_put_at_its_own_origin(store):
    """``center="body"``: minus the center joint of the body's first frame, before rotation; empty slots stay empty."""
    clips, batch = store
    spec = {"v": ViewSpec(frames=16, crop=Center(share=1)), "w": ViewSpec(frames=16, crop=Same(parent="v"))}
    for bodies in ("valid", "all-slots"):
        plain, moved = (build(spec, batch, bodies, center=center)["w"] for center in ("clip", "body"))
        for row in range(plain.rows):
            clip, slot = divmod(int(plain.rows_R[row]), batch.max_bodies)
            if slot < len(clips[clip]):
                origin = torch.from_numpy(clips[clip][slot, 0, NTU25.center])
                torch.testing.assert_close(moved.x_RTJC[row], plain.x_RTJC[row] - origin)
            else:
                assert not moved.x_RTJC[row].any()


@pytest.mark.parametrize("bodies", ["valid", "all-slots", "random-valid"])
def test_a_body_is_centered_in_its_first_visible_frame(bodies):
    """Center like :func:`skelbench.data.importers.bodies.center` for any frames of the view; absent frames stay 0."""
    clips, batch = make_store([40, 7], [2, 2])
    clips[0][1, :10] = clips[0][0, 30:] = clips[1][1] = 0
    frames_FJ = torch.from_numpy(np.concatenate([clip.transpose(0, 3, 1, 2).reshape(-1, 25) for clip in clips]))
    spec = {"v": ViewSpec(frames=40, crop=Center(share=1), resize="pad"), "short": ViewSpec(frames=15, crop=Free())}
    views = build(spec, replace(batch, frames_FJ=frames_FJ), bodies, center="body")
    plain = build(spec, replace(batch, frames_FJ=frames_FJ), bodies)
    for row, cell in enumerate(views["v"].rows_R.tolist()):
        body = clips[cell // 2][cell % 2]
        expected = torch.from_numpy(center(body[None], NTU25.center)[0][0])
        assert torch.equal(views["v"].x_RTJC[row, : len(body)], expected)
        assert not views["v"].x_RTJC[row, len(body) :].any()
        gone_T = ~plain["short"].x_RTJC[row].flatten(1).any(1)
        assert not views["short"].x_RTJC[row, gone_T].any()


def test_every_row_of_every_view_has_its_own_key(store):
    _, batch = store
    views = build(SLIM, batch)
    assert all(len(set(view.keys_R.tolist())) == view.rows for view in views.values())
    two = type(views["global"]).cat([views["global"], views["global"]])
    assert len(set(two.keys_R.tolist())) == two.rows
    alone = build(SLIM, select(batch, [1]))["global"].keys_R.tolist()
    assert set(alone) <= set(views["global"].keys_R.tolist())


def test_common_draws_are_equal_for_all_clips_and_batches():
    """One clip three times under three ids: drawn together they stay alike, and like themselves in a smaller batch."""
    rng = np.random.default_rng(0)
    body = rng.normal(size=(2, 3, 40, 25)).astype(np.float32)
    frames_FJ = torch.from_numpy(np.concatenate([body.reshape(-1, 25)] * 3))
    offset, length, bodies = np.arange(3) * 240, np.full(3, 40), np.full(3, 2)
    batch = ClipBatch(np.arange(4, 7), frames_FJ, offset, length, bodies, 2)
    for draws, alike in (("batch", True), ("clip", False)):
        specs = {"view": ViewSpec(frames=16, augment=(Rotate(p=1), BoneScale(p=1)), draws=draws, count=2)}
        view = build(specs, batch)["view"]
        x_VBMTJC = view.x_BMTJC.unflatten(0, (2, 3))
        assert torch.equal(x_VBMTJC[:, :1].expand_as(x_VBMTJC), x_VBMTJC) == alike
        assert not torch.allclose(x_VBMTJC[0], x_VBMTJC[1], atol=1e-2), "each view its own"
        alone = build(specs, select(batch, [1]))["view"].x_BMTJC
        assert torch.equal(alone, x_VBMTJC[:, 1])
