"""The engine of a SLURM cluster: a job array with one task for each trial, requeued until it is done.

``<results>/studies/<study>/slurm`` holds, for each submitted array, its script (``KEY.sh``) and its trials in order
(``KEY.json``), written before submission. The job name contains the key, so jobs are found even if this process dies.
"""

from __future__ import annotations

import os
import re
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_atomic, write_json
from skelbench.core.leases import Lease
from skelbench.core.user_config import found
from skelbench.pipeline.studies.engine import Queue
from skelbench.pipeline.studies.slurm import commands
from skelbench.pipeline.studies.slurm.requeue import read_record, record_path
from skelbench.pipeline.studies.slurm.script import Resources, Task, script, seconds_of
from skelbench.plugin import EngineSpec, hookimpl

if TYPE_CHECKING:
    from skelbench.pipeline.studies.engine import ResourceRequest, StudyContext
    from skelbench.pipeline.studies.trials import Status, Trial

Trials = Sequence[tuple["Trial", "Status"]]
DEFAULT_SECONDS, DEFAULT_MEMORY = 4 * 3600, "16G"
"""Limits of a task without --time and --mem. A trial that takes longer is requeued and continues."""
_ENDED = re.compile(r"\*\*\* JOB \d+ ON \S+ (.*?) \*\*\*|error: (.*oom.*)")
"""SLURM's message in the log of a job that it ended."""
MOST = 1000
"""Most trials of one array: SLURM's default of MaxArraySize."""


class Array(NamedTuple):
    """A submitted job array."""

    folder: Path
    key: str
    job: str
    """Job id, "" if sbatch gave no answer."""
    trials: list[str]
    """Trial ids of tasks 1, 2, ..."""
    submitted: float

    @property
    def name(self) -> str:
        """Job name."""
        return f"{self.folder.parent.name}.{self.key}"


