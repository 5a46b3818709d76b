"""Suites: runs that are rows, the table of means over seeds, and the runs that `suite run` makes."""

import csv
import json

import pytest
from small import write_small_store

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.plugin.descriptors import SuiteSpec
from skelbench.plugin.host import Host
from skelbench.reporting.suites.suite import find_suite

SUITE = {
    "name": "tiny-v1", "seeds": [0, 1], "tokens": [8], "protocols": ["linear", "knn"], "presets": {"small": []},
    "datasets": {"moves": ["cross-view"]},
}  # fmt: skip
PLUGIN = """
from skelbench.plugin import SuiteSpec, hookimpl

@hookimpl
def skelbench_suites():
    return [SuiteSpec(name="tiny-v1", file={!r})]
"""


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """``call(*words)`` -> (exit code, stdout, stderr) of `skelbench suite`, with the suite ``tiny-v1``."""
    (tmp_path / "tiny-v1.json").write_text(json.dumps(SUITE))
    (tmp_path / "own.py").write_text(PLUGIN.format(str(tmp_path / "tiny-v1.json")))
    monkeypatch.setenv("SKELBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("SKELBENCH_DATA", str(tmp_path / "data"))

    def call(*words):
        code = main(["suite", *map(str, words), "--plugin", str(tmp_path / "own.py")])
        return code, *capsys.readouterr()

    return call


def test_the_shipped_suite_names_components_that_exist(call):
    host = Host()
    suite = find_suite(host, "skeleton-v1")
    assert set(suite.protocols) <= set(host.names("protocols")) and suite.encoder in host.names("encoders")
    assert all(set(protocols) <= set(suite.protocols) for protocols in suite.presets.values())
    assert "linear, knn" in call("show", "tiny-v1")[1]


@pytest.mark.parametrize(
    ("change", "message"), [({"seeds": []}, "seeds"), ({"extra": 1}, "extra"), ({"name": "other"}, "'other'")]
)
def test_a_file_that_is_not_the_suite_is_an_error(tmp_path, monkeypatch, change, message):
    file = tmp_path / "tiny-v1.json"
    file.write_text(json.dumps(SUITE | change))
    host = Host()
    monkeypatch.setattr(host, "get", lambda kind, name: SuiteSpec(name=name, file=str(file)))
    with pytest.raises(SkelbenchError, match=message):
        find_suite(host, "tiny-v1")


def test_the_table_has_means_over_seeds_and_skips_other_runs(call, made):
    assert "skelbench suite run METHOD" in call("table", "tiny-v1")[1]
    for seed, right in ((0, 0.4), (1, 0.6)):
        made.run("slim", right, seed=seed)
    made.run("mamp", 0.8)
    others = [
        made.run("slim", seed=7),
        made.run("slim", modified={"train.lr": 1.0}),
        made.run("gfp", setting="native"),
        made.run("slim", dataset="elsewhere"),
        made.run("slim", tokens=30),
        made.run("slim", preset="paper", version=2),
        made.run("slim", encoder="stgcn"),
        made.run("slim", init_from="0123456789ab"),
        made.run("dino", outcome="running"),
    ]
    code, out, err = call("table", "tiny-v1", "--format", "csv")
    rows = {row["method"]: row for row in csv.DictReader(out.splitlines())}
    assert code == 0 and {*rows} == {"slim", "mamp"}
    assert (float(rows["slim"]["linear"]), float(rows["slim"]["knn"])) == (50, 40)
    assert (rows["slim"]["seeds"], rows["mamp"]["seeds"]) == ("2", "1")
    assert all(f"skipped {name}" in err for name in others)


def test_only_means_over_all_seeds_are_ranked(call, made):
    for title, right in (("slim", 0.5), ("mamp", 0.6)):
        for seed in (0, 1):
            made.run(title, right, seed=seed)
    made.run("gfp", 0.9)  # one seed
    lines = [line.split("|") for line in call("table", "tiny-v1", "--format", "md")[1].splitlines()]
    marked = {words[1].strip().split("<")[0]: "**" in "".join(words) for words in lines if len(words) > 6}
    assert marked["mamp"] and not marked["gfp"]


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
        (["skeletonmae", "--dataset", "ntu60"], "unknown dataset"),
        (["skeletonmae", "--tokens", "30"], "unknown number of temporal tokens"),
    ):
        code, _, err = call("run", *words, "--suite", "tiny-v1")
        assert code == 2 and message in err, err
