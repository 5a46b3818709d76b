"""Runs, frames, tables and figures from Python: what the commands make and show, by the same code."""

import os
from shutil import copytree

import pytest
from small import TINY, shorten, tiny, write_small_store

import skelbench
from skelbench.api.reports import TableView
from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.reporting.table import Column, Table

SHAPE = {"dataset": "small", "clip_length": 32, "patch": 8, "epochs": 1, "batch_size": 4, "preset": "quick"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with its controls, and the places that it lies in."""
    root = tmp_path_factory.mktemp("api")
    (root / "data").mkdir()
    write_small_store(root / "data")
    places = {"results": root / "results", "data": root / "data"}
    asked = {**SHAPE, "settings": tiny("skeletonmae"), "probes": ["knn"], "progress": False, **places}
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        return skelbench.run("skeletonmae", **asked), asked, places


def test_a_python_run_equals_the_run_of_the_command(made, capsys):
    run, asked, places = made
    weights = run.path / "encoder.safetensors"
    before = os.stat(weights).st_mtime_ns
    again = skelbench.run("skeletonmae", **asked)
    assert again == run and hash(again) == hash(run) and os.stat(weights).st_mtime_ns == before
    sets = [word for key, value in asked["settings"].items() for word in ("--set", f"{key}={value}")]
    shape = ["--dataset", "small", "--clip-length", "32", "--patch", "8", "--epochs", "1", "--batch-size", "4"]
    where = ["--results", str(places["results"]), "--data-root", str(places["data"])]
    command = ["run", "skeletonmae", *shape, "--preset", "quick", "--probe", "knn", *sets, *where]
    assert main(command) == 0
    assert str(run.path) in capsys.readouterr().out and os.stat(weights).st_mtime_ns == before
    assert len(skelbench.runs(places["results"])) == 3  # with its controls


def test_a_run_has_its_recorded_facts(made):
    run, _, places = made
    assert (run.outcome, run.title, run.spec.method) == ("done", "skeletonmae", "skeletonmae") and run.id in run.name
    assert run.metrics["step"].tolist() == [1, 2, 3] and run.metrics["loss"].notna().all()
    assert run.cost["encoder"]["macs"] > 0
    with pytest.raises(SkelbenchError, match="was not evaluated by 'linear', but by knn"):
        run.accuracy()
    with pytest.raises(SkelbenchError, match="but by nothing"):
        skelbench.get_run(f"{run.id}@0.3333", results=places["results"]).accuracy("knn")
    every = skelbench.runs(places["results"])
    assert run in every and every[1].name == sorted(each.name for each in every)[1]
    assert skelbench.get_run(run.id, results=places["results"]) == run
    results = skelbench.results(places["results"])
    assert set(results["method"]) == {"skeletonmae", "untrained", "raw"} and len(results) == 3
    assert repr(run).startswith("Run(skeletonmae-small-half")


def test_a_run_can_be_evaluated_again(made, tmp_path):
    _, _, places = made
    places = {**places, "results": copytree(places["results"], tmp_path / "copy")}
    run = skelbench.get_run(made[0].id, **places)
    found = run.evaluate("knn", progress=False)
    assert found.accuracy == run.accuracy("knn") == found.predictions["correct"].mean()
    kept = skelbench.get_run(f"{run.id}@0.3333", **places)
    assert kept.evaluate("knn", progress=False).accuracy == kept.accuracy("knn")
    bones = skelbench.evaluate(run.name, "knn", stream="bone", progress=False, **places)
    assert bones.spec.streams == ("bone",) and bones.run == run
    with pytest.raises(SkelbenchError, match="did you mean 'bone'"):
        run.evaluate("knn", stream="bones", progress=False)


def test_tables_and_figures(made):
    _, _, places = made
    columns = Column("method", "Method"), Column("run", "Run", shown=False), Column("accuracy", "Acc. (%)", ".1f")
    table = TableView(Table("Of <all>", columns, ({"method": "slim", "run": "r", "accuracy": 81.25},)))
    assert table.frame().to_dict("records") == [{"method": "slim", "run": "r", "accuracy": 81.25}]
    assert "Of &lt;all&gt;" in table._repr_html_() and "81.2" in table._repr_html_() and "81.2" in str(table)
    exact = skelbench.compare(results=places["results"])
    assert "runs with changed settings" in exact.left_out and "all=True" in exact._repr_html_()
    assert skelbench.plot("curves", all=True, results=places["results"]).axes
    with pytest.raises(SkelbenchError, match="start with: skelbench study token-budget"):
        skelbench.plot("token-budget", results=places["results"])
    with pytest.raises(SkelbenchError, match="did you mean 'flops'"):
        skelbench.compare("flop", results=places["results"])
    listed = skelbench.plugins()
    assert {("method", "slim"), ("observer", "csv")} <= set(zip(listed["kind"], listed["name"]))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"preset": "papr"}, "'paper'"),
        ({"settings": {"lrr": 1}}, "train.lr"),
        ({"probes": ["liner"]}, "'linear'"),
        ({"presett": "paper"}, "unknown argument 'presett'; did you mean 'preset'?"),
        ({"plugins": ["mine.py"]}, "there is no such file"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_mistakes_are_errors_and_write_nothing(wrong, said, data_root, tmp_path):
    with pytest.raises(SkelbenchError, match=said):
        skelbench.run("skeletonmae", **{**SHAPE, "settings": TINY, **wrong})
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("call", "said"),
    [(lambda: skelbench.compare(methods="slim"), "'method'"), (lambda: skelbench.compare(method=7), "method=7")],
)
def test_mistakes_of_other_calls_are_errors(call, said, made, monkeypatch):
    monkeypatch.setenv("SKELBENCH_RESULTS", str(made[2]["results"]))
    with pytest.raises(SkelbenchError, match=said):
        call()


def test_a_settings_file_names_plugins(tmp_path, data_root):
    (tmp_path / "buzz.py").write_text(
        "from skelbench.plugin import MethodSpec, hookimpl\n\n@hookimpl\ndef skelbench_methods():\n"
        "    return [MethodSpec(name='buzz', target='skelbench_plugins.untrained:Untrained')]\n"
    )
    file = tmp_path / "run.toml"
    file.write_text('plugins = ["buzz.py"]\n')
    with pytest.raises(SkelbenchError, match="did you mean 'train.lr'"):  # not that buzz is unknown
        skelbench.run("buzz", config=file, settings={"train.lrr": 1}, **SHAPE)


def test_a_plugin_that_is_edited_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setenv("SKELBENCH_PLUGINS", "")
    file = tmp_path / "mine.py"
    text = 'from skelbench.views.augmentations import Augment\nclass Mine(Augment):\n    kind = "NAME"\n'
    file.write_text(text.replace("NAME", "first"))
    assert "first" in set(skelbench.plugins([file])["name"])
    file.write_text(text.replace("NAME", "second"))
    names = set(skelbench.plugins()["name"])
    assert "second" in names and "first" not in names
    file.write_text("this is no Python")
    with pytest.raises(SkelbenchError, match="cannot be used"):
        skelbench.plugins([file])
    assert "vit" in set(skelbench.plugins()["name"])  # the broken plugin was reported and stops nothing
    file.write_text(text.replace("NAME", "third"))
    assert "third" in set(skelbench.plugins([file])["name"])
