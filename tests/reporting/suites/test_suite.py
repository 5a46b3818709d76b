"""Suites: which runs are rows, the table of means over seeds, and the runs that `suite run` makes."""

import csv
import json

import pytest
from fabricated import Fabricated
from small import write_small_store

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.plugin.descriptors import SuiteSpec
from skelbench.plugin.host import Host, request_files
from skelbench.reporting.suites.suite import find_suite

SUITE = {
    "name": "tiny-v1", "seeds": [0, 1], "tokens": [8], "protocols": ["linear", "knn"], "presets": {"small": []},
    "datasets": {"moves": ["cross-view"]},
}  # fmt: skip
PLUGIN = """
from pathlib import Path
from skelbench.plugin import SuiteSpec, hookimpl

@hookimpl
def skelbench_suites():
    return [SuiteSpec(name="tiny-v1", file=str(Path(__file__).with_name("tiny-v1.json")))]
"""


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """``call(*words)`` -> (exit code, stdout, stderr) of `skelbench suite`, with the suite ``tiny-v1``."""
    (tmp_path / "tiny-v1.json").write_text(json.dumps(SUITE))
    (tmp_path / "own.py").write_text(PLUGIN)
    monkeypatch.setenv("SKELBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("SKELBENCH_DATA", str(tmp_path / "data"))

    def call(*words):
        code = main(["suite", *map(str, words), "--plugin", str(tmp_path / "own.py")])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    yield call
    request_files([])


@pytest.fixture
def made(tmp_path):
    return Fabricated(tmp_path / "results")


def rows(call):
    code, out, err = call("table", "tiny-v1", "--format", "csv")
    assert code == 0, err
    return {row["method"]: row for row in csv.DictReader(out.splitlines())}, err


def test_the_suite_that_ships_names_what_there_is():
    host = Host()
    suite = find_suite(host, "skeleton-v1")
    assert set(suite.protocols) <= set(host.names("protocols")) and suite.encoder in host.names("encoders")
    assert all(set(protocols) <= set(suite.protocols) for protocols in suite.presets.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [({"seeds": []}, "seeds"), ({"extra": 1}, "extra"), ({"name": "other"}, "'other'")],
)
def test_a_file_that_holds_another_suite_is_an_error(tmp_path, monkeypatch, change, message):
    file = tmp_path / "tiny-v1.json"
    file.write_text(json.dumps(SUITE | change))
    host = Host()
    monkeypatch.setattr(host, "get", lambda kind, name: SuiteSpec(name=name, file=str(file)))
    with pytest.raises(SkelbenchError, match=message):
        find_suite(host, "tiny-v1")


def test_suites_are_listed_and_shown(call):
    assert "skeleton-v1" in call("list")[1]
    code, out, _ = call("show", "tiny-v1")
    assert code == 0 and "linear, knn" in out and "cross-view" in out
    assert call("show", "tiny-v2")[0] == 2


def test_the_table_has_means_over_seeds_and_skips_other_runs(call, made):
    for seed, right in ((0, 0.4), (1, 0.6)):
        made.run("slim", right, seed=seed)
    made.run("mamp", 0.8)
    others = {
        "seed": made.run("slim", seed=7),
        "modified": made.run("slim", modified={"train.lr": 1.0}),
        "native": made.run("gfp", setting="native"),
        "data": made.run("slim", dataset="elsewhere"),
        "tokens": made.run("slim", tokens=30),
        "preset": made.run("slim", preset="paper", version=2),
        "encoder": made.run("slim", encoder="stgcn"),
        "parent": made.run("slim", init_from="0123456789ab"),
        "running": made.run("dino", outcome="running"),
    }
    found, err = rows(call)
    assert [*found] == ["slim", "mamp"] or [*found] == ["mamp", "slim"]
    assert (float(found["slim"]["linear"]), float(found["slim"]["knn"])) == (50, 40)
    assert (found["slim"]["seeds"], found["mamp"]["seeds"]) == ("2/2", "1/2")
    assert all(f"skipped {name}" in err for name in others.values())
    code, out, _ = call("table", "tiny-v1", "--table", "linear", "--format", "csv")
    assert code == 0 and set(others.values()).isdisjoint(out) and "mamp" in out


def test_only_means_over_all_seeds_are_ranked(call, made):
    for title, right in (("slim", 0.5), ("mamp", 0.6)):
        for seed in (0, 1):
            made.run(title, right, seed=seed)
    made.run("gfp", 0.9)  # one seed
    _, out, _ = call("table", "tiny-v1", "--format", "md")
    marked = {
        line.split("|")[1].strip().split("<")[0]: "**" in line
        for line in out.splitlines()
        if "GFLOPs" not in line and line.count("|") > 5
    }
    assert marked["mamp"] and not marked["gfp"]


def test_an_empty_table_says_what_to_do(call, made):
    code, out, _ = call("table", "tiny-v1")
    assert code == 0 and "skelbench suite run METHOD" in out


def test_the_runs_of_a_row_are_listed_and_mistakes_rejected(call, tmp_path):
    (tmp_path / "data").mkdir()
    write_small_store(tmp_path / "data")
    own = SUITE | {"presets": {"quick": ["knn"]}, "datasets": {"small": ["half"]}}
    (tmp_path / "tiny-v1.json").write_text(json.dumps(own))
    code, out, err = call("run", "skeletonmae", "--suite", "tiny-v1", "--dry-run", "--device", "cpu")
    assert code == 0 and "2 trials" in out, err
    for words, message in (
        (["untrained"], "is a control"),
        (["slm"], "did you mean 'slim'"),
        (["skeletonmae", "--dataset", "ntu60"], "unknown data set"),
        (["skeletonmae", "--preset", "paper"], "unknown preset"),
        (["skeletonmae", "--tokens", "30"], "unknown number of temporal tokens"),
        (["skeletonmae", "--probe", "semi@1"], "unknown protocol"),
    ):
        code, _, err = call("run", *words, "--suite", "tiny-v1")
        assert code == 2 and message in err, err
