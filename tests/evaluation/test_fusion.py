"""Streams: what an encoder looks at, and several streams measured as one."""

import dataclasses
import textwrap

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
from skelbench.plugin.host import Host
from skelbench.views.builder import ViewBuilder, evaluation_spec
from skelbench.views.keyed import Keyed
from skelbench.views.view import View

SHORT = Linear(min_steps=200, tolerance=None)
PLUGIN = textwrap.dedent(
    """
    from skelbench.methods.contract import Method
    from skelbench.plugin import MethodSpec, hookimpl
    from skelbench.views.spec import ViewSpec

    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="bones", target=":Bones"), MethodSpec(name="apart", target=":Apart")]

    class Bones(Method):
        roles = {"encoder": "student"}

        def __init__(self, config, context):
            super().__init__(config, context)
            self.encoder = context.encoder()

        @classmethod
        def views(cls, config, grid):
            return {"clip": ViewSpec(frames=grid.frames, stream="bone")}

        def training_step(self, views, step):
            return {"loss": self.encoder(views["clip"]).pooled_RD.square().mean()}

        def inference_encoder(self):
            return self.encoder

    class Apart(Bones):
        roles = {"encoder": "student", "of_bones": "student"}

        def __init__(self, config, context):
            super().__init__(config, context)
            self.of_bones = context.encoder()

        @classmethod
        def views(cls, config, grid):
            return {"joint": ViewSpec(frames=grid.frames), "bone": ViewSpec(frames=grid.frames, stream="bone")}

        def training_step(self, views, step):
            pairs = ((self.encoder, "joint"), (self.of_bones, "bone"))
            return {"loss": sum(encoder(views[name]).pooled_RD.square().mean() for encoder, name in pairs)}

        def inference_encoders(self):
            return {"joint": self.encoder, "bone": self.of_bones}
    """
)


@pytest.fixture
def host(tmp_path):
    (tmp_path / "streams.py").write_text(PLUGIN)
    return Host([tmp_path / "streams.py"])


@pytest.fixture
def sets(make_features):
    """Three sets of one split, of different widths and scales, none of which is enough by itself."""
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


def test_score_fusion_sums_the_probabilities_of_a_probe_per_set(sets):
    protocol, seen = SHORT, []
    result = evaluate_sets(protocol, sets, "scores", 5, "cpu", lambda done, total: seen.append(done / total))
    alone = {name: protocol.evaluate(part, 5, "cpu") for name, part in sets.items()}
    test_y = sets["joint"].test_y
    for single in alone.values():
        np.testing.assert_allclose(single.scores.sum(1), 1, rtol=1e-5)
        assert np.array_equal(single.scores.argmax(1), single.predictions["predicted"])
    predicted, hits = [], 0
    for i in range(len(test_y)):
        total = [sum(float(single.scores[i, c]) for single in alone.values()) for c in range(12)]
        ranked = sorted(range(12), key=lambda c: -total[c])
        predicted.append(ranked[0])
        hits += int(test_y[i]) in ranked[:5]
    assert result.predictions["predicted"].tolist() == predicted
    assert result.metrics["accuracy"] == pytest.approx(np.mean(np.array(predicted) == test_y))
    assert result.metrics["top5_accuracy"] == pytest.approx(hits / len(test_y))
    assert result.metrics["accuracy"] > max(single.metrics["accuracy"] for single in alone.values())
    for name, single in alone.items():
        assert result.metrics[f"accuracy_{name}"] == single.metrics["accuracy"]
        assert [row for row in result.curve if row["set"] == name] == [{"set": name, **row} for row in single.curve]
    assert seen == sorted(seen) and seen[-1] == 1