class Slurm(Queue):
    """Submit the trials of a study as job arrays with ``sbatch``."""

    takes = ("partition", "gpus", "cpus", "mem", "time", "max_parallel", "setup")

    def __init__(self, context: StudyContext, request: ResourceRequest) -> None:
        super().__init__(context, request)
        self.folder = context.logs / "slurm"
        self.seconds = DEFAULT_SECONDS if request.time is None else seconds_of(request.time)
        self.memory = request.mem or DEFAULT_MEMORY

    @classmethod
    def device(cls, request: ResourceRequest, device: str | None) -> str | None:
        """``cuda`` if --gpus or --device asks for a GPU, whatever this machine has; else ``cpu``."""
        if request.gpus not in (None, 0, 1):
            raise SkelbenchError(
                f"--gpus {request.gpus}: a trial uses one GPU; write --gpus 1, and --max-parallel for more at a time"
            )
        setting = device or found("device").value
        kind = (setting or "auto").split(":")[0]
        if kind not in ("auto", "cpu", "cuda"):
            raise SkelbenchError(f"--device {setting}: only cpu and cuda are supported")
        if request.gpus is not None and device and (kind == "cuda") != bool(request.gpus):
            raise SkelbenchError(f"--gpus {request.gpus} and --device {device} contradict each other; leave out one")
        gpu = request.gpus if request.gpus is not None else kind == "cuda"
        return "cuda" if gpu else "cpu"

    # ------------------------------------------------------------------------------------------ submission
    def emit(self, trials: Trials) -> str:
        """Return the script for the trials that are not queued; for all trials if SLURM is not available."""
        queued = self.queued() if commands.available() else {}
        missing = [trial for trial, _ in trials if trial.id not in queued]
        return self._script(missing)[2] if missing else ""

    def submit(self, trials: Trials) -> str:
        """Submit the trials that are not in the queue, as one array."""
        commands.check_available()
        self.context.session.results.prepare()
        self.folder.mkdir(parents=True, exist_ok=True)
        with Lease(self.context.logs / ".submit.lock", timeout=60.0):
            queued = self.queued()
            missing = [trial for trial, _ in trials if trial.id not in queued]
            note = f", {len(trials) - len(missing)} are queued or running" if len(missing) < len(trials) else ""
            if not missing:
                return f"nothing to submit{note}"
            key, tasks, text = self._script(missing)
            job = self._submit_array(key, tasks, text)
        rest = f", {len(missing) - MOST} wait for the same command again" if len(missing) > MOST else ""
        return f"submitted {len(tasks)} trials as job {job}{note}{rest}"

    def _submit_array(self, key: str, tasks: Sequence[Task], text: str) -> str:
        """Submit one array; return its job id."""
        files = self.folder / f"{key}.sh", self.folder / f"{key}.json"
        record = {"job": "", "cells": [task.id for task in tasks], "submitted": time.time()}
        write_atomic(files[0], lambda file: file.write(text.encode()))
        write_json(files[1], record)
        for task in tasks:
            record_path(self.context.logs, task.id).unlink(missing_ok=True)
        try:
            job = commands.ask("sbatch", "--parsable", str(files[0]), tries=1).strip().partition(";")[0]
        except commands.NoAnswer as error:
            raise commands.CommandFailed(
                f"{error}; the job may be in the queue nevertheless: the same command submits no trial twice"
            ) from error
        except SkelbenchError:
            for file in files:
                file.unlink()
            raise
        write_json(files[1], record | {"job": job})
        return job

    def _script(self, trials: Sequence[Trial]) -> tuple[str, list[Task], str]:
        """(key, tasks, script) of an array of the first trials."""
        from skelbench.pipeline.studies.runner import own_modules

        tasks, key = [self._task(trial) for trial in trials[:MOST]], uuid.uuid4().hex[:8]
        name, python = f"{self.context.study}.{key}", [sys.executable, *own_modules()]
        request, gpus = self.request, int(self.context.session.device.startswith("cuda"))
        partition, cpus = request.partition or os.environ.get("SBATCH_PARTITION"), request.cpus or (4 if gpus else 1)
        limits = self.seconds, self.memory, cpus, gpus, partition, request.max_parallel, request.setup or ()
        return key, tasks, script(self.context.study, name, self.context.logs, tasks, Resources(*limits), python)

    def _task(self, trial: Trial) -> Task:
        from skelbench.pipeline.studies.runner import command, log_name

        words = command(trial, self.context.protocols, self.context.session)
        if trial.resolved.method.trains:  # else the GPU of a node would decide the precision, and with it the run
            words += ["--precision", trial.resolved.spec.train.precision]
        return Task(trial.id, log_name(trial), trial.baseline.spec.id if trial.baseline else "", tuple(words))

    # ------------------------------------------------------------------------------------------ state
    def queued(self) -> Mapping[str, str]:
        """Trials in the queue, of every study of these results: a trial may belong to several."""
        commands.check_available()
        arrays = {array.name: array for array in self._all_submitted()}
        return {
            arrays[task.name].trials[int(task.number) - 1]: task.description
            for task in commands.tasks(arrays)
            if task.number.isdigit() and int(task.number) <= len(arrays[task.name].trials)
        }

    def failure(self, trial: Trial, state: Status) -> tuple[str, Path] | None:
        """Why a submitted trial is neither queued nor done: its own record, its run, or the log of its job."""
        from skelbench.pipeline.studies.runner import log_name

        if state.state == "running":
            return None
        submitted = [array for array in self._all_submitted() if array.job and trial.id in array.trials]
        last = max(submitted, key=lambda array: array.submitted, default=None)
        folder = last.folder if last else self.folder
        log = folder.parent / f"{log_name(trial)}.log"
        if reason := read_record(folder.parent, trial.id).get("failure"):
            return str(reason), log
        if state.state in ("failed", "diverged") and state.run:
            return state.run.reason or state.state, log
        if last is None:
            return None
        job = f"{last.job}_{last.trials.index(trial.id) + 1}"
        job_log = folder / f"{job}.log"
        with suppress(OSError):
            if ended := _ENDED.findall(job_log.read_text(errors="replace")):
                return f"SLURM ended its job {job}: {''.join(ended[-1])}", job_log
        return f"its job {job} left the queue without a message: cancelled, or its node does not see {folder}", job_log

    def cancel(self) -> int:
        """Cancel all jobs of the study; return their number."""
        commands.check_available()
        jobs = {task.job for task in commands.tasks({array.name for array in self._submitted(self.folder)})}
        if jobs:
            commands.ask("scancel", *sorted(jobs))
        return len(jobs)

    def _all_submitted(self) -> Iterator[Array]:
        for folder in sorted(self.context.logs.parent.glob("*/slurm")):
            yield from self._submitted(folder)

    def _submitted(self, folder: Path) -> list[Array]:
        """Arrays that were submitted; a damaged record is skipped."""
        arrays: list[Array] = []
        for path in folder.glob("*.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                record: dict[str, Any] = read_json(path)
                trials = [str(trial) for trial in record["cells"]]
                arrays.append(Array(folder, path.stem, str(record["job"]), trials, float(record["submitted"])))
        return arrays


@hookimpl
def skelbench_engines() -> list[EngineSpec]:
    return [
        EngineSpec(name="slurm", target=":Slurm", summary="SLURM cluster: a job array with one task for each trial")
    ]
