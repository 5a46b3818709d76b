"""A probe of clean clips on degraded ones: the fit of ``linear``, the same clips for every run, impossible
conditions."""

import numpy as np
import pytest
import torch

from skelbench.core.hashing import derive_seed
from skelbench.core.spec import EvalSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.source import ClipSource
from skelbench.evaluation.features import split_features
from skelbench.evaluation.linear import Linear
from skelbench.evaluation.outcomes import predictions
from skelbench.pipeline.controls import control, raw_control
from skelbench.pipeline.encoders import hiding_of, load_encoder
from skelbench.pipeline.evaluate import eval_spec, evaluate, feature_sets, prepared
from skelbench.pipeline.pretrain import pretrain
from skelbench.views.degradations import Poses

FAST = {"min_steps": 40, "epochs": 1, "tolerance": None, "val_share": 0.0}
FEW = FAST | {"missing": [0.12, 0.32], "draws": [0, 1, 2]}
NOISE = [0.01, 30.0]


@pytest.fixture
def measured(session):
    """``measured(run, protocol, **settings)``: the record, and the arrays kept with it."""

    def measure(run, protocol, force=False, **config):
        record = evaluate(session, run, eval_spec(session.host, run, protocol, config=config), force)
        with np.load(run.path / record["predictions"]) as file:
            return record, {name: file[name] for name in file}

    return measure


def test_the_clean_result_is_linear_and_every_condition_is_stored(session, resolved, measured):
    run = pretrain(session, resolved("slim", epochs=1))
    linear, clean = measured(run, "linear", **FAST)
    record, kept = measured(run, "robustness", **FEW, noise=NOISE)
    metrics = record["metrics"]
    assert {name: metrics[name] for name in linear["metrics"]} == linear["metrics"]
    assert np.array_equal(kept["predicted"], clean["predicted"])
    assert np.array_equal(predictions(run, record)["correct"], clean["labels"] == clean["predicted"])
    rows = {row["condition"]: row for row in record["curve"] if "condition" in row}
    assert list(rows) == ["missing 3/25", "missing 8/25", "noise 0.01", "noise 30"]
    for row in rows.values():
        predicted_dn = kept[f"predicted_{row['name']}"]
        right_d = (predicted_dn == kept["labels"]).mean(1)
        assert predicted_dn.shape == (3, len(kept["ids"])) and row["draws"] == pytest.approx(right_d.tolist())
        name = f"accuracy_{row['name']}"
        assert metrics[name] == row["accuracy"] == pytest.approx(right_d.mean())
        assert metrics[f"{name}_sd"] == row["accuracy_sd"] == pytest.approx(np.std(right_d, ddof=1))
        assert record["measures"][name]["share"] and record["measures"][f"{name}_sd"]["share"]
    assert not np.array_equal(kept["predicted_noise_30"], np.stack([clean["predicted"]] * 3))
    assert any("seeds 0, 1, 2" in note for note in record["notes"])
    again, kept_again = measured(run, "robustness", force=True, **FEW, noise=NOISE)
    assert again["metrics"] == metrics and all(np.array_equal(kept[name], kept_again[name]) for name in kept)


def test_predictions_come_from_features_of_degraded_clips(session, resolved, measured):
    """Zero-filled by hand, in a store of its own that is read as any other."""

    made = resolved("mamp", epochs=1)
    run, store = pretrain(session, made), made.store
    record, kept = measured(run, "missing-representation", **FEW)
    spec = EvalSpec.model_validate(record["spec"])
    features = feature_sets(session, run, spec)["joint"]

    _, head = Linear(**FAST).fitted(features, derive_seed(spec.seed, "probe", "linear"), "cpu")
    lost_BJ = Poses.of(ClipSource(store).gather(np.arange(len(store))), store.topology, seed=2).lost(0.32).numpy()
    other = ClipStore.open(store.path)
    for i in range(len(store)):
        rows = slice(store.offsets[i], store.offsets[i] + 3 * store.lengths[i] * store.bodies[i])
        origin_C = store.clip(i)[0, 0, store.topology.center]  # whose clips are not centered
        fill_F = np.repeat(np.tile(origin_C, store.bodies[i]), store.lengths[i])
        other.frames_FJ[rows] = np.where(lost_BJ[i], fill_F[:, None], store.frames_FJ[rows])
    other.compared[:] = True
    encoder, clips = load_encoder(session, run, "last", store.topology), prepared(session, run, spec, other, "joint")
    filled = split_features(encoder, clips, other.split(spec.data.split))
    expected = head.logits(torch.from_numpy(filled.test_x)).argmax(1).numpy()
    assert np.array_equal(kept["predicted_zero-fill_0.32"][2], expected)
    rows = [row["condition"] for row in record["curve"] if "condition" in row]
    assert rows == [f"{kind} {n}/25" for kind in ("missing", "parent-fill", "zero-fill") for n in (3, 8)]


@pytest.mark.parametrize(
    ("method", "hiding", "settings"), [("slim", "replace-tokens", {}), ("mamp", "drop-tokens", {}), ("dino", "", {})]
)
def test_a_run_hides_tokens_as_in_its_training(session, resolved, method, hiding, settings):
    made = resolved(method, epochs=1, **settings)
    run = pretrain(session, made)
    assert hiding_of(session, run, eval_spec(session.host, run, "linear"), "joint", made.store) == hiding


def test_unsupported_conditions_are_named_and_others_measured(session, resolved, measured):
    made = resolved("dino", epochs=1)
    runs = [pretrain(session, each) for each in (made, control(made, session.host), raw_control(made, session.host))]
    for run in runs:
        record, kept = measured(run, "robustness", **FEW, noise=[0.05])
        rows = {row["condition"]: row for row in record["curve"] if "condition" in row}
        assert rows["missing 3/25"]["accuracy"] is None and "parent-fill or zero-fill" in rows["missing 3/25"]["cannot"]
        assert "accuracy_missing_0.12" not in record["metrics"] and "predicted_missing_0.12" not in kept
        assert 0 <= record["metrics"]["accuracy_noise_0.05"] <= 1
        (said,) = [note for note in record["notes"] if "cannot be measured" in note]
        assert said.startswith("missing 3/25, missing 8/25: cannot be measured; this encoder was trained with neither")