@pytest.mark.parametrize("summed", ["scores", "logits"])
def test_a_weighted_sum_is_that_of_every_streams_scores_or_logits(sets, summed):
    weights = (0.6, 0.6, 0.4)  # joint, bone, motion in AimCLR's ensemble_ntu_cs.py
    result = evaluate_sets(SHORT, sets, summed, 5, "cpu", weights=weights)
    alone = [SHORT.evaluate(part, 5, "cpu") for part in sets.values()]
    predicted = []
    for i in range(len(sets["joint"].test_y)):
        total = [sum(w * float(getattr(r, summed)[i, c]) for w, r in zip(weights, alone)) for c in range(12)]
        predicted.append(max(range(12), key=lambda c: total[c]))
    assert result.predictions["predicted"].tolist() == predicted
    equal = evaluate_sets(SHORT, sets, summed, 5, "cpu")
    assert not np.array_equal(equal.predictions["predicted"], predicted)
    only = evaluate_sets(SHORT, sets, summed, 5, "cpu", weights=(1e-6, 1.0, 1e-6))
    assert np.array_equal(only.predictions["predicted"], alone[1].predictions["predicted"])
    for single in alone:
        np.testing.assert_allclose(torch.from_numpy(single.logits).softmax(1), single.scores, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_nearest_neighbours_sum_similarities(sets, metric):
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
def test_a_bone_stream_is_the_features_of_bones(session, resolved):
    run = pretrain(session, resolved("untrained"))
    own = eval_spec(session.host, run, "knn")
    (joint,) = feature_sets(session, run, own).values()
    (bone,) = feature_sets(session, run, eval_spec(session.host, run, "knn", streams=("bone",))).values()
    store = resolved("untrained").store
    encoder = load_encoder(session, run, "last", store.topology)
    builder = ViewBuilder({"eval": evaluation_spec(encoder.grid, share=0.95)}, store.topology, 8, centre=own.centre)
    for i, clip in enumerate(bone.test_ids[:5]):
        view = builder(ClipSource(store, device="cpu").gather(np.array([clip])), Keyed(0, 0))["eval"]
        bodies = []
        for x_TJC in view.x_RTJC:
            bone_TJC = x_TJC - x_TJC[:, list(store.topology.bones)]
            with torch.no_grad():
                bodies.append(encoder(View.of(bone_TJC[None, None], None)).pooled_RD[0])
        np.testing.assert_allclose(bone.test_x[i], torch.stack(bodies).mean(0).numpy(), rtol=1e-4, atol=1e-5)
    assert np.abs(bone.test_x - joint.test_x).max() > 1e-3


def test_a_stream_with_an_encoder_of_its_own_is_seen_by_it(session, resolved):
    run = pretrain(session, resolved("apart", epochs=4))
    names = {path.name for path in run.path.glob("encoder*.safetensors")}
    assert {"encoder.safetensors", "encoder.bone.safetensors", "encoder.bone@1.safetensors"} <= names
    assert "encoder.joint.safetensors" not in names  # it is the run's
    assert run.snapshots() == ["1", "2", "3"]
    spec = eval_spec(session.host, run, "knn", "1", streams=("joint", "bone"), fusion="scores")
    assert eval_spec(session.host, run, "knn").streams == ("joint",)
    store = resolved("apart").store
    state = torch.load(run.checkpoint, weights_only=True)["method"]
    for stream, name in (("joint", "encoder"), ("bone", "of_bones"), ("motion", "encoder")):
        weights = load_encoder(session, run, "last", store.topology, stream).state_dict()
        assert all(torch.equal(value, state[f"{name}.{key}"]) for key, value in weights.items()), stream
    at_1 = feature_sets(session, run, spec)
    at_end = feature_sets(session, run, spec.model_copy(update={"checkpoint": "last"}))
    assert list(at_1) == ["joint", "bone"]
    assert all(np.abs(at_1[name].test_x - at_end[name].test_x).max() > 0 for name in at_1)


def test_runs_that_do_not_belong_together_are_not_fused(session, resolved):
    run = pretrain(session, resolved("bones", epochs=1))
    fused = {"streams": ("bone", "joint"), "fusion": "scores"}
    centred = pretrain(session, resolved("skeletonmae", epochs=1, **{"train.centre": "body"}))
    repeated = resolved("untrained", **{"data.second_body": "repeat"})
    for partner, said in (
        (centred.spec.id, "look at clips differently .*centre"),
        (pretrain(session, repeated).spec.id, "trained on different data"),
        ("0" * 12, "is not in"),
        (run.spec.id + "@9", "no snapshot at epoch 9"),
    ):
        with pytest.raises(SkelbenchError, match=said):
            evaluate(session, run, eval_spec(session.host, run, "knn", **fused, partners=(partner,)))


TWO = {"streams": ("joint", "bone"), "fusion": "scores"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**TWO, "weights": (0.6, 0.6, 0.4)}, "3 weights cannot weigh streams joint, bone; give one for each"),
        ({**TWO, "weights": (1, 0)}, "weights.1=0 is not valid: input should be greater than 0"),
        ({"fusion": "scores"}, "fusion of scores needs several streams"),
        ({"streams": ("joint", "bone")}, "streams joint, bone need a fusion"),
        ({"streams": ("bone", "bone"), "fusion": "scores"}, "bone, bone: give each stream once"),
        ({"streams": ("joint", "bone"), "fusion": "scores", "partners": ("1", "2")}, "3 runs cannot have 2 streams"),
    ],
)
def test_streams_and_fusion_that_contradict_each_other_are_one_sentence(session, resolved, fields, said):
    with pytest.raises(SkelbenchError, match=said):
        eval_spec(session.host, resolved("untrained"), "knn", **fields)
