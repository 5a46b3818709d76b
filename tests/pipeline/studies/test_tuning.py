"""Tuning: chosen on held-out training subjects alone, equal trials, failures counted, and the winner trained again."""

import json
from pathlib import Path

import numpy as np
import pytest
from small import TINY, silent_session, write_small_store

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore, fingerprint
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.studies.tuning import Asked, draw, prepare, retrain, try_all
from skelbench.plugin.host import Host
from skelbench.records.tuned import Retrained, read_all, write
from skelbench.reporting import tuned
from skelbench.reporting.filters import Filters
from skelbench.reporting.inputs import TableInputs

PLUGIN = """
from skelbench.methods import Config
from skelbench.plugin import Linear, Log, MethodSpec, hookimpl
from skelbench.views.spec import ViewSpec
from skelbench_plugins.untrained import Untrained


@hookimpl
def skelbench_methods():
    space = {"train.lr": Log("x0.125", "x8"), "method.harm": Linear(0.0, 1.0)}
    variants = {"harmless": {"method.harm": 0.0}}
    return [MethodSpec(name="keen", target=":Keen", config=":KeenConfig", space=space, variants=variants)]


class KeenConfig(Config):
    harm: float = 0.0
    "above a half: every step fails"


class Keen(Untrained):
    Config = KeenConfig

    @classmethod
    def views(cls, config, grid):
        return {"clip": ViewSpec(frames=grid.frames)}

    def training_step(self, views, step):
        if self.config.harm > 0.5:
            raise RuntimeError("harmed")
        return {"loss": self.encoder(views["clip"]).pooled_RD.square().mean()}
"""
COMMON = {
    "dataset": "small",
    "preset": "quick",
    "set": {"tokens": 8, "train.batch_size": 4, "train.epochs": 1.0, **TINY},
}


def place(root, name="here"):
    """A session over a dataset of 32 clips of 4 subjects, which knows the method ``keen``."""
    folder = root / name
    (folder / "data").mkdir(parents=True)
    write_small_store(folder / "data", clips=32)
    (root / "keen.py").write_text(PLUGIN)
    return silent_session(folder / "data", Host([root / "keen.py"]), folder / "results")


def worker(session, made):
    """Brings trials to their end in this process; ``made``: the ids of those that it made."""

    def work(trials):
        failures = {}
        for trial in trials:
            made.append(trial.id)
            try:
                run = pretrain(session, trial.resolved)
                evaluate(session, run, eval_spec(session.host, run, "knn"))
            except SkelbenchError as error:
                failures[trial.id] = str(error), Path("log")
        return failures

    return work


def tune(session, trials=6, methods=("keen",), seeds=2, **asked):
    """Tunings after their trials, and the ids of the runs in the order in which they were made."""
    made = []
    tunings = prepare(Asked(COMMON, "knn", trials, clips=8, seeds=seeds, **asked), methods, session)
    try_all(tunings, session, worker(session, made))
    return tunings, made


@pytest.fixture
def here(tmp_path):
    return place(tmp_path)


def poison_test_labels(folder):
    """Another label for every test clip, as if the dataset had always been so."""
    store = ClipStore.open(folder)
    index = dict(np.load(folder / "index.npz"))
    test = store.split("half").test
    index["label"][test] = (index["label"][test] + 1) % 4
    np.savez(folder / "index.npz", **index)
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"fingerprint": fingerprint(store.meta, index)}))


def test_test_labels_do_not_affect_the_choice(tmp_path):
    tried = []
    for name in ("true", "poisoned"):
        session = place(tmp_path, name)
        if name == "poisoned":
            poison_test_labels(session.data_root / "small")
        (tuning,), _ = tune(session)
        tried.append(tuning.record(session, "skelbench tune"))
    true, poisoned = tried
    assert true.data != poisoned.data and true.held_out == poisoned.held_out and true.winner == poisoned.winner
    assert [(t.settings, t.accuracy) for t in true.trials] == [(t.settings, t.accuracy) for t in poisoned.trials]


def test_every_method_has_equal_trials_and_failures_count(here):
    tunings, made = tune(here, methods=("keen", "skeletonmae"))
    records = [tuning.record(here, "") for tuning in tunings]
    assert [len(record.trials) for record in records] == [6, 6] and len(set(made)) == 12
    assert [record.trials[0].settings for record in records] == [{}, {}]
    keen = records[0]
    assert {trial.number for trial in keen.trials if trial.settings.get("method.harm", 0) > 0.5} == {
        trial.number for trial in keen.trials if trial.accuracy is None
    }
    assert 0 < keen.failed < 6 and {trial.failure for trial in keen.trials} == {
        "",
        "keen.py:29, training_step: RuntimeError: harmed",
    }
    best = max(trial.accuracy for trial in keen.trials if trial.accuracy is not None)
    assert keen.winner == min(trial.number for trial in keen.trials if trial.accuracy == best)  # ties: the earlier
    for tuning in tunings:
        for trial in tuning.trials:
            run = here.results.by_id(trial.id)
            assert trial.clips == 8 and run.spec.data.split == "half~tune" and run.spec.seed == 0
            assert run.info["modified"]
    # Issued again: the same trials; finished ones are found.
    again, _ = tune(here, methods=("keen", "skeletonmae"))
    assert [[trial.id for trial in tuning.trials] for tuning in again] == [
        [trial.id for trial in tuning.trials] for tuning in tunings
    ]
    (more,) = prepare(Asked(COMMON, "knn", 9, clips=8), ["keen"], here)
    draw([more], here)
    assert more.drawn[:6] == tunings[0].drawn


