"""One damaged file in the results is a line on stderr; what is whole is listed and compared as ever."""

import json

import pytest
from fabricated import Fabricated

from skelbench.cli.main import main


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


def others_are_shown(capsys, command, path, *reasons):
    assert main(command) == 0
    printed = capsys.readouterr()
    notes = printed.err.splitlines()
    assert len(notes) == 1 and notes[0].startswith("note: skipped: ") and str(path) in notes[0], printed.err
    assert all(reason in notes[0] for reason in reasons), notes
    assert "dino" in printed.out
    return printed.out


@pytest.mark.parametrize(
    ("command", "text"),
    [(["runs", "list"], "{ half"), (["compare"], "[]"), (["runs", "list"], set_("spec", "seed", to="x"))],
)
def test_a_damaged_run_does_not_stop_commands_on_others(results, capsys, text, command):
    path = path_of(results, "slim", "run.json")
    path.write_text(text(path.read_text()) if callable(text) else text)
    out = others_are_shown(capsys, command, path.parent, "remove that directory and run again")
    assert "slim-moves" not in out
    assert main(["runs", "show", path.parent.name]) == 2 and "damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "text"), [(["runs", "list"], ""), (["compare"], set_("metrics", "accuracy", to=float("nan")))]
)
def test_a_damaged_record_does_not_stop_commands_on_others(results, capsys, text, command):
    path = sorted(results.glob("slim-*/eval-*.json"))[0]
    path.write_text(text(path.read_text()) if callable(text) else text)
    others_are_shown(capsys, command, path, "remove it and evaluate again")


def test_damaged_predictions_skip_only_the_paired_test(results, capsys):
    for path in results.glob("slim-*/eval-*.npz"):
        path.write_bytes(b"PK")
    assert main(["compare"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("predictions of evaluation") == printed.err.count("\n") == 2
    assert "slim" in printed.out and "70.0" in printed.out
