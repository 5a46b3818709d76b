"""An encoder on other data than it was trained on: what is measured, said, refused and tabled."""

import numpy as np
import pytest
from small import write_small_store

import skelbench
from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.core.hashing import derive_seed
from skelbench.core.spec import EvalSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.linear import Linear
from skelbench.pipeline.evaluate import feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.views.skeleton.topology import COCO17

FAST = ["--set", "min_steps=20", "--set", "epochs=1", "--set", "tolerance=none"]


@pytest.fixture
def run(session, resolved, data_root):
    """A run on ``small``, beside the dataset ``other``."""
    write_small_store(data_root, "other", seed=5, clips=16)
    return pretrain(session, resolved("dino", epochs=1))


@pytest.fixture
def command(session, data_root):
    """``command("--dataset", "other")``: exit code of ``eval`` by ``transfer``."""
    places = ["--results", str(session.results.root), "--data-root", str(data_root)]
    return lambda *words: main(["eval", "dino", "--protocol", "transfer", *FAST, *places, *words])


def refused(capsys, said):
    printed = capsys.readouterr().err
    assert said in " ".join(printed.split()) and printed.count("error: ") == 1, printed


def test_transfer_is_the_linear_probe_on_the_target(session, run, command, capsys):
    assert command("--dataset", "other") == 0
    assert "other/half (from small/half)" in capsys.readouterr().out
    (record,) = run.records()
    spec = EvalSpec.model_validate(record["spec"])
    assert (spec.data.name, record["metrics"]["n_test"], record["metrics"]["n_train"]) == ("other", 8, 8)
    (features,) = feature_sets(session, run, spec).values()
    seed = derive_seed(spec.seed, "probe", "transfer")
    found = Linear(min_steps=20, epochs=1, tolerance=None).evaluate(features, seed, "cpu")
    assert found.metrics == record["metrics"]


def test_training_clips_among_test_clips_are_reported(session, run, data_root, command, capsys):
    """By their numbers, as NTU-120 has the clips of NTU-60 by the same names and strangers may share a name."""
    write_small_store(data_root, "fewer", clips=16)
    small, fewer, other = (ClipStore.open(data_root / name) for name in ("small", "fewer", "other"))
    every = np.arange(16)
    assert fewer.recurring(every[3:], small, np.arange(24)[:9]).tolist() == [3, 4, 5, 6, 7, 8]
    assert len(other.recurring(every, small, np.arange(24))) == 0
    assert command("--dataset", "fewer", "--split", "half~tune") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "4 of the 4 test clips are training clips of small half" in said
    assert command("--dataset", "fewer") == 0 and "training clips" not in capsys.readouterr().out, "other subjects'"
    assert command("--dataset", "other") == 0 and "training clips" not in capsys.readouterr().out
    places = ["--results", str(session.results.root), "--data-root", str(data_root)]
    assert main(["eval", "dino", "--protocol", "linear", *FAST, *places, "--split", "half~tune"]) == 0
    assert "test clips are training clips of small half" in " ".join(capsys.readouterr().out.split()), "its own data"


def test_clips_of_the_run_or_of_another_form_are_an_error(run, command, data_root, capsys):
    (data_root / "again").symlink_to(data_root / "small")
    write_small_store(data_root, "poses", topology=COCO17)
    write_small_store(data_root, "flat", flat=True)
    errors = {"small": "clips that it was trained on", "again": "clips that it was trained on"}
    for dataset, message in (errors | {"poses": "skeleton coco17", "flat": "are 2-D"}).items():
        assert command("--dataset", dataset) == 2
        refused(capsys, message)
    assert not list(run.records())


def test_an_impossible_probe_is_rejected_before_training(session, data_root):
    with pytest.raises(SkelbenchError, match="--protocol transfer --dataset NAME"):
        skelbench.run("dino", dataset="small", probes=["transfer"], results=session.results.root, data=data_root)
    assert not session.results.root.exists()


def test_each_subject_is_tested_by_a_probe_trained_on_the_others(session, run, data_root):
    words = ["--results", str(session.results.root), "--data-root", str(data_root), "--dataset", "other"]
    assert main(["eval", "dino", "--protocol", "knn", "--split", "leave-one-subject-out", *words]) == 0
    (record,) = run.records()
    (features,) = feature_sets(session, run, EvalSpec.model_validate(record["spec"])).values()
    other = ClipStore.open(data_root / "other")
    ids_n = np.concatenate([features.train_ids, features.test_ids])
    unit_nD = np.concatenate([features.train_x, features.test_x]).astype(np.float64)
    unit_nD /= np.linalg.norm(unit_nD, axis=1, keepdims=True)
    with np.load(run.path / record["predictions"]) as file:
        for clip, predicted in zip(file["ids"], file["predicted"], strict=True):
            subject = other.index["subject"][clip]
            similarity_n = unit_nD @ unit_nD[ids_n == clip][0]
            similarity_n[other.index["subject"][ids_n] == subject] = -np.inf
            assert predicted == other.labels[ids_n[similarity_n.argmax()]]
        assert file["ids"].tolist() == list(range(16)) and record["metrics"]["n_test"] == 16
        correct_n = file["predicted"] == file["labels"]
    assert record["metrics"]["accuracy"] == correct_n.mean() and record["standard"]
    assert set(record["details"]["accuracy_by_subject"]) == {str(s) for s in np.unique(other.index["subject"])}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eval", "dino", "--protocol", "finetune", "--dataset", "other"], "has no folds"),
        (["run", "dino", "--dataset", "other"], "is for evaluations"),
    ],
)
def test_leave_one_subject_out_is_for_probes_on_features(session, run, data_root, capsys, words, message):
    places = ["--results", str(session.results.root), "--data-root", str(data_root)]
    assert main([*words, "--split", "leave-one-subject-out", *places]) == 2
    refused(capsys, message)
