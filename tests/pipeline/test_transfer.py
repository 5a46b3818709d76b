"""An encoder on other data than it was trained on: what is measured, said, refused and tabled."""

import json

import numpy as np
import pytest
from fabricated import Fabricated, correct
from small import write_small_store

import skelbench
from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.core.hashing import derive_seed
from skelbench.core.spec import DataSpec, EvalSpec, RunSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.linear import Linear
from skelbench.pipeline.evaluate import feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.plugin.host import Host
from skelbench.reporting.downstream import TRANSFER
from skelbench.reporting.inputs import TableInputs
from skelbench.views.skeleton.topology import COCO17

FAST = ["--set", "min_steps=20", "--set", "epochs=1", "--set", "tolerance=none"]


@pytest.fixture
def run(session, resolved, data_root):
    """A run on ``small``, beside the data set ``other``."""
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


def test_it_is_the_linear_probe_on_the_target(session, run, command, capsys):
    assert command("--dataset", "other") == 0
    assert "other/half (from small/half)" in capsys.readouterr().out
    (record,) = run.records()
    spec = EvalSpec.model_validate(record["spec"])
    assert (spec.data.name, record["metrics"]["n_test"], record["metrics"]["n_train"]) == ("other", 8, 8)
    (features,) = feature_sets(session, run, spec).values()
    seed = derive_seed(spec.seed, "probe", "transfer")
    found = Linear(min_steps=20, epochs=1, tolerance=None).evaluate(features, seed, "cpu")
    assert found.metrics == record["metrics"]


def test_clips_that_the_encoder_was_trained_on_are_told(session, run, data_root, command, capsys):
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


def test_a_run_is_not_trained_for_a_probe_that_it_cannot_have(session, data_root):
    with pytest.raises(SkelbenchError, match="--protocol transfer --dataset NAME"):
        skelbench.run("dino", dataset="small", probes=["transfer"], results=session.results.root, data=data_root)
    assert not session.results.root.exists()


@pytest.fixture
def made(tmp_path):
    """Runs of two methods: one evaluated frozen and fine-tuned, one fine-tuned only."""
    made = Fabricated(tmp_path / "results")
    data = DataSpec(name="jumps", split="cross-subject", fingerprint="e" * 64)
    both = {"transfer": 0.5, "transfer@finetune": 0.7}
    for title, accuracies in {"mamp": both, "slim": {"transfer@finetune": 0.9}}.items():
        name = made.run(title, 0.6, split="cross-subject", knn=None)
        spec = RunSpec.model_validate(json.loads((made.root / name / "run.json").read_text())["spec"])
        for protocol, accuracy in accuracies.items():
            evaluated = spec.model_copy(update={"data": data})
            facts = {"standard": True, "checkpoint": "last", "ids": None, "streams": ("joint",), "fusion": "none"}
            made._evaluation(made.root / name, evaluated, protocol, correct(accuracy), **facts)
            own = {"pretrain_id": evaluated.id, "data": data, "seed": spec.seed}
            path = made.root / name / f"eval-{EvalSpec(**own, protocol=protocol).id}.json"
            record = json.loads(path.read_text())
            record["spec"]["pretrain_id"] = spec.id
            path.write_text(json.dumps(record))
    return TableInputs(Host(), made.store)


def test_frozen_and_fine_tuned_share_no_column(made):
    rows = {row["method"].value: row for row in TRANSFER(made).rows if row["run"].value}
    assert {name: rows["mamp"][name].value for name in ("transfer", "transfer@finetune")} == {
        "transfer": 50.0,
        "transfer@finetune": 70.0,
    }
    assert rows["slim"]["transfer"].value is None and rows["slim"]["transfer@finetune"].mark == "best"
    assert rows["mamp"]["transfer"].mark is None  # one alone is not ranked
    assert (rows["mamp"]["source"].value, rows["mamp"]["dataset"].value) == ("moves cross-subject", "jumps")
