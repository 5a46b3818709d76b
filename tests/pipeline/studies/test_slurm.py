"""Studies on a cluster, against commands that only keep a list."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skelbench.cli.main import main
from skelbench.core.leases import Lease
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.pipeline.studies.slurm import commands, engine, requeue, script
from skelbench.plugin.host import request_more
from skelbench.records.store import ResultStore
from tests.campaign import warm

STUDY = """
dataset = "small"
seeds = [0]
probe = ["knn"]
[grid]
method = ["calm", "raises"]
"train.lr" = [0.001, 0.002, 0.003]
[set]
tokens = 8
epochs = 1
batch_size = 4
encoder.dim = 16
encoder.depth = 1
"""
ASKED = ("--time", "1h", "--mem", "2G")


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A folder on PATH with the commands; ``queue.json`` and ``settings.json`` in it are theirs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = Path(__file__).with_name("fake_slurm.py").read_text()
    for name in commands.NEEDED:
        (folder / name).write_text(f"#!{sys.executable} -SE\n{fake}")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(commands, "PAUSE_SECONDS", 0.0)
    return folder


@pytest.fixture
def issue(place, tmp_path, capsys):
    """``issue(*words)`` -> (exit code, stdout, stderr) of the study of 6 trials, with results of its own."""
    (place / "six.toml").write_text(STUDY)
    (place / "one.toml").write_text(STUDY.partition("[grid]")[0] + '[set]\nmethod = "calm"\ntokens = 8\n')

    def call(*words, on="slurm", study="six.toml"):
        capsys.readouterr()
        results = ["--results", str(tmp_path / "results")]
        code = main(["study", study, "--plugin", "bees.py", "--on", on, *results, *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def queue(slurm):
    return json.loads((slurm / "queue.json").read_text()) if (slurm / "queue.json").exists() else []


def set_queue(slurm, tasks):
    (slurm / "queue.json").write_text(json.dumps(tasks))


def arrays(tmp_path):
    """Records of each submitted array, oldest first."""
    kept = [json.loads(path.read_text()) for path in (tmp_path / "results/studies/six/slurm").glob("*.json")]
    return sorted((one for one in kept if "cells" in one), key=lambda one: one["job"])


def test_each_missing_trial_is_submitted_once_in_arrays_of_limited_size(slurm, issue, tmp_path, monkeypatch):
    monkeypatch.setenv("SBATCH_TIMELIMIT", "1")
    monkeypatch.setenv("SBATCH_PARTITION", "low")
    monkeypatch.setattr(engine, "MOST", 5)
    code, out, err = issue(*ASKED, "--max-parallel", "3")
    assert (code, out) == (0, "") and "submitted 5 trials as job 101, 1 wait for the same command again" in err
    assert "submitted 1 trials as job 102, 5 are queued or running" in issue(*ASKED)[2]
    first, second = arrays(tmp_path)
    assert (first["job"], len(first["cells"]), second["job"], len(second["cells"])) == ("101", 5, "102", 1)
    assert len({*first["cells"], *second["cells"]}) == 6
    calls = [line.split() for line in (slurm / "calls").read_text().splitlines() if line.startswith("sbatch")]
    text = Path(calls[0][-1]).read_text()
    assert "#SBATCH --array=1-5%3" in text and "#SBATCH --time=60\n" in text and "#SBATCH --mem=2G" in text
    assert (
        "--partition=low" in text
        and "--open-mode=append" in text
        and "--signal=B:USR2@120" in text
        and "--gres" not in text
    )

    assert "nothing to submit, 6 are queued or running" in issue(*ASKED)[2] and len(queue(slurm)) == 6
    tasks = queue(slurm)
    set_queue(slurm, [tasks[0] | {"state": "RUNNING", "node": "n1"}, *tasks[2:]])
    _, out, _ = issue("--status")
    assert re.search(r"running \(job 101_1 on n1\)", out) and out.count("queued (job 10") == 4
    assert re.search(r"calm .* failed: its job 101_2 left the queue without a message", out)
    assert "6 trials: 1 running, 1 failed, 4 queued" in out
    assert "submitted 1 trials as job 103, 5 are queued or running" in issue(*ASKED)[2]
    assert "3 jobs cancelled" in issue("--cancel")[1] and queue(slurm) == []


def test_the_script_runs_the_commands_of_a_local_study(slurm, issue, place, tmp_path, monkeypatch):
    monkeypatch.setenv("SKELBENCH_OBSERVE", "csv")
    code, out, _ = issue(*ASKED, "--emit", "--setup", "module load x", "--setup", "ulimit -c 0", "--partition", "low")
    assert code == 0 and queue(slurm) == [] and not (tmp_path / "results").exists()
    assert out.index("cd ") < out.index("module load x\nulimit -c 0") < out.index("case ")
    assert "export SKELBENCH_OBSERVE=csv" in out and "export OMP_NUM_THREADS=1" in out and "partition=low" in out
    from skelbench.pipeline.studies import runner

    started = []

    class Recorded(warm.ForkedProcesses):
        def Popen(self, words, **more):  # noqa: N802
            started.append((words, more["env"]["OMP_NUM_THREADS"]))
            return subprocess.Popen(["true"], **more)

    monkeypatch.setattr(runner, "subprocess", Recorded(None))
    issue("--jobs", "4", on="local")
    lines = re.findall(r"(?m)^\d+\) .*?set -- (.*) ;;$", out)
    local = [" ".join(words[words.index("skelbench") + 1 :]) for words, _ in started]
    told = sorted(f"{words} --precision fp32" for words in local)  # else a node's card would decide which run it is
    assert sorted(lines) == told and len(lines) == 6 and {threads for _, threads in started} == {"1"}
    assert f'{" ".join(started[0][0][: started[0][0].index("skelbench")])} skelbench "$@"' in out


def test_gpus_are_requested(slurm, issue):
    gpu = issue("--emit", "--gpus", "1", "--preset", "quick", "--partition", "low")[1]
    assert "--gres=gpu:1" in gpu and "--device cuda" in gpu and "--mem=16G" in gpu and "OMP_NUM_THREADS=1" in gpu
    assert "--cpus-per-task=4" in gpu and set(re.findall(r"--time=(\S+)", gpu)) == {"240"}


@pytest.mark.parametrize(
    ("words", "on", "key"),
    [
        (["--partition", "low"], "local", "--partition"),
        (["--jobs", "2"], "slurm", "--max-parallel"),
        (["--status"], "local", "--on slurm"),
        (["--status", "--cancel"], "slurm", "contradict"),
        ([], "slrum", "did you mean 'slurm'?"),
        (["--time", "30s"], "slurm", "--time '30s'"),
        (["--gpus", "1", "--device", "cpu"], "slurm", "contradict"),
        (["--budget", "minutes=5"], "slurm", "minutes"),
        ([*ASKED, "--partition", "hihg"], "slurm", "hihg"),
    ],
)
def test_a_mistake_is_one_error_and_nothing_is_submitted(slurm, issue, tmp_path, words, on, key):
    code, out, err = issue(*words, on=on, study="one.toml")
    assert code == 2 and not out and key in err and err.count("error: ") == 1
    assert queue(slurm) == [] and not list((tmp_path / "results").glob("studies/*/slurm/*"))


def test_without_slurm_only_the_script_is_printed(issue, tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "NEEDED", ("no-such-sbatch",))
    code, _, err = issue(*ASKED)
    assert code == 2 and "--on slurm needs no-such-sbatch, which is not on PATH" in err
    assert not (tmp_path / "results").exists()
    code, out, _ = issue(*ASKED, "--emit")
    assert code == 0 and "#SBATCH --array=1-6" in out
    code, _, err = issue("--status")
    assert code == 2 and "--on slurm needs no-such-sbatch" in err


def test_a_job_without_an_answer_is_not_submitted_twice(slurm, issue, tmp_path):
    (slurm / "settings.json").write_text(json.dumps({"away": {"sbatch": 1}}))
    code, _, err = issue(*ASKED)
    assert code == 2 and "may be in the queue nevertheless" in err and len(queue(slurm)) == 6
    assert "nothing to submit, 6 are queued or running" in issue(*ASKED)[2] and len(queue(slurm)) == 6


# ------------------------------------------------------------------------------------------ what the script does
STUB = """#!/bin/bash
echo "$@" >>"$HERE/python"
if [ "$2" = skelbench ]; then
    trap 'echo told >>"$HERE/python"; [ -e "$HERE/twice" ] || exit 75' USR2
    touch "$HERE/runs"
    for _ in $(seq 100); do [ -e "$HERE/code" ] && exit "$(cat "$HERE/code")"; sleep 0.05; done
