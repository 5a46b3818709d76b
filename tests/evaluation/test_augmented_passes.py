"""Evaluation through the session: augmented passes, what decides an evaluation, and the features kept in between."""

import numpy as np
import pytest

from skelbench.pipeline.evaluate import eval_spec, evaluate, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.views.augmentations import Rotate
from skelbench.views.crops import Free
from skelbench.views.keyed import Keyed

CROP, TURN = Free(lo=0.5, hi=1.0, whole_frames=True, min_frames=16), (Rotate(p=1.0, vertical_deg=17, tilt_deg=17),)
FEW = {"epochs": 2, "batch_size": 4}


@pytest.fixture
def run(session, resolved):
    return pretrain(session, resolved("skeletonmae", epochs=1))


def features(session, run, protocol, **fields):
    (only,) = feature_sets(session, run, eval_spec(session.host, run, protocol, **fields)).values()
    return only


@pytest.mark.parametrize("protocol", ["linear", "linear@macdiff"])
def test_every_pass_has_new_draws_that_its_key_reproduces(session, run, protocol):
    found = features(session, run, protocol)
    one, same, other = (found.again(Keyed(5, epoch), CROP, TURN) for epoch in (0, 0, 1))
    assert one.shape == found.train_x.shape and one.dtype == np.float32
    assert np.array_equal(one, same)
    for first, second in ((one, other), (one, found.train_x), (other, found.train_x)):
        assert (np.abs(first - second).max(1) > 1e-4).all()  # every clip
    assert not np.array_equal(one, found.again(Keyed(6, 0), CROP, TURN))


def test_augmented_features_are_never_cached(session, run):
    """Only plain features are cached between protocols, separately by readout and bodies."""
    plain = features(session, run, "linear")
    before = plain.train_x.copy()
    evaluate(session, run, eval_spec(session.host, run, "linear@mamp", config=FEW))
    evaluate(session, run, eval_spec(session.host, run, "linear@macdiff", config=FEW))
    assert features(session, run, "knn") is plain and np.array_equal(plain.train_x, before)
    mean, joints = features(session, run, "linear@mamp"), features(session, run, "linear@macdiff")
    assert len(session.features) == 3
    width = run.spec.encoder_config["dim"]
    assert mean.train_x.shape[1] == width and joints.train_x.shape[1] == 25 * width
    by_joint = joints.test_x.reshape(len(joints.test_x), 25, width)
    np.testing.assert_allclose(by_joint.mean(1), mean.test_x, rtol=1e-4, atol=1e-6)


def test_settings_of_the_protocol_override_the_run_but_not_the_user(session, run):
    own = eval_spec(session.host, run, "linear")
    assert (own.readout, own.bodies, own.bodies_pool, own.resize) == ("pooled", "valid", "valid-mean", "ends")
    wished = eval_spec(session.host, run, "linear@macdiff")
    assert (wished.readout, wished.bodies, wished.bodies_pool, wished.resize, wished.share) == (
        "joints", "all-slots", "all-mean", "half-pixel", 0.95,
    )  # fmt: skip
    said = eval_spec(session.host, run, "linear@macdiff", bodies="valid", bodies_pool="concat")
    assert (said.readout, said.bodies, said.bodies_pool) == ("joints", "valid", "concat")
    assert len({own.id, wished.id, said.id}) == 3
