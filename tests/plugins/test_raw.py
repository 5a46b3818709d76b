"""The control without a network: coordinates as features, one run whatever decides only weights, beside all others."""

from dataclasses import replace

import numpy as np
import pytest
from small import tiny_run

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.controls import control, raw_control
from skelbench.pipeline.costs import measure_cost
from skelbench.pipeline.evaluate import eval_spec, evaluate, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.reporting.controls import Controls
from skelbench.reporting.frame import frame
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.linear import table as linear


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


def test_what_decides_only_weights_makes_no_other_run(made, resolved, host, session):
    ours = made()
    for other in ({"seed": 3}, {"precision": "bf16"}, {"preset": "paper"}, {"patch": 4}):
        assert made(**other).spec.id == ours.spec.id
    assert made(seed=3).notes[-1] == "raw draws nothing at random: every seed is this run"
    for other in ({"clip_length": 8}, {"sets": {"second_body": "repeat"}}):
        assert made(**other).spec.id != ours.spec.id
    for seed in (0, 1):  # it is also what stands beside a run of any seed
        assert raw_control(resolved("slim", seed=seed, clip_length=16), host).spec == ours.spec
    with pytest.raises(SkelbenchError, match="control without a network; leave out --encoder vit"):
        made(encoder="vit")
    with pytest.raises(SkelbenchError, match="encoder raw has no weights to train"):
        resolve(Request("skeletonclr", dataset="small", encoder="raw"), host, session.data_root, "cpu")


def test_it_is_measured_as_the_run_beside_it_is(made, resolved, session):
    """Of all presets there is one run of it; by a protocol that presets shorten each has a record of its own."""
    raw = pretrain(session, made())
    few = {"epochs": 1, "draws": 1, "min_steps": 0}
    for preset, lr in (("quick", 1e-3), ("small", 2e-3)):
        like = resolved("dino", preset=preset, clip_length=16)
        spec = eval_spec(session.host, raw, "semi@10", like=like, config=few)
        assert spec.protocol_config["lr"] == lr
        assert evaluate(session, raw, spec, like=like)["preset"] == preset
    assert sorted(frame(session.results.read())["preset"]) == ["quick", "small"]
    assert "preset" not in evaluate(session, raw, eval_spec(session.host, raw, "knn"))


def test_of_two_untrained_twins_the_one_that_is_made_today_counts(resolved, host, session):
    """Those of before did not know the version of their skeleton; their evaluations are not made any more."""
    run = resolved("dino")
    twin = control(run, host)
    before = replace(twin, spec=twin.spec.model_copy(update={"components": {}}))
    for one in (before, twin):
        pretrain(session, one)
        there = Controls(session.results.read()).of("untrained", run.spec)
        assert there is not None and there.spec.id == one.spec.id


def test_it_costs_nothing_and_has_no_parameters(made, session):
    resolved = made()
    cost = measure_cost(session, pretrain(session, resolved), resolved.store)
    assert cost["encoder"]["macs"] == 0 and set(cost["parameters"].values()) == {0} and cost["step"] is None


def test_tables_show_it_beside_what_is_measured_against_it(host, session):
    runs = [tiny_run(session.data_root, host, "untrained", seed=seed) for seed in (0, 1)]
    raw = pretrain(session, raw_control(runs[0], host))
    for run, like in [(raw, runs[0]), *((pretrain(session, one), one) for one in runs)]:
        for protocol in ("linear@slim", "knn"):
            evaluate(session, run, eval_spec(host, run, protocol, like=like), like=like)
    table = linear(TableInputs(host, session.results, exact_only=False))
    rows = {row["method"].value: row for row in table.rows}
    assert set(rows) == {"untrained", "raw"} and rows["untrained"]["seeds"].value == 2
    assert rows["raw"]["encoder"].value == rows["untrained"]["encoder"].value  # one block: they are ranked together
    assert rows["raw"]["knn"].value is not None and rows["raw"]["gflops"].value in (None, 0.0)
    over = rows["untrained"]["accuracy"].value - rows["raw"]["accuracy"].value
    assert rows["untrained"]["raw"].value == pytest.approx(over)
    assert bool(rows["untrained"]["raw"].footnotes) == ("raw" in table.footnotes)
    assert [column.header for column in table.shown].count("Over raw") == 1
