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
from skelbench.pipeline.controls import control, raw_control
from skelbench.pipeline.evaluate import eval_spec, evaluate, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.plugin.host import Host
from skelbench.reporting.filters import Filters
from skelbench.reporting.frame import frame
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.seeds import SUBJECTS
from skelbench.reporting.transfer import table
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


def test_any_target_is_standard_and_says_its_source(session, run):
    data = run.spec.data.model_copy(update={"name": "other", "fingerprint": ""})
    record = evaluate(session, run, eval_spec(session.host, run, "transfer@slim", data=data))
    assert record["standard"]
    row = frame(session.results.read()).iloc[0]
    assert (row["dataset"], row["source"]) == ("other (from small half)", "small half") and row["exact"] == (
        not run.info["modified"]
    )


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


def test_controls_are_measured_beside_it(session, run, command, resolved):
    made = resolved("dino", epochs=1)
    beside = [pretrain(session, which(made, session.host)) for which in (control, raw_control)]
    assert command("--dataset", "other") == 0
    for other in beside:
        (record,) = other.records()
        assert record["spec"]["data"]["name"] == "other" and record["spec"]["protocol"] == "transfer"
    row = frame(session.results.read()).set_index("method").loc["dino"]
    assert row["control_run"] == beside[0].name and row["raw_evaluation"]


def test_the_runs_own_clips_are_refused(session, run, command, data_root, capsys):
    (data_root / "again").symlink_to(data_root / "small")
    for words in ([], ["--dataset", "small"], ["--dataset", "again"]):
        assert command(*words) == 2
        refused(capsys, "holds the clips that it was made with; give --dataset NAME")
    assert not list(run.records())


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"topology": COCO17}, "trained on skeleton ntu25 of small, the clips of odd have skeleton coco17"),
        ({"flat": True}, "trained on 3-D poses of small, those of odd are 2-D"),
    ],
)
def test_other_clips_are_refused_in_a_sentence(run, command, data_root, capsys, how, said):
    write_small_store(data_root, "odd", **how)
    assert command("--dataset", "odd") == 2
    refused(capsys, said)
    assert not list(run.records())


def test_other_classes_are_learnt_anew(run, command, data_root):
    write_small_store(data_root, "more", classes=("w", "x", "y", "z", "none of them"), seed=3)
    assert command("--dataset", "more") == 0


def test_a_run_is_not_trained_for_a_probe_that_it_cannot_have(session, data_root, capsys):
    places = ["--results", str(session.results.root), "--data-root", str(data_root)]
    assert main(["run", "dino", "--dataset", "small", "--probe", "knn,transfer", *places]) == 2
    refused(capsys, "skelbench eval RUN --protocol transfer --dataset NAME")
    with pytest.raises(SkelbenchError, match="skelbench eval RUN --protocol transfer --dataset NAME"):
        skelbench.run("dino", dataset="small", probes=["transfer"], results=session.results.root, data=data_root)
    assert not session.results.root.exists()


PLUGIN = """
from pathlib import Path
from skelbench.plugin import ProtocolSpec, PublishedSpec, RowsSpec, hookimpl
from skelbench.reporting.study_rows import Printed, Row

ROWS = [Row(method=m, printed=Printed("made", m.upper(), "from moves xsub")) for m in ("mine", "theirs")]

@hookimpl
def skelbench_protocols():
    return [ProtocolSpec(name="transfer@tuned", target="skelbench.evaluation.transfer:Transfer", elsewhere=True)]

@hookimpl
def skelbench_published():
    return [PublishedSpec(name="made", file=str(Path(__file__).with_suffix(".csv")))]

@hookimpl
def skelbench_rows():
    return [RowsSpec(name="made", table="transfer", target=":ROWS")]
"""
PUBLISHED = """method,variant,dataset,split,protocol,metric,value,std,source,note
MINE,from moves xsub,jumps,xsub,linear,accuracy,72.0,,Made,
THEIRS,from moves xsub,jumps,xsub,finetune,accuracy,75.0,,Made,
"""


@pytest.fixture
def made(tmp_path):
    """What the table is made of: two methods, one frozen and fine-tuned, one fine-tuned alone."""
    (tmp_path / "made.py").write_text(PLUGIN)
    (tmp_path / "made.csv").write_text(PUBLISHED)
    made = Fabricated(tmp_path / "results")
    data = {"name": "jumps", "split": "cross-subject", "fingerprint": "e" * 64}
    for title, shares in {"mine": {"transfer": 0.5, "transfer@tuned": 0.7}, "third": {"transfer@tuned": 0.9}}.items():
        name = made.run(title, 0.6, split="cross-subject", knn=None)
        spec = RunSpec.model_validate(json.loads((made.root / name / "run.json").read_text())["spec"])
        for protocol, share in shares.items():
            elsewhere = spec.model_copy(update={"data": DataSpec(**data)})
            moved(made, name, spec, elsewhere, protocol, share)
    return TableInputs(Host([tmp_path / "made.py"]), made.store)