fi
exit "$(cat "$HERE/again" 2>/dev/null || echo 1)"
"""


@pytest.fixture
def task(slurm, tmp_path, monkeypatch):
    """A script with one cell, whose Python is a stub; ``start()`` runs it as SLURM would."""
    (tmp_path / "python3").write_text(STUB)
    (tmp_path / "python3").chmod(stat.S_IRWXU)
    logs = tmp_path / "results/studies/a study"
    logs.mkdir(parents=True)
    asked = script.Resources(3600, "1G", 1, 0, None, None, ("set -euo pipefail",))
    cell = script.Task("0a1b", "calm-8t-0a1b", "2c3d", ("run", "calm", "--set", "name='a b'"))
    (tmp_path / "job.sh").write_text(script.script("a study", "name", logs, [cell], asked, [str(tmp_path / "python3")]))
    environment = os.environ | {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_JOB_ID": "7", "HERE": str(tmp_path)}
    environment |= {"run": "a user's own", "stopping": "yes"}

    def start(*signals, code=None):
        for name in ("runs", "python"):
            (tmp_path / name).unlink(missing_ok=True)
        if code is not None:
            (tmp_path / "code").write_text(str(code))
        job = subprocess.Popen(["bash", tmp_path / "job.sh"], env=environment, stdout=subprocess.PIPE, text=True)
        while signals and not (tmp_path / "runs").exists():
            time.sleep(0.01)
        for number in signals:
            job.send_signal(number)
            time.sleep(0.02)
        out, _ = job.communicate()
        said = (tmp_path / "python").read_text().splitlines()
        return (
            job.returncode,
            said,
            "scontrol requeue 7_1" in (slurm / "calls").read_text() if (slurm / "calls").exists() else False,
            out,
        )

    return start


def test_a_finished_task_is_not_requeued(task, tmp_path):
    code, said, again, _ = task(code=0)
    assert (code, again) == (0, False) and said == ["-m skelbench run calm --set name='a b'"]
    assert (tmp_path / "results/studies/a study/calm-8t-0a1b.log").read_text().startswith("$ skelbench run calm --set ")


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGUSR2, signal.SIGTERM]])
def test_a_stopped_task_saves_and_is_requeued(task, tmp_path, signals):
    (tmp_path / "again").write_text("0")
    code, said, again, out = task(*signals)
    assert (code, again) == (0, True) and "told" in said and "calm-8t-0a1b: requeued" in out
    words = said[-1].split(" calm-8t-0a1b ")
    assert words[1] == "2c3d 7_1 75 yes" and words[0].endswith("requeue " + str(tmp_path / "results/studies/a study"))


def test_a_failed_task_is_not_requeued_and_keeps_its_exit_code(task):
    code, said, again, _ = task(code=2)
    assert (code, again) == (2, False) and said[-1].endswith("2c3d 7_1 2")


# ------------------------------------------------------------------------------------------ the end of a task
@pytest.fixture
def made(place, slurm, tmp_path):
    """``made()`` -> a run that was interrupted, its folder of logs, and what ``sitting`` is given of it."""
    host = request_more([str(place / "bees.py")])
    request = Request("calm", dataset="small", tokens=8, preset="quick", sets={"epochs": 1, "batch_size": 4})
    resolved = resolve(request, host, place / "data", "cpu")
    store = ResultStore(tmp_path / "results")
    store.prepare()
    run = store.open(resolved.spec, "quick", {}, {})
    logs = store.root / "studies" / "six"
    logs.mkdir(parents=True)
    (logs / f"calm-8t-{run.spec.id}.log").write_text("$ skelbench run calm\nerror: no bees today\n")
    set_queue(slurm, [{"job": 7, "index": 1, "state": "RUNNING", "reason": "None", "node": "n1", "name": "x"}])

    def end(code, *more):
        return requeue.main([str(logs), f"calm-8t-{run.spec.id}", "", "7_1", str(code), *more])

    return run, end, logs


def test_tasks_with_progress_are_requeued_and_others_fail_after_three(made):
    run, end, logs = made
    run.update(outcome="interrupted")
    for sitting_ in range(6):
        run.checkpoint.write_bytes(b"state")
        os.utime(run.checkpoint, (sitting_, sitting_ + 1))
        assert end(75) == 0
    assert [end(75), end(140), end(143, "yes")] == [0, 0, 1]
    assert run.outcome == "failed" and "stopped 3 times in a row" in run.reason


def test_a_failure_is_recorded_with_its_reason(made, capsys):
    run, end, logs = made
    run.update(outcome="running")
    assert end(1) == 1 and "no bees today" in capsys.readouterr().out
    assert (run.outcome, run.reason) == ("failed", "no bees today")
    assert requeue.read_record(logs, run.spec.id)["failure"] == "no bees today"
    for code, reason in ((137, "its process was killed by SIGKILL"), (255, "no bees today")):
        run.update(outcome="running")
        assert end(code) == 1 and run.reason == reason


@pytest.mark.parametrize(("state", "reason", "code"), [("COMPLETING", "None", 1), ("COMPLETING", "TimeLimit", 0)])
def test_cancelled_tasks_stop_and_timed_out_tasks_are_requeued(made, slurm, state, reason, code):
    run, end, logs = made
    run.update(outcome="interrupted")
    set_queue(slurm, [{"job": 7, "index": 1, "state": state, "reason": reason}])
    assert end(143, "yes") == code and run.outcome == "interrupted"


def test_a_trial_run_by_another_command_is_no_failure(made, capsys, monkeypatch):
    run, end, logs = made
    monkeypatch.setattr(requeue, "PATIENCE", 0)
    with Lease(run.path / ".lock"):
        for words in ((2,), (75, "yes")):
            assert end(*words) == 1 and "another command works on it" in capsys.readouterr().out
    assert run.outcome == "new" and requeue.read_record(logs, run.spec.id) == {}
