"""One damaged file in the results is a line on stderr; what is whole is listed and compared as ever."""

import json
import shutil

import numpy as np
import pytest
from fabricated import Fabricated

from skelbench.cli.main import main

DEEP = "[" * 100_000


@pytest.fixture
def results(tmp_path):
    made = Fabricated(tmp_path / "results")
    made.run("untrained", 0.3)
    made.run("dino", 0.6)
    made.run("slim", 0.7, metrics=[{"step": 1, "clips_seen": 8, "loss": 1.0}])
    return tmp_path / "results"


def path_of(results, run, name):
    (path,) = results.glob(f"{run}-*/{name}")
    return path


def set_(*keys, to):
    """JSON text in which the value at ``keys`` is another."""

    def change(text):
        whole = json.loads(text)
        inner = whole
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to
        return json.dumps(whole)

    return change


def without(key):
    """JSON text without ``key``."""
    return lambda text: json.dumps({name: value for name, value in json.loads(text).items() if name != key})


def others_are_shown(capsys, command, path, *reasons):
    assert main(command) == 0
    printed = capsys.readouterr()
    notes = printed.err.splitlines()
    assert len(notes) == 1 and notes[0].startswith("note: left out: ") and str(path) in notes[0], printed.err
    assert all(reason in notes[0] for reason in reasons), notes
    assert "dino" in printed.out
    return printed.out


@pytest.mark.parametrize(
    "text", ["", "{ half", DEEP, "[]", set_("spec", "seed", to="x"), set_("modified", to=[1]), without("outcome")]
)
@pytest.mark.parametrize("command", [["runs", "list"], ["compare"]])
def test_a_damaged_run_stops_no_other(results, capsys, text, command):
    path = path_of(results, "slim", "run.json")
    path.write_text(text(path.read_text()) if callable(text) else text, encoding="latin-1")
    out = others_are_shown(capsys, command, path.parent, "remove that directory and run again")
    assert "slim-moves" not in out
    assert main(["runs", "show", path.parent.name]) == 2
    assert "is missing or damaged; remove that directory" in capsys.readouterr().err
    assert main(["runs", "show", "dino"]) == 0


@pytest.mark.parametrize(
    "text", ["", DEEP, "3", set_("metrics", "accuracy", to=float("nan")), set_("spec", "data", to=None)]
)
@pytest.mark.parametrize("command", [["runs", "list"], ["compare"]])
def test_a_damaged_record_stops_no_other(results, capsys, text, command):
    path = sorted(results.glob("slim-*/eval-*.json"))[0]
    path.write_text(text(path.read_text()) if callable(text) else text)
    out = others_are_shown(capsys, command, path, "remove it and evaluate again")
    assert "slim" in out


@pytest.mark.parametrize("arrays", [None, {"ids": [1]}])
def test_damaged_predictions_leave_only_the_test_out(results, capsys, arrays):
    for path in results.glob("slim-*/eval-*.npz"):
        path.write_bytes(b"PK") if arrays is None else np.savez(path, **arrays)
    assert main(["compare"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("predictions of evaluation") == printed.err.count("\n") == 2
    assert "slim" in printed.out and "70.0" in printed.out


@pytest.mark.parametrize("keys", [("encoder_config", "dim"), ("seed",)])
def test_a_spec_that_is_not_that_of_the_id_is_damage(results, capsys, keys):
    path = path_of(results, "slim", "run.json")
    path.write_text(set_("spec", *keys, to=7)(path.read_text()))
    for command in (["eval", "slim"], ["runs", "show", "slim"]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert f"run.json of {path.parent} is missing or damaged" in said, said


def test_a_copied_run_and_a_copied_record_count_once(results, capsys):
    run = path_of(results, "slim", "run.json").parent
    shutil.copytree(run, results / "a-copy")
    out = others_are_shown(capsys, ["runs", "list"], results / "a-copy", f"is a copy of run {run.name}", "remove one")
    assert out.count("slim-moves") == 1
    shutil.rmtree(results / "a-copy")
    record = sorted(run.glob("eval-*.json"))[0]
    shutil.copy(record, run / "eval-copy.json")
    others_are_shown(capsys, ["compare"], run / "eval-copy.json", "the name says another")


def test_a_run_that_lost_its_record_is_named(results, capsys):
    path_of(results, "slim", "run.json").unlink()
    others_are_shown(capsys, ["runs", "list"], "slim-moves", "missing or damaged")


@pytest.mark.parametrize("text", [DEEP, "[]", '{"format": "x"}', '{"format": 1e999}', '{"format": null}'])
def test_a_damaged_format_is_one_sentence(results, fails, text):
    (results / "skelbench.json").write_text(text)
    for command in (["runs", "list"], ["compare"]):
        fails(command, "skelbench.json is damaged; restore it or use another directory with --results")
