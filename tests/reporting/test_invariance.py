"""Curves of features whose invariances are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.core.errors import SkelbenchError
from skelbench.reporting.diagnostics import figures
from skelbench.reporting.diagnostics.frozen import evenly, reversed_in_time, turned
from skelbench.reporting.diagnostics.invariance import SIZES, agreement, curves, yaws
from skelbench.testing.stick7 import STICK7
from skelbench.views.streams import as_stream
from skelbench.views.view import View


def clips(n=12, seed=0):
    return View.of(torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 1, 6, 7, 3)).astype(np.float32)))


def raw(view):
    return view.x_RTJC.flatten(1).numpy()


def found(feature, view):
    return curves(
        feature(view),
        lambda degrees: feature(turned(degrees)(view)),
        lambda size: feature(view.with_x(size * view.x_RTJC)),
    )


def test_agreement_is_that_of_loops():
    rng = np.random.default_rng(1)
    original = rng.normal(size=(9, 4)).astype(np.float32)
    changed = original + rng.normal(size=(9, 4)).astype(np.float32)
    mean = original.astype(np.float64).mean(0)

    def cosine(i, j):
        a, b = changed[i] - mean, original[j] - mean
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    got = agreement(changed, original)
    assert got["similarity"] == pytest.approx(np.mean([cosine(i, i) for i in range(9)]))
    assert got["others"] == pytest.approx(np.mean([cosine(i, j) for i in range(9) for j in range(9) if i != j]))
    nearest = [max(range(9), key=lambda j: cosine(i, j)) for i in range(9)]
    assert got["retrieved"] == pytest.approx(np.mean([i == j for i, j in enumerate(nearest)]))
    assert 0 < got["retrieved"] < 1


def test_curves_begin_and_end_at_the_original():
    got = found(raw, clips())
    yaw, size = got["yaw"], got["size"]
    assert [point["value"] for point in yaw] == yaws() and [point["value"] for point in size] == list(SIZES)
    for point in (yaw[0], yaw[-1], size[SIZES.index(1.0)]):
        assert point["similarity"] == pytest.approx(1, abs=1e-12) and point["retrieved"] == 1
    assert {**yaw[0], "value": 360} == yaw[-1]
    # Coordinates without their height turn by the angle itself: the cosine of two of them is nearly its cosine.
    flat = found(lambda view: view.x_RTJC[..., [0, 2]].flatten(1).numpy(), clips(200))["yaw"]
    assert [point["similarity"] for point in flat] == pytest.approx(np.cos(np.radians(yaws())), abs=0.02)
    assert min(point["retrieved"] for point in flat) == 0


@pytest.mark.parametrize("changes", [("yaw", "size"), ("size",)])
def test_the_legend_of_the_picture_covers_no_panel_and_names_each_run_once(changes):
    curve = [{"value": value, "similarity": 1.0, "others": 0.1, "retrieved": 1.0} for value in (0.7, 1.0, 1.3)]
    names = ["slim-small-half-4t", "untrained-small-half-4t", "a $name$ as long as they are given " + "to runs, " * 3]
    named = {name: {"clips": 9, "curves": dict.fromkeys(changes, curve)} for name in names}
    figure = figures.invariance(named, "small, half")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [*names, "other clips"]
    box = legend.get_window_extent()
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1
    for axes in figure.axes:
        assert axes.get_legend() is None and not box.overlaps(axes.get_tightbbox())


def test_an_invariant_feature_stays_where_it_is():
    view = clips()

    def radius_and_height(view):
        x = view.x_RTJC
        return torch.cat([x[..., [0, 2]].norm(dim=-1), x[..., 1]], -1).flatten(1).numpy()

    yaw = found(radius_and_height, view)["yaw"]
    assert all(point["similarity"] == pytest.approx(1, abs=1e-5) and point["retrieved"] == 1 for point in yaw)


def test_a_collapsed_feature_finds_nothing():
    same = np.ones((5, 3), dtype=np.float32)
    assert agreement(same, same) == {"similarity": 0.0, "others": 0.0, "retrieved": 0.0}


def test_flat_poses_have_no_yaw():
    view = clips()
    got = curves(raw(view), lambda _: pytest.fail("turned"), lambda size: raw(view), flat=True)
    assert list(got) == ["size"]


@settings(max_examples=20, deadline=None)
@given(st.floats(-720, 720))
def test_turns_keep_lengths_and_heights_and_add_up(degrees):
    view = clips(3)
    once = turned(degrees)(view)
    assert torch.allclose(once.x_RTJC.norm(dim=-1), view.x_RTJC.norm(dim=-1), atol=1e-5)
    assert torch.allclose(once.x_RTJC[..., 1], view.x_RTJC[..., 1], atol=1e-6)
    assert torch.allclose(turned(-degrees)(once).x_RTJC, view.x_RTJC, atol=1e-5)
    assert torch.equal(turned(360)(view).x_RTJC, view.x_RTJC)


def test_a_quarter_turn_takes_z_to_x():
    x = torch.zeros(1, 1, 1, 7, 3)
    x[..., 2] = 1.0
    assert torch.allclose(turned(90)(View.of(x)).x_RTJC[0, 0, 0], torch.tensor([1.0, 0.0, 0.0]), atol=1e-6)


def test_reversal_turns_frames_and_confidence_around():
    view = View.of(clips().x_BMTJC, confidence_RTJ=torch.rand(12, 6, 7))
    back = reversed_in_time(view)
    assert torch.equal(back.x_RTJC[:, 0], view.x_RTJC[:, -1])
    assert torch.equal(back.confidence_RTJ[:, 1], view.confidence_RTJ[:, -2])
    again = reversed_in_time(back)
    assert torch.equal(again.x_RTJC, view.x_RTJC) and torch.equal(again.confidence_RTJ, view.confidence_RTJ)
    with pytest.raises(SkelbenchError, match="padded"):
        reversed_in_time(View.of(clips().x_BMTJC, real_RT=torch.ones(12, 6, dtype=torch.bool)))


def test_motion_goes_back_frame_by_frame():
    """As the motion of the reversed clip, whose last frame has none either."""
    view = View.of(clips().x_BMTJC)
    motion = replace(view.with_x(as_stream(view.x_RTJC, "motion", STICK7, 1, 2)), stream="motion")
    expected = as_stream(view.x_RTJC.flip(1), "motion", STICK7, 1, 2)
    assert torch.allclose(reversed_in_time(motion).x_RTJC, expected, atol=1e-6)


def test_clips_are_spread_over_the_classes():
    labels = np.arange(90) % 3
    ids = np.arange(1, 88)
    some = evenly(ids, labels, 30)
    assert len(some) == len(set(some.tolist())) == 30 and set(some) <= set(ids) and (np.diff(some) > 0).all()
    assert np.bincount(labels[some]).tolist() == [10, 10, 10]
    assert some.min() < 10 and some.max() > 80
    assert np.array_equal(evenly(ids, labels, 1000), ids)


def test_the_whole_body_grows_with_its_bones():
    """The size curve's operation: lengths times the factor, directions kept, the root where it was."""
    from skelbench.views.augmentations import BoneScale, draw_transform
    from skelbench.views.keyed import Keyed

    topology, x_R3TJ = STICK7, clips(2).x_RTJC.permute(0, 3, 1, 2).contiguous()
    keys, keyed = torch.arange(2), Keyed(0, 0)
    (step,) = draw_transform((BoneScale(p=1.0, lo=1.3, hi=1.3),), topology, keyed, keys, keys, torch.zeros_like(keys))
    scaled = step.apply(x_R3TJ.clone(), keyed)
    for joint, parent in enumerate(topology.parents):
        if parent < 0:
            assert torch.allclose(scaled[..., joint], x_R3TJ[..., joint], atol=1e-6)
        else:
            bone = x_R3TJ[..., joint] - x_R3TJ[..., parent]
            assert torch.allclose(scaled[..., joint] - scaled[..., parent], 1.3 * bone, atol=1e-5)
