"""Options of ``skelbench compare`` and ``runs show`` that add what is not shown otherwise."""

import csv
import json

import numpy as np
import pytest
from fabricated import Fabricated

from skelbench.cli.main import main
from skelbench.core.files import read_json
from skelbench.records.archive import pack
from skelbench.reporting import reference

pytestmark = pytest.mark.usefixtures("shipped_plugins")


@pytest.fixture
def results(tmp_path):
    """Two runs, whose records hold what was best on test."""
    made = Fabricated(tmp_path / "results")
    for name, share in (("slim", 0.9), ("mamp", 0.2)):
        made.run(name, np.arange(200) < 200 * share, knn=None, subjects=np.arange(200) % 20)
    for path in made.root.glob("*/eval-*.json"):
        record = read_json(path)
        record["metrics"]["accuracy_best_on_test"] = 0.987
        path.write_text(json.dumps(record))
    return made


def shown(capsys, *words):
    assert main([*words]) == 0
    return capsys.readouterr().out


def test_best_on_test_is_shown_only_on_request(results, capsys):
    plain, asked = shown(capsys, "compare"), shown(capsys, "compare", "--best-on-test")
    assert "98.7" not in plain and "est on test" not in plain and "98.7" in asked
    (name,) = [path.name for path in results.root.glob("slim-*")]
    assert "98.7%" not in shown(capsys, "runs", "show", name)
    assert "98.7%" in shown(capsys, "runs", "show", name, "--best-on-test")


def test_significance(results, capsys):
    text = shown(capsys, "compare", "--significance", "--format", "csv")
    rows = {row["method"]: (row["letters"], row["rank"]) for row in csv.DictReader(text.splitlines()) if row["run"]}
    assert rows == {"slim": ("a", "1"), "mamp": ("b", "2")}
    assert "of 20 subjects, worth" in " ".join(shown(capsys, "compare", "--significance", "--notes").split())


@pytest.mark.parametrize(("option", "table"), [("--significance", "flops"), ("--best-on-test", "token-budget")])
def test_an_option_without_a_column_is_rejected(results, capsys, option, table):
    results.run("slim", np.arange(200) < 150, tokens=30, knn=None)
    assert main(["compare", "--table", table, option]) == 2
    assert f"table {table} does not support {option}" in capsys.readouterr().err


def test_compare_works_from_python(results):
    import skelbench

    assert "letters" in skelbench.compare(significance=True, results=results.root).frame()
    assert "against_p" in skelbench.compare(against="slim", results=results.root).frame()
    of_one = skelbench.compare(method="mamp", results=results.root)
    assert of_one.table.notes[0] == "Only method mamp; p is adjusted over the rows that are shown."


def test_without_runs_a_program_gets_an_empty_table(tmp_path, capsys):
    (tmp_path / "none").mkdir()
    place = ["--results", str(tmp_path / "none")]
    assert main(["compare", "--format", "csv", *place]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("group,method,") and "no runs in" in printed.err
    assert main(["compare", "-o", str(tmp_path / "x.json"), *place]) == 0
    assert json.loads((tmp_path / "x.json").read_text())["rows"] == []


def test_unknown_names_are_errors(results, fails):
    fails(["compare", "--method", "slm"], "unknown method 'slm'; did you mean 'slim'?")
    fails(["compare", "--table", "flops", "-o", "."], "-o . is a folder")
    fails(["compare", "--table", "flops", "-o", "nowhere/x.md"], "there is no folder nowhere")
    fails(["compare", "--sort", "-acuracy"], "--sort: unknown column 'acuracy'; did you mean 'accuracy'?")
    fails(["plot", "curves", "--preset", "smal"], "unknown preset 'smal'; did you mean 'small'?")


def test_reference_runs_have_their_own_group(results, tmp_path, capsys, monkeypatch, fails):
    shipped, packs = Fabricated(tmp_path / "shipped"), tmp_path / "packs" / "one"
    shipped.run("gfp", 0.5)
    shipped.run("gfp", 0.5, preset="quick", seed=1)
    monkeypatch.setattr(reference, "FOLDER", packs.parent)
    fails(["compare", "--reference"], "the reference runs are not installed")
    packs.mkdir(parents=True)
    for run in shipped.store.runs():
        pack([run], packs / f"{run.name}.zip")
    text = shown(capsys, "compare", "--reference", "--format", "csv")
    rows = {row["method"]: (row["setting"], row["preset"]) for row in csv.DictReader(text.splitlines())}
    assert rows == {"slim": ("shared", "small"), "mamp": ("shared", "small"), "gfp": ("reference", "small")}
    for table in ("token-budget", "flops"):
        fails(["compare", "--reference", "--table", table], f"table {table} cannot show reference runs")
