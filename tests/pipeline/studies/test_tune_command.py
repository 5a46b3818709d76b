"""``skelbench tune`` as a user types it."""

import json
import sys

import pytest

from skelbench.cli.main import main
from skelbench.pipeline.studies import runner
from tests.campaign import warm

SMALL = ["--dataset", "small", "--tokens", "8", "--set", "batch_size=4", "--set", "encoder.dim=16", "--set", "epochs=1"]
SMALL += ["--set", "encoder.depth=1", "--set", "encoder.heads=2", "--budget", "clips=4", "--probe", "knn"]


@pytest.fixture
def run_tune(place, capsys):
    """``run_tune(*words)`` -> (exit code, stdout, stderr)."""

    def call(*words):
        capsys.readouterr()
        code = main(["tune", *words, "--device", "cpu", "--plugin", str(place / "bees.py")])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["skeletonmea"], "did you mean 'skeletonmae'?"),
        (["untrained"], "does not train"),
        (["calm"], "method calm declares no search space"),
        (["keen", "--budget", "hours=3"], "--budget 'hours=3' is not clips=N"),
        (["keen", "--set", "method=calm"], "--set method is not a setting of a run; name methods"),
        (["keen", "--budget", "clips=2"], "less than one batch of 4"),
        (["keen", "--probe", "knn,linear"], "names 2 protocols"),
        (["keen", "--split", "half~tune"], "held out already"),
        (["keen", "--set", "lr=1e-3"], "--set lr is tuned for method keen"),
        (["keen", "--preset", "quick", "--set", "preset=small"], "--preset and --set preset are the same setting"),
        (["keen", "--set", "bathc_size=3"], "unknown setting 'bathc_size'"),
    ],
)
def test_mistakes_are_one_error_and_nothing_is_written(words, said, place, run_tune, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, out, err = run_tune(words[0], *SMALL, *words[1:])
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert code == 2 and len(errors) == 1 and said in errors[0] and not out, err
    assert not (place / "results").exists()


def test_the_dry_run_lists_settings_and_writes_nothing(place, run_tune):
    code, out, _ = run_tune("keen", *SMALL, "--trials", "4", "--dry-run")
    assert code == 0 and not (place / "results").exists()
    rows = [line for line in out.splitlines() if " new " in line]
    assert "data small/half~tune" in out
    assert len(rows) == 4 and ["train.lr=" in row for row in rows] == [False, True, True, True]
    assert "0.001 to 0.004" in out and "1 of 2 training subjects" in out
    assert "on small/half with seeds 1, 2, 3: at most 6 runs" in out


def test_a_method_is_tuned_shown_and_not_tuned_again(place, run_tune, capsys, monkeypatch):
    monkeypatch.setattr(runner, "subprocess", warm.ForkedProcesses(None))
    words = ["keen", *SMALL, "--trials", "1", "--seeds", "1", "--results", str(place / "tuned")]
    code, out, err = run_tune(*words)
    assert code == 0, err
    (path,) = (place / "tuned" / "tuned").glob("keen-small-half-8t-quick-*.json")
    record = json.loads(path.read_text())
    assert record["winner"] == 0 and record["seeds"] == [1] and len(record["default"]["accuracy"]) == 1
    assert record["held_out"]["split"] == "half~tune" and len(record["held_out"]["subjects"]) == 1
    assert "Default and tuned" in out and str(path) in out.replace("\n", "")
    for run in (place / "tuned").glob("keen-*"):  # what a trial costs is shown nowhere
        assert (run / "cost.json").exists() != ("~tune" in run.name)
    logs = {log: log.stat().st_mtime_ns for log in (place / "tuned" / "studies" / "tune").glob("*.log")}
    assert len(logs) == 2
    code, _, err = run_tune(*words)
    assert code == 0 and "started" not in err and logs == {log: log.stat().st_mtime_ns for log in logs}

    assert main(["compare", "--table", "tuned", "--results", str(place / "tuned"), "--format", "csv"]) == 0
    assert "keen" in capsys.readouterr().out
    assert main(["compare", "--all", "--results", str(place / "tuned"), "--format", "csv"]) == 0
    assert "~tune" not in capsys.readouterr().out
