"""A study of 12 trials on a real SLURM of two nodes, with everything that happens to one on a cluster.

    python -m tests.campaign.slurm [--folder DIR]

One trial fails, one is pre-empted three times, one takes longer than its time limit, one is cancelled, the controller
is started anew in the middle; then the same command is issued once more. Falls: the runs, or the table that is printed
at the end, differ from those of the same study run here by ``--on local``; a step that was made twice or left out; a
status that does not say what happened. Without Debian's packages it ends with exit code 77.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .places import differences
from .slurm_sandbox import Absent, Sandbox

ROOT = Path(__file__).parents[2]
PLUGIN = """
import json
import time
from pathlib import Path

from skelbench.core.component import Spec
from skelbench.plugin import MethodSpec, hookimpl
from skelbench.views.spec import ViewSpec
from skelbench_plugins.untrained import Untrained


class Settings(Spec):
    tag: int = 0


@hookimpl
def skelbench_methods():
    return [MethodSpec(name="calm", target=":Calm", config=":Settings")]


class Calm(Untrained):
    @classmethod
    def views(cls, config, grid):
        return {"clip": ViewSpec(frames=grid.frames)}

    def training_step(self, views, step):
        if self.config.tag == 3:
            raise RuntimeError("no bees today")
        slow = Path(__file__).with_name("slow.json")
        if slow.exists():
            time.sleep(json.loads(slow.read_text()).get(str(self.config.tag), 0.0))
        return {"loss": self.encoder(views["clip"]).pooled_RD.square().mean()}