def test_winner_and_defaults_are_trained_again_with_fresh_seeds(here):
    tunings, made = tune(here, trials=4)
    record = tunings[0].record(here, "skelbench tune keen")
    before = len(made)
    winner = next(trial.number for trial in record.trials[1:] if trial.accuracy is not None)
    chosen = record.model_copy(update={"winner": winner})
    (full,) = retrain(tunings, [chosen], here, worker(here, made))
    runs = [here.results.by_id(name) for name in made[before:]]
    assert sorted(run.spec.seed for run in runs) == [1, 1, 2, 2] and 0 not in full.seeds
    assert {run.spec.data.split for run in runs} == {"half"} and not set(made[:before]) & set(made[before:])
    assert {run.info["preset"] for run in runs} == {"quick"} and all(run.info["modified"] for run in runs)
    assert full.tuned.settings == record.trials[winner].settings and full.default.settings == {}
    assert {run.spec.id for run in runs} == {*full.default.runs, *full.tuned.runs}
    assert full.compared.difference == pytest.approx(np.mean(full.tuned.accuracy) - np.mean(full.default.accuracy))

    for side in (full.default, full.tuned):
        right, clips = np.sum(side.by_subject, axis=0)
        assert len(side.by_subject) > 1 and clips == side.n_test
        assert right / clips == pytest.approx(np.mean(side.accuracy))

    assert full.compared.seeds == 2
    spread = tuned._difference(full.compared.model_copy(update={"spread": 0.01}))
    assert spread.plus_minus == pytest.approx(8.985, abs=1e-3) and spread.plus_minus_over == "2 seeds"  # t(1 df) / √2

    # Where the defaults win they are trained once, and compared with nothing.
    (same,) = retrain(tunings, [record.model_copy(update={"winner": 0})], here, worker(here, made))
    assert same.tuned == same.default and same.compared is None
    # Written, read back, shown; trials fill no other table.
    write(here.results, full)
    assert list(read_all(here.results)) == [full]
    table = tuned.table(TableInputs(here.host, here.results))
    (row,) = table.rows
    assert row["trials"].value == 4 and row["method"].value == "keen" and "train.lr=" in row["settings"].value
    assert row["default"].value == pytest.approx(100 * np.mean(full.default.accuracy))
    write(here.results, full.model_copy(update={"method": "other"}))
    p = full.compared.p_value
    assert tuned.table(TableInputs(here.host, here.results)).values("p_value") == [min(1.0, 2 * p)] * 2
    asked = TableInputs(here.host, here.results, filters=Filters(method=("keen",)))
    assert tuned.table(asked).values("p_value") == [p]  # over the methods that are asked for
    shown = TableInputs(here.host, here.results, exact_only=False)
    assert set(shown.frame["split"]) == {"half"} and set(shown.frame["seed"]) == {1, 2}


def test_a_method_with_only_failed_trials_has_no_winner(here):
    (tuning,), made = tune(here, trials=1)
    failing = tuning.record(here, "").trials[0].model_copy(update={"accuracy": None, "failure": "harmed"})
    record = tuning.record(here, "").model_copy(update={"trials": (failing,), "winner": None})
    made.clear()
    assert retrain([tuning], [record], here, worker(here, made)) == [record] and not made
    shown = tuned.build([record])
    (row,) = shown.rows
    assert any("trials failed: harmed" in note for note in shown.notes)
    assert row["failed"].value == 1 and row["default"].value is None


EMPTY = {"settings": {}, "runs": (), "evaluations": (), "seconds": 1.0}


def test_methods_with_different_numbers_of_trials_are_ranked_separately(here):
    tunings, _ = tune(here, trials=1, methods=("keen", "skeletonmae"))
    one, other = (tuning.record(here, "") for tuning in tunings)
    sides = [
        record.model_copy(update={"default": Retrained(accuracy=(share,), n_test=20, **EMPTY)})
        for record, share in ((one, 0.5), (other, 0.6))
    ]
    assert [row["default"].mark for row in tuned.build(sides).rows] == ["second", "best"]
    more = sides[1].model_copy(update={"asked": 9, "seed": 3})
    shown = tuned.build([sides[0], more])
    assert [row["default"].mark for row in shown.rows] == [None, None]
    assert {column.key for column in shown.columns if column.shown} >= {"asked", "seed"}


def test_settings_of_a_variant_are_not_drawn(here):
    """A variant without a part of the method stays one without it."""
    whole, harmless = prepare(Asked(COMMON, "knn", 1, clips=8), ["keen", "keen:harmless"], here)
    assert [[axis.key for axis in one.axes] for one in (whole, harmless)] == [["train.lr", "method.harm"], ["train.lr"]]
