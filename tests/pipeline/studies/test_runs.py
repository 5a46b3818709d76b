"""Studies that run: stopped and continued, trials that fail, nothing done twice. Each trial is a forked process."""

import json
import os
import re
import signal
import threading
import time

import pytest

from skelbench.cli.main import main
from skelbench.pipeline.studies import runner
from tests.campaign import warm

STUDY = """
table = "objective"
dataset = "small"
seeds = [0]
probe = ["linear"]
[grid]
method = ["calm"]
[set]
tokens = 8
epochs = 20
batch_size = 4
encoder.dim = 16
encoder.depth = 1
"""
FAILING = STUDY.replace('["calm"]', '["raises", "calm", "dies"]')


@pytest.fixture(scope="module")
def sittings(place):
    """State of a study after three commands: stopped by Ctrl-C, continued next to failing trials, issued once more."""
    from contextlib import redirect_stderr, redirect_stdout
    from io import StringIO

    (place / "bees.toml").write_text(STUDY)
    (place / "failing.toml").write_text(FAILING)
    results, slowly = place / "results", place / "slowly"
    handler, ended = signal.getsignal(signal.SIGINT), threading.Event()

    def issue(file, *words):
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(["study", file, "--plugin", "bees.py", "--device", "cpu", *words])
        return code, out.getvalue(), err.getvalue()

    def interrupt():
        """Send Ctrl-C when the trial has logged some steps; afterwards the trial may run fast."""
        while not ended.is_set():
            if any(path.read_text().count("\n") > 3 for path in results.glob("calm-*/metrics.jsonl")):
                return os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.02)

    slowly.touch()
    thread = threading.Thread(target=interrupt)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "subprocess", warm.ForkedProcesses(None))
        thread.start()
        said = [issue("bees.toml")]
        ended.set()
        thread.join()
        slowly.unlink()
        (run,) = results.glob("calm-*")
        stopped = json.loads((run / "run.json").read_text())
        plan = issue("bees.toml", "--dry-run")
        said.append(issue("failing.toml", "--jobs", "2"))
    return {"said": said, "stopped": stopped, "plan": plan, "run": run, "issue": issue, "handler": handler}


def test_ctrl_c_saves_trials_and_prints_how_to_continue(sittings):
    code, out, err = sittings["said"][0]
    assert code == 130 and not out
    assert "save their state" in err and "0 of 1 trials done; issue the same command again to continue" in err
    assert sittings["stopped"]["outcome"] == "interrupted" and 3 < sittings["stopped"]["step"] < 60
    assert signal.getsignal(signal.SIGINT) is sittings["handler"]
    share = 100 * sittings["stopped"]["step"] / 60
    assert f"interrupted at {share:.0f} %" in sittings["plan"][1]


def test_stopped_trials_resume(sittings):
    steps = [json.loads(line)["step"] for line in (sittings["run"] / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 61))
    made = json.loads((sittings["run"] / "run.json").read_text())
    assert made["outcome"] == "done" and made["environment"]["threads"] == 1
    assert "calm 8t s0: started, resumed at" in sittings["said"][1][2]


def test_a_failing_trial_does_not_stop_others(sittings, place):
    code, out, err = sittings["said"][1]
    assert code == 3 and "1 of 3 trials done" in out
    failed = {line.split()[1]: line for line in err.splitlines() if line.startswith("failed: ")}
    assert set(failed) == {"raises", "dies"}
    assert "no bees today" in failed["raises"]
    assert "killed by SIGKILL" in failed["dies"]
    for name in failed:
        (record,) = (place / "results").glob(f"{name}-*/run.json")
        kept = json.loads(record.read_text())
        assert kept["outcome"] == "failed" and kept["reason"] in failed[name]
    for name, line in failed.items():
        (log,) = (place / "results" / "studies" / "failing").glob(f"{name}-8t-*.log")
        assert str(log.relative_to(place)) in line
        assert log.read_text().startswith(f"$ skelbench run {name} --dataset small --tokens 8 --preset quick --seed 0")


def test_the_general_table_is_shown_if_the_study_has_none(sittings):
    out = sittings["said"][1][1]
    assert "calm" in out and "untrained" in out and "skelbench compare --table linear --all" in out


def test_finished_trials_are_not_repeated(sittings, monkeypatch):
    def never(*words, **fields):
        raise AssertionError(f"{words} was started")

    monkeypatch.setattr("skelbench.pipeline.studies.runner.subprocess.Popen", never)
    code, out, err = sittings["issue"]("bees.toml")
    assert code == 0 and "1 of 1 trials done" in out and "started" not in err and "failed" not in err
    code, out, _ = sittings["issue"]("bees.toml", "--dry-run")
    assert code == 0 and "1 trials, all done" in out


def test_a_mismatched_log_is_named(place, monkeypatch, capsys):
    (place / "full.toml").write_text(STUDY.replace("[0]", "[1]"))
    monkeypatch.setattr(runner, "open", lambda path, mode: open("/dev/full", mode), raising=False)
    assert main(["study", "full.toml", "--plugin", "bees.py", "--device", "cpu"]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert re.search(rf"{place}/results/.*/calm-8t-\w+\.log: No space left", said) and "free some space" in said