@pytest.fixture
def built(made):
    """Its table, and the frame that it is of."""
    return table(made), made.frame


def moved(made, name, spec, elsewhere, protocol, share, **more):
    """An evaluation of the run on the other data."""
    facts = {"standard": True, "checkpoint": "last", "ids": None, "streams": ("joint",), "fusion": "none"}
    made._evaluation(made.root / name, elsewhere, protocol, correct(share), **facts, **more)
    own = {"pretrain_id": elsewhere.id, "data": elsewhere.data, "seed": spec.seed}
    path = made.root / name / f"eval-{EvalSpec(**own, protocol=protocol).id}.json"
    record = json.loads(path.read_text())
    record["spec"]["pretrain_id"] = spec.id
    path.write_text(json.dumps(record))


def test_frozen_and_fine_tuned_share_no_column(built):
    rows = {row["method"].value: row for row in built[0].rows}
    assert {name: rows["mine"][name].value for name in ("transfer", "transfer@tuned")} == {
        "transfer": 50.0,
        "transfer@tuned": 70.0,
    }
    assert rows["third"]["transfer"].value is None and rows["third"]["transfer@tuned"].mark == "best"
    assert rows["mine"]["transfer"].mark is None  # one alone is not ranked
    assert (rows["mine"]["paper linear"].value, rows["mine"]["paper finetune"].value) == (72.0, None)
    assert (rows["theirs"]["paper linear"].value, rows["theirs"]["paper finetune"].value) == (None, 75.0)
    assert rows["theirs"]["method"].published and rows["theirs"]["run"].value is None


def test_published_figures_stand_beside_every_row_of_their_method(made):
    """On each grid; and beside none where the method was not asked for."""
    results = Fabricated(made.store.root)
    name = results.run("mine", None, split="cross-subject", tokens=30, knn=None)
    spec = RunSpec.model_validate(json.loads((results.root / name / "run.json").read_text())["spec"])
    data = DataSpec(name="jumps", split="cross-subject", fingerprint="e" * 64)
    moved(results, name, spec, spec.model_copy(update={"data": data}), "transfer", 0.4)
    rows = [row for row in table(TableInputs(made.host, made.store)).rows if row["method"].value == "mine"]
    assert sorted(row["tokens"].value for row in rows) == ["30x25+1", "8x25+1"]
    assert [row["paper linear"].value for row in rows] == [72.0, 72.0]
    assert all(row["method"].footnotes == ("preset small",) for row in rows)
    asked = table(TableInputs(made.host, made.store, filters=Filters(method=("mine",))))
    assert {row["method"].value for row in asked.rows} == {"mine"}
    asked = table(TableInputs(made.host, made.store, filters=Filters(method=("third",))))
    assert {row["method"].value for row in asked.rows} == {"third"}


def test_source_and_target_are_both_seen(built):
    for row in built[0].rows:
        assert (row["source"].value, row["target"].value) == ("moves cross-subject", "jumps")


def test_subjects_that_widen_a_bracket_are_said(tmp_path):
    made = Fabricated(tmp_path)
    name = made.run("slim", knn=None)
    spec = RunSpec.model_validate(json.loads((made.root / name / "run.json").read_text())["spec"])
    elsewhere = spec.model_copy(update={"data": DataSpec(name="jumps", split="cross-subject", fingerprint="e" * 64)})
    moved(made, name, spec, elsewhere, "transfer", 0.5, subjects=np.arange(40) // 4)
    built = table(TableInputs(Host(), made.store))
    (row,) = built.rows
    assert row["transfer"].footnotes == ("subjects",) and row["transfer"].interval_over == "10 subjects"
    assert built.footnotes == {"subjects": SUBJECTS}
    assert any(note.startswith("Subjects: 10 of jumps (from moves cross-view)") for note in built.notes)


def test_nothing_to_show_says_what_to_do(tmp_path):
    made = Fabricated(tmp_path / "results")
    made.run("slim")
    assert "--protocol transfer --dataset NAME" in table(TableInputs(Host(), made.store)).notes[0]