"""
STUDY = """
dataset = "small"
seeds = [0]
probe = ["linear"]
[grid]
method = ["calm"]
tag = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
[set]
tokens = 8
epochs = 30
batch_size = 4
encoder.dim = 16
encoder.depth = 1
"""
FAILS, PREEMPTED, LONG, CANCELLED = 3, 0, 1, 11
STEPS = 90
SLOW = {str(PREEMPTED): 0.8, str(LONG): 1.6, str(CANCELLED): 1.0}
"""Seconds of a step; a sitting is warned 90 seconds after it began."""


class Scenario:
    """The study in ``place``, on ``slurm``."""

    def __init__(self, place: Path, slurm: Sandbox) -> None:
        self.place, self.slurm, self.began, self.fallen = place, slurm, time.monotonic(), 0
        (place / "data").mkdir(parents=True)
        subprocess.run(
            [sys.executable, "-c", "from skelbench.testing.tiny import write_store as w; import sys, pathlib; "
             "w(pathlib.Path(sys.argv[1]), 'small')", str(place / "data")], cwd=ROOT, check=True,
        )  # fmt: skip
        (place / "bees.py").write_text(PLUGIN)
        (place / "bees.toml").write_text(STUDY)
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        kept = {key: value for key, value in slurm.environment.items() if not key.startswith("SKELBENCH_")}
        self.environment = kept | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "SKELBENCH_DATA": str(place / "data")}

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self.began:6.0f} s  {what}", flush=True)

    def expect(self, holds: bool, what: str) -> None:
        self.fallen += not holds
        self.say(what if holds else f"FELL: {what}")

    def study(self, results: str, *words: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of the study's command."""
        line = [sys.executable, "-m", "skelbench", "study", "bees.toml", "--plugin", "bees.py", "--results", results]
        done = subprocess.run([*line, *words], cwd=self.place, env=self.environment, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def on_slurm(self, *words: str) -> tuple[int, str, str]:
        return self.study("there", "--on", "slurm", "--time", "2m", "--mem", "1G", *words)

    def steps(self, tag: int) -> list[int]:
        """Steps that the trial of ``tag`` has logged."""
        for run in (self.place / "there").glob("calm-*/run.json"):
            if json.loads(run.read_text())["spec"]["method_config"]["tag"] == tag:
                lines = run.with_name("metrics.jsonl")
                return [json.loads(line)["step"] for line in lines.read_text().splitlines()] if lines.exists() else []
        return []

    def task(self, tag: int) -> str:
        """``12_3``, or empty: where the trial is in the queue."""
        cell = next((log.stem for log in (self.place / "there/studies/bees").glob("*.log")
                     if f"tag={tag} " in log.read_text().splitlines()[0] + " "), "")  # fmt: skip
        for array in (self.place / "there/studies/bees/slurm").glob("*.json"):
            held = json.loads(array.read_text())
            if cell.rpartition("-")[2] in held.get("cells", ()):
                return f"{held['job']}_{held['cells'].index(cell.rpartition('-')[2]) + 1}"
        return ""

    def state(self, task: str) -> tuple[str, str]:
        """State and node of a task."""
        words = self.slurm.call("squeue", "-h", "-r", "-j", task, "-o", "%T %N").split() if task else []
        return (words[0], words[1] if len(words) > 1 else "") if words else ("", "")

    def until(self, condition: Callable[[], object], what: str, seconds: float = 300) -> None:
        try:
            self.slurm.wait_for(condition, seconds)
        except AssertionError:
            self.expect(False, f"{what}: not within {seconds:.0f} s")

    def play(self) -> None:
        code, _, said = self.study("here", "--jobs", "2")
        self.expect(code == 3 and "no bees today" in said, "the study here: one trial fails, exit code 3")
        (self.place / "slow.json").write_text(json.dumps(SLOW))
        code, out, said = self.on_slurm("--max-parallel", "2", "--partition", "nowhere")
        self.expect(
            code == 2 and said.count("error: ") == 1 and "nowhere" in said and not self.slurm.call("squeue", "-h"),
            f"a partition that does not exist: exit code 2, nothing in the queue: {said.strip().splitlines()[-1]}",
        )
        code, out, said = self.on_slurm()
        self.expect(code == 0 and "submitted 12 trials as jobs" in said, said.splitlines()[-2])
        code, _, said = self.on_slurm()
        self.expect("nothing to submit, 12 are queued or running" in said, "issued again: nothing is submitted twice")
        for time_ in range(3):
            before = len(self.steps(PREEMPTED))
            self.until(lambda before=before: len(self.steps(PREEMPTED)) > before + 5, "the trial gets on")
            task = self.task(PREEMPTED)
            _, node = self.state(task)
            self.slurm.call("sbatch", "-p", "high", "-w", node, "--time=1", "-o", "/dev/null", "--wrap", "sleep 1")
            self.until(lambda task=task: self.state(task)[0] == "PENDING", "it goes back into the queue")
            self.say(
                f"pre-empted ({time_ + 1}): {task} on {node} after step {self.steps(PREEMPTED)[-1]}, back in the queue"
            )
            if time_ == 0:
                self.slurm.restart_controller()
                self.say("the controller was started anew")
                self.until(lambda: self.slurm.call("squeue"), "it answers")
        self.until(lambda: len(self.steps(CANCELLED)) > 5, "the trial to be cancelled runs")
        task = self.task(CANCELLED)
        self.slurm.call("scancel", task)
        self.until(lambda: not self.state(task)[0], "it has left the queue")
        cancelled = self.steps(CANCELLED)[-1]
        self.say(f"cancelled: {task} after step {cancelled}")
        code, out, _ = self.on_slurm("--status")
        rows = [line for line in out.splitlines() if f"tag={CANCELLED} " in line]
        self.expect(len(rows) == 1 and "CANCELLED" in rows[0], f"status: {' '.join(rows[0].split()) if rows else out}")
        (self.place / "slow.json").write_text(json.dumps({str(LONG): SLOW[str(LONG)]}))
        code, out, said = self.on_slurm("--wait")
        first = next(line for line in said.splitlines() if "submitted" in line)
        again = re.search(r"submitted (\d+) trials", first)
        self.expect(code == 3 and again is not None, f"issued again with --wait, exit code 3: {first}")
        failed = [line for line in said.splitlines() if line.startswith("failed: ")]
        self.expect(len(failed) == 1 and "no bees today" in failed[0], f"at its end: {failed}")
        sittings = sorted(log.read_text().count("$ skelbench run") for log in self.logs())
        self.say(f"sittings of the trials: {sittings}")
        for tag, what in ((PREEMPTED, "pre-empted"), (LONG, "long"), (CANCELLED, "cancelled")):
            self.expect(
                self.steps(tag) == list(range(1, STEPS + 1)), f"the {what} trial has each of its {STEPS} steps once"
            )
        self.expect(self.goes_back(LONG) > 0, f"the long trial went back into the queue {self.goes_back(LONG)} times")
        tables = [self.table(results) for results in ("here", "there")]
        self.expect(tables[0] == tables[1] != [], f"the tables of both are the same, {len(tables[0])} rows")
        found = [line for line in differences(self.place / "here", self.place / "there") if "studies/" not in line]
        self.expect(not found, f"the runs of both are the same, bit for bit {found[:5] or ''}")

    def table(self, results: str) -> list[dict[str, Any]]:
        """Rows of all runs, but for how long they took."""
        words = ("compare", "--all", "--format", "json", "--results", results, "--plugin", "bees.py")
        line = [sys.executable, "-m", "skelbench", *words]
        done = subprocess.run(line, cwd=self.place, env=self.environment, capture_output=True, text=True, check=True)
        return [{k: v for k, v in row.items() if k != "train_minutes"} for row in json.loads(done.stdout)["rows"]]

    def logs(self) -> list[Path]:
        return sorted((self.place / "there/studies/bees").glob("*.log"))

    def goes_back(self, tag: int) -> int:
        cell = next(log.stem for log in self.logs() if f"tag={tag} " in log.read_text().splitlines()[0] + " ")
        own = (self.place / "there/studies/bees/slurm").glob("*.log")
        return sum(log.read_text().count(f"{cell}: goes back into the queue") for log in own)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where the packages of SLURM are, or are unpacked to be kept")
    typed = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        sandbox = Sandbox(Path(folder))
        if typed.folder:
            sandbox.root.symlink_to(typed.folder.absolute() / "root")
        try:
            with sandbox as slurm:
                scenario = Scenario(Path(folder) / "a place", slurm)
                scenario.play()
        except Absent as error:
            print(f"skipped: {error}")
            return 77
        print(f"{scenario.fallen} fell")
        return 1 if scenario.fallen else 0


if __name__ == "__main__":
    sys.exit(main())
