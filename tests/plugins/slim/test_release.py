"""Preset ``release`` does what the authors' code does (KAIST-VICLab/SLiM at 2b8bb41), by literal loops."""

import math

import numpy as np
import pytest
import torch
from skelbench_plugins.slim.koleo import koleo

from skelbench.core.spec import evaluation_defaults
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.training.build import build_method, view_specs
from skelbench.views.augmentations import scaling_basis
from skelbench.views.builder import ViewBuilder
from skelbench.views.clips import ClipBatch
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.topology import NTU25

CLIPS = 200


@pytest.fixture
def released(data_root, host):
    """``released(**settings)``: a resolved run of preset ``release``."""

    def make(**settings):
        sets = {f"method.{key}": value for key, value in settings.items()}
        return resolve(Request("slim", dataset="small", preset="release", sets=sets), host, data_root, "cpu")

    return make


def frame_numbers(specs, length):
    """Name of the view -> float [V, T], the frame of the clip that each frame of the view shows."""
    frames = np.repeat(np.arange(length, dtype=np.float32)[:, None], 25, 1)
    clip = np.tile(np.stack([frames] * 3), (CLIPS, 1, 1)).reshape(-1, 25)
    ones = np.ones(CLIPS, np.int64)
    batch = ClipBatch(
        frames_FJ=torch.from_numpy(clip),
        ids=np.arange(CLIPS),
        offset=3 * length * np.arange(CLIPS),
        length=length * ones,
        bodies=ones,
        max_bodies=1,
    )
    plain = {name: spec.model_copy(update={"augment": (), "mask": None}) for name, spec in specs.items()}
    views = ViewBuilder(plain, NTU25, 8)(batch, Keyed(0, 0))
    return {name: view.x_RTJC[:, :, 0, 0] for name, view in views.items()}


def test_time_runs_forward_in_every_view_of_clips_of_16_frames_or_more(released):
    specs = view_specs(released().spec)
    for length in (16, 40, 80, 120):
        assert all((x_VT.diff(dim=1) >= 0).all() for x_VT in frame_numbers(specs, length).values())
    old = view_specs(released(extend_below=150).spec)
    assert any((x_VT.diff(dim=1) < 0).any() for x_VT in frame_numbers(old, 80).values())
    turned = frame_numbers(specs, 12)["global1"].diff(dim=1)
    assert ((turned < 0).any(1) & (turned > 0).any(1)).all()


def test_views_have_the_length_and_gaps_of_the_released_code(released):
    """Bounds and means of the crops, in frames; the means agree with the recipe within five standard errors."""
    rng = np.random.default_rng(0)
    for length in (40, 80, 120):
        x = frame_numbers(view_specs(released().spec), length)
        counts = np.minimum(np.maximum(np.floor(length * rng.uniform(0.5, 1, 100_000)), 16), length)
        for name in ("global1", "global2"):
            spans_V = x[name][:, -1] - x[name][:, 0] + 1
            # A frame drawn in the first or last bin or a dropped frame at an end shortens a span by less than 2 each.
            error = 5 * counts.std() / math.sqrt(CLIPS)
            assert counts.mean() - error - 3 <= spans_V.double().mean() <= counts.mean() + error
            assert spans_V.max() <= length and spans_V.min() >= max(16, length // 2) - 3
        for frames, least in ((32, 16), (16, 16), (8, 8)):
            for name in (f"local{frames}-1", f"local{frames}-2"):
                spans_V = x[name][:, -1] - x[name][:, 0] + 1
                assert spans_V.min() >= least - 2


def test_released_scaling_equals_the_loop_in_index_order(released):
    groups, basis = list(NTU25.limbs.values()), scaling_basis(NTU25, "limbs", "index")
    x_J3 = np.random.default_rng(1).normal(size=(25, 3))
    for factors in ([1.0, 1.0, 1.0], [0.9, 1.1, 1.15]):
        new_J3 = np.zeros_like(x_J3)
        new_J3[NTU25.root] = x_J3[NTU25.root]
        for joint, parent in enumerate(NTU25.parents):
            if joint != NTU25.root:
                (factor,) = (f for f, group in zip(factors, groups) if joint in group)
                new_J3[joint] = new_J3[parent] + factor * (x_J3[joint] - x_J3[parent])
        W_JJ = basis[0] + sum(factor * part for factor, part in zip(factors, basis[1:]))
        assert np.allclose(x_J3.T @ W_JJ.numpy(), new_J3.T, atol=1e-12)
    identity = basis.sum(0)
    moved = {j for j in range(25) if not torch.equal(identity[:, j], torch.eye(25, dtype=torch.float64)[j])}
    assert moved == {*range(2, 12), *range(21, 25)}
    scale = view_specs(released(scaling="as-released").spec)["global1"].augment[2]
    assert scale.order == "index" and view_specs(released().spec)["global1"].augment[2].order == "topological"


def test_bodies_are_centered_in_training_only(released):
    spec = released().spec
    assert spec.train.center == "body-in-training"
    evaluation = evaluation_defaults(spec)
    assert (evaluation["center"], evaluation["resize"]) == ("clip", "bin-starts")


def test_initial_weights_are_dinov2s(released, host):
    run = released(prototypes=16, head_hidden=16)
    encoder = build_method(run.spec, host, run.store.topology, "cpu").encoder
    for block in encoder.blocks:
        for weight in (block.attn.qkv.weight, block.attn.proj.weight, block.mlp.fc1_g.weight, block.mlp.fc2.weight):
            # The standard deviation of n normal draws has a relative error of 1 / sqrt(2 n); five of them are allowed.
            assert float(weight.detach().std()) == pytest.approx(0.02, rel=5 / math.sqrt(2 * weight.numel()))
    assert float(encoder.cls_token.detach().abs().max()) < 1e-5 and float(encoder.registers.detach().abs().max()) < 1e-5


def test_koleo_compares_the_clips_of_a_group():
    x_RD = torch.randn(12, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    parts = [koleo(part) for part in x_RD.split(4)]
    assert float(koleo(x_RD, rows=4)) == pytest.approx(float(sum(parts) / 3))
    assert float(koleo(x_RD)) != pytest.approx(float(sum(parts) / 3))
