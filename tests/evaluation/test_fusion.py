"""Streams: input of an encoder, and evaluation of several streams together."""

import dataclasses

import numpy as np
import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.source import ClipSource
from skelbench.evaluation.fusion import concatenate, evaluate_sets
from skelbench.evaluation.knn import Knn
from skelbench.evaluation.linear import Linear
from skelbench.pipeline.encoders import load_encoder
from skelbench.pipeline.evaluate import eval_spec, evaluate, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.views.builder import ViewBuilder, evaluation_spec
from skelbench.views.keyed import Keyed
from skelbench.views.view import View

SHORT = Linear(min_steps=200, tolerance=None)


@pytest.fixture
def sets(make_features):
    """Three feature sets of one split with different widths and scales; no single set is sufficient."""
    first = make_features(classes=12, separation=0.4, seed=0)
    sets = {"joint": first}
    for name, width, scale in (("bone", 24, 10.0), ("motion", 8, 0.1)):
        other = make_features(classes=12, width=width, separation=0.4, seed=0)
        noise = np.random.default_rng(width).normal(size=(500, width)).astype(np.float32)
        sets[name] = dataclasses.replace(
            first,
            train_x=scale * (other.train_x + noise[:200]),
            test_x=scale * (other.test_x + noise[200:]),
            again=lambda *args, other=other, scale=scale: scale * other.again(*args),
        )
    return sets


def unit(x):
    return x / np.sqrt((x.astype(np.float64) ** 2).sum(1, keepdims=True))


def test_feature_fusion_scales_every_set_to_length_one(sets):
    fused = concatenate(sets)
    assert fused.train_x.dtype == np.float32 and fused.train_x.shape == (200, 16 + 24 + 8)
    for side in ("train_x", "test_x"):
        expected = np.concatenate([unit(getattr(part, side)) for part in sets.values()], 1)
        np.testing.assert_allclose(getattr(fused, side), expected, rtol=1e-5, atol=1e-7)
    again = fused.again(Keyed(1, 2), None, (), 0.0, None, False)
    expected = np.concatenate([unit(part.again(Keyed(1, 2), None, ())) for part in sets.values()], 1)
    np.testing.assert_allclose(again, expected, rtol=1e-5, atol=1e-7)
    result = evaluate_sets(SHORT, sets, "features", 0, "cpu")
    assert result.metrics == SHORT.evaluate(fused, 0, "cpu").metrics
    empty = dataclasses.replace(sets["joint"], train_x=np.zeros_like(sets["joint"].train_x), again=None)
    fused = concatenate({"joint": empty, "bone": sets["bone"]})
    assert (fused.train_x[:, :16] == 0).all() and fused.again is None


