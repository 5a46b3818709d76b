"""The control without a network: coordinates as features, one run whatever decides only weights, beside all others."""

import numpy as np
import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.controls import raw_control
from skelbench.pipeline.evaluate import eval_spec, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve


@pytest.fixture
def made(data_root, host):
    """``made(tokens=8, seed=1)``: such a run of ``raw`` on ``small``."""

    def made(**asked):
        fields = {"dataset": "small", "preset": "quick", "clip_length": 16, "patch": 8} | asked
        return resolve(Request("raw", **fields), host, data_root, "cpu")

    return made


def literally(store, clip, frames):
    """Central 95 % of a clip at evenly spaced places, its bodies flattened and averaged: loops and nothing else."""
    bodies = []
    for x_TJC in store.clip(clip).astype(np.float64):
        last = len(x_TJC) - 1
        places = [last * (0.025 + 0.95 * t / (frames - 1)) for t in range(frames)]
        row = []
        for place in places:
            low = int(place)
            high = min(low + 1, last)
            for joint in range(x_TJC.shape[1]):
                for axis in range(3):
                    before, after = x_TJC[low, joint, axis], x_TJC[high, joint, axis]
                    row.append(before + (place - low) * (after - before))
        bodies.append(row)
    return np.mean(bodies, axis=0)


def test_features_are_the_resampled_coordinates_of_the_clip(made, host, session):
    resolved = made()
    run, store = pretrain(session, resolved), resolved.store
    (features,) = feature_sets(session, run, eval_spec(host, run, "knn")).values()
    assert features.test_x.shape == (len(features.test_ids), 16 * 25 * 3)
    assert {store.clip(clip).shape[0] for clip in features.test_ids} == {1, 2}
    expected = np.stack([literally(store, clip, 16) for clip in features.test_ids])
    np.testing.assert_allclose(features.test_x, expected, atol=1e-5)
    for readout in ("mean", "joints"):  # there are no tokens to average
        spec = eval_spec(host, run, "knn", readout=readout)
        (same,) = feature_sets(session, run, spec).values()
        np.testing.assert_array_equal(same.test_x, features.test_x)


def test_settings_of_weights_do_not_change_a_raw_run(made, resolved, host, session):
    ours = made()
    for other in ({"seed": 3}, {"precision": "bf16"}, {"preset": "paper"}, {"patch": 4}):
        assert made(**other).spec.id == ours.spec.id
    assert made(seed=3).notes[-1] == "raw draws nothing at random: every seed is this run"
    for other in ({"clip_length": 8}, {"sets": {"second_body": "repeat"}}):
        assert made(**other).spec.id != ours.spec.id
    for seed in (0, 1):  # it is also the control of a run of any seed
        assert raw_control(resolved("slim", seed=seed, clip_length=16), host).spec == ours.spec
    with pytest.raises(SkelbenchError, match="control without a network; leave out --encoder vit"):
        made(encoder="vit")
    with pytest.raises(SkelbenchError, match="encoder raw has no weights to train"):
        resolve(Request("skeletonclr", dataset="small", encoder="raw"), host, session.data_root, "cpu")