@pytest.mark.parametrize("summed", ["scores", "logits"])
def test_a_weighted_sum_adds_scores_or_logits_of_all_streams(sets, summed):
    weights, seen = (0.6, 0.6, 0.4), []  # joint, bone, motion in AimCLR's ensemble_ntu_cs.py
    result = evaluate_sets(SHORT, sets, summed, 5, "cpu", lambda done, total: seen.append(done / total), weights)
    assert seen == sorted(seen) and seen[-1] == 1
    alone = [SHORT.evaluate(part, 5, "cpu") for part in sets.values()]
    predicted = []
    for i in range(len(sets["joint"].test_y)):
        total = [sum(w * float(getattr(r, summed)[i, c]) for w, r in zip(weights, alone)) for c in range(12)]
        predicted.append(max(range(12), key=lambda c: total[c]))
    assert result.predictions["predicted"].tolist() == predicted
    equal = evaluate_sets(SHORT, sets, summed, 5, "cpu")
    assert not np.array_equal(equal.predictions["predicted"], predicted)
    assert equal.metrics["accuracy"] > max(single.metrics["accuracy"] for single in alone)
    for name, single in zip(sets, alone):
        assert equal.metrics[f"accuracy_{name}"] == single.metrics["accuracy"]
        assert [row for row in equal.curve if row["set"] == name] == [{"set": name, **row} for row in single.curve]
    for single in alone:
        np.testing.assert_allclose(torch.from_numpy(single.logits).softmax(1), single.scores, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_nearest_neighbors_sum_similarities(sets, metric):
    result = evaluate_sets(Knn(metric=metric), sets, "scores", 0, "cpu")
    parts = sets.values()
    if metric == "cosine":
        similarity = sum(unit(part.test_x) @ unit(part.train_x).T for part in parts)
    else:
        similarity = -sum(np.linalg.norm(part.test_x[:, None] - part.train_x[None], axis=2) for part in parts)
    assert np.array_equal(result.predictions["predicted"], sets["joint"].train_y[similarity.argmax(1)])
    for name, part in sets.items():
        assert result.metrics[f"accuracy_{name}"] == Knn(metric=metric).evaluate(part, 0, "cpu").metrics["accuracy"]
    if metric == "cosine":  # the cosine of features side by side is the mean of the sets' cosines
        fused = evaluate_sets(Knn(), sets, "features", 0, "cpu")
        assert np.array_equal(fused.predictions["predicted"], result.predictions["predicted"])


# ------------------------------------------------------------------------------------------------ of runs
def test_a_bone_stream_gives_features_of_bones(session, resolved):
    run = pretrain(session, resolved("untrained"))
    own = eval_spec(session.host, run, "knn")
    (joint,) = feature_sets(session, run, own).values()
    (bone,) = feature_sets(session, run, eval_spec(session.host, run, "knn", streams=("bone",))).values()
    store = resolved("untrained").store
    encoder = load_encoder(session, run, "last", store.topology)
    builder = ViewBuilder({"eval": evaluation_spec(encoder.grid, share=0.95)}, store.topology, 8, center=own.center)
    for i, clip in enumerate(bone.test_ids[:5]):
        view = builder(ClipSource(store, device="cpu").gather(np.array([clip])), Keyed(0, 0))["eval"]
        bodies = []
        for x_TJC in view.x_RTJC:
            bone_TJC = x_TJC - x_TJC[:, list(store.topology.bones)]
            with torch.no_grad():
                bodies.append(encoder(View.of(bone_TJC[None, None], None)).pooled_RD[0])
        np.testing.assert_allclose(bone.test_x[i], torch.stack(bodies).mean(0).numpy(), rtol=1e-4, atol=1e-5)
    assert np.abs(bone.test_x - joint.test_x).max() > 1e-3


def test_unrelated_runs_are_not_fused(session, resolved):
    run = pretrain(session, resolved("mamp", epochs=1))
    fused = {"streams": ("bone", "joint"), "fusion": "scores"}
    centered = pretrain(session, resolved("mamp", epochs=1, **{"train.center": "body"}))
    repeated = resolved("untrained", **{"data.second_body": "repeat"})
    for partner, said in (
        (centered.spec.id, "prepare clips differently .*center"),
        (pretrain(session, repeated).spec.id, "trained on different data"),
        ("0" * 12, "is not in"),
        (run.spec.id + "@9", "no snapshot at epoch 9"),
    ):
        with pytest.raises(SkelbenchError, match=said):
            evaluate(session, run, eval_spec(session.host, run, "knn", **fused, partners=(partner,)))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"streams": ("joint", "bone"), "fusion": "scores", "weights": (1, 1, 1)}, "3 weights cannot weigh"),
        ({"fusion": "scores"}, "needs several streams"),
        ({"streams": ("joint", "bone")}, "need a fusion"),
        ({"streams": ("bone", "bone"), "fusion": "scores"}, "each stream once"),
        ({"streams": ("joint", "bone"), "fusion": "scores", "partners": ("1", "2")}, "3 runs cannot have 2 streams"),
    ],
)
def test_contradictory_streams_and_fusion_are_one_error(session, resolved, fields, said):
    with pytest.raises(SkelbenchError, match=said):
        eval_spec(session.host, resolved("untrained"), "knn", **fields)
