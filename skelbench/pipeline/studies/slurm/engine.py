"""The engine of a cluster: a job array with a task for each trial, that waits, is stopped and goes on by itself.

What was handed over is kept in ``<results>/studies/<study>/slurm``: for each array its script (``KEY.sh``) and its
trials in order (``KEY.json``), written before it is handed over; its jobs carry the key in their name, so that what
SLURM knows can be told even if this process dies in between.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_atomic, write_json
from skelbench.core.leases import Lease
from skelbench.core.user_config import found
from skelbench.pipeline.studies.engine import Queue
from skelbench.pipeline.studies.slurm import commands, resources
from skelbench.pipeline.studies.slurm.requeue import read_record, record_of
from skelbench.pipeline.studies.slurm.script import Asked, Cell, script
from skelbench.plugin import EngineSpec, hookimpl

if TYPE_CHECKING:
    from skelbench.pipeline.studies.engine import Errand, Wishes
    from skelbench.pipeline.studies.trials import Status, Trial

Trials = Sequence[tuple["Trial", "Status"]]
_ENDED = re.compile(r"\*\*\* JOB \d+ ON \S+ (.*?) \*\*\*|error: (.*oom.*)")
"""What SLURM writes into the log of a job that it ends."""
_END = "END_OF_SKELBENCH_SCRIPT"
_OF_ONE_MACHINE = ("tmpfs", "ramfs", "devtmpfs", "overlay")
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run")


class Array(NamedTuple):
    """What is kept of one that was handed over."""

    folder: Path
    key: str
    job: str
    """"" where sbatch's answer did not come."""
    cells: list[str]
    """Ids, of tasks 1, 2, ..."""
    submitted: float

    @property
    def name(self) -> str:
        """Of its job."""
        return f"{self.folder.parent.name}.{self.key}"


class Slurm(Queue):
    """``sbatch`` with an array, one task for each trial."""

    takes = ("partition", "gpus", "cpus", "mem", "time", "max_parallel", "setup")

    def __init__(self, errand: Errand, wishes: Wishes) -> None:
        super().__init__(errand, wishes)
        self.folder = errand.logs / "slurm"
        self.seconds = None if wishes.time is None else resources.seconds_of(wishes.time)
        self.memory = None if wishes.mem is None else resources.check_memory(wishes.mem)

    @classmethod
    def device(cls, wishes: Wishes, device: str | None) -> str | None:
        """``cuda`` where a GPU is asked for, by --gpus or --device, whatever this machine has; else ``cpu``."""
        if wishes.gpus not in (None, 0, 1):
            raise SkelbenchError(
                f"--gpus {wishes.gpus}: a trial uses one GPU; write --gpus 1, and --max-parallel for more at a time"
            )
        said = device or found("device").value
        kind = (said or "auto").split(":")[0]
        if kind not in ("auto", "cpu", "cuda"):
            raise SkelbenchError(f"--device {said}: only cpu and cuda are supported")
        if wishes.gpus is not None and device and (kind == "cuda") != bool(wishes.gpus):
            raise SkelbenchError(f"--gpus {wishes.gpus} and --device {device} contradict each other; leave out one")
        gpu = wishes.gpus if wishes.gpus is not None else kind == "cuda"
        return "cuda" if gpu else "cpu"

    # ------------------------------------------------------------------------------------------ handing over
    def emit(self, trials: Trials) -> str:
        """The script, or where it takes several one that submits them; of all trials where no queue can be asked."""
        there = self.there() if commands.here() else {}
        texts = [text for _, _, text in self._arrays([each for each in trials if each[0].id not in there])]
        if len(texts) < 2:
            return "".join(texts)
        # For bash, as sbatch would take all of it for the first one.
        place = shlex.quote(str(self.folder.absolute()))
        head = f"#!/bin/bash\n# Submits {len(texts)} arrays: bash FILE\nmkdir -p {place}\njob=\n"
        # Of several arrays together no more may run at once than of one.
        after = "${job:+--dependency afterany:${job%%;*}} " if self.wishes.max_parallel else ""
        one = f"\njob=$(sbatch --parsable {after}<<'{_END}'\n{{text}}{_END}\n) && echo \"$job\" || exit\n"
        return head + "".join(one.replace("{text}", text) for text in texts)

    def submit(self, trials: Trials) -> str:
        """Hand over what is neither done nor there."""
        from skelbench.pipeline.studies.runner import say_queue

        commands.check_here()
        self.check_shared()
        self.errand.session.results.prepare()
        self.folder.mkdir(parents=True, exist_ok=True)
        with Lease(self.errand.logs / ".submit.lock", timeout=60.0):  # of two commands one submits
            there = self.there()
            missing = [(trial, state) for trial, state in trials if trial.id not in there]
            waits = f", {len(trials) - len(missing)} are queued or running" if len(missing) < len(trials) else ""
            if not missing:
                return f"nothing to submit{waits}"
            jobs: list[str] = []
            for key, cells, text in self._arrays(missing):
                try:
                    jobs.append(self._hand_over(key, cells, text, jobs))
                except SkelbenchError:
                    self._take_back(jobs)
                    raise
        say_queue(self.errand.logs, [trial for trial, _ in trials])
        return f"submitted {len(missing)} trials as job{'s' * (len(jobs) > 1)} {', '.join(jobs)}{waits}"

    def _hand_over(self, key: str, cells: Sequence[Cell], text: str, before: Sequence[str]) -> str:
        """The job's number."""
        ids = [cell.id for cell in cells]
        path = self.folder / f"{key}.sh"
        write_atomic(path, lambda file: file.write(text.encode()))
        write_json(self.folder / f"{key}.json", {"job": "", "cells": ids, "submitted": time.time()})
        for id_ in ids:  # how earlier sittings ended is past
            record_of(self.errand.logs, id_).unlink(missing_ok=True)
        after = ["--dependency", f"afterany:{before[-1]}"] if before and self.wishes.max_parallel else []
        try:
            said = commands.ask("sbatch", "--parsable", *after, str(path), tries=1)
            job = said.strip().partition(";")[0]
        except commands.Away as error:
            if not (job := self._taken_after_all(key)):  # it may be yet: what is kept tells it then
                raise commands.Refused(
                    f"{error}; if the trials are in the queue nevertheless, --status shows them and none is submitted "
                    "twice, so issue the same command again"
                ) from error
        except SkelbenchError:
            for left in (path, self.folder / f"{key}.json"):
                left.unlink()
            raise
        write_json(self.folder / f"{key}.json", {"job": job, "cells": ids, "submitted": time.time()})
        return job

    def _taken_after_all(self, key: str) -> str:
        """The job that the controller took though its answer was lost."""
        with suppress(SkelbenchError):
            return next((task.job for task in commands.tasks([f"{self.errand.study}.{key}"])), "")
        return ""

    def _take_back(self, jobs: Sequence[str]) -> None:
        if jobs:
            commands.ask("scancel", *jobs)
        for array in self._kept(self.folder):
            if array.job in jobs:
                (self.folder / f"{array.key}.json").unlink()
                (self.folder / f"{array.key}.sh").unlink()

    def _arrays(self, trials: Trials) -> Iterator[tuple[str, list[Cell], str]]:
        """(key, trials, script) of each: those that ask for the same, as many as an array may have."""
        from skelbench.pipeline.studies.runner import own_modules

        most, alike = commands.array_size(), self._needs(trials)
        python = [sys.executable, *own_modules()]
        for asked, members in alike.items():
            for start in range(0, len(members), most):
                cells, key = [self._cell(trial) for trial in members[start : start + most]], uuid.uuid4().hex[:8]
                name = f"{self.errand.study}.{key}"
                yield key, cells, script(self.errand.study, name, self.errand.logs, cells, asked, python)

    def _cell(self, trial: Trial) -> Cell:
        from skelbench.pipeline.studies.runner import command, name_of

        words = command(trial, self.errand.protocols, self.errand.session)
        if trial.resolved.method.trains:  # a node's card would decide else, and with it which run it is
            words += ["--precision", trial.resolved.spec.train.precision]
        return Cell(trial.id, name_of(trial), trial.twin.spec.id if trial.twin else "", tuple(words))

    def _needs(self, trials: Trials) -> dict[Asked, list[Trial]]:
        """Trials by what they ask for: what the options say, else what the dry run's estimate of each does."""
        wishes, gpus = self.wishes, int(self.errand.session.device.startswith("cuda"))
        cpus = wishes.cpus or (4 if gpus else 1)
        partition = wishes.partition or os.environ.get("SBATCH_PARTITION")  # a user's usual one
        base = Asked(0, "", cpus, gpus, partition, wishes.max_parallel, wishes.setup or ())
        most = None if self.seconds else commands.partition_limit(partition)
        seconds = {} if self.seconds else self._estimates([trial for trial, _ in trials])
        alike: dict[Asked, list[Trial]] = {}
        for trial, _ in trials:
            time_ = self.seconds or resources.time_for(seconds[trial.setting], most)
            memory = self.memory or resources.DEFAULT_MEMORY
            alike.setdefault(replace(base, seconds=time_, memory=memory), []).append(trial)
        return alike

    def _estimates(self, trials: Sequence[Trial]) -> dict[str, float | None]:
        """Seconds of training of each distinct setting; None if they cannot be estimated here."""
        import torch

        from skelbench.pipeline.studies.trials import prices

        session = self.errand.session
        distinct = {trial.setting: trial for trial in trials}
        timed = list(distinct.values()) if not session.device.startswith("cuda") or torch.cuda.is_available() else []
        with session.progress(total=len(distinct), label="time of training", unit="settings") as report:
            priced = prices(distinct.values(), timed, session, report)
        seconds = {setting: price.seconds for setting, price in priced.items()}
        if not timed:
            flops = {setting: price.flops_per_clip for setting, price in priced.items()}
            rate = {setting: trial.clips / resources.ASSUMED_FLOPS for setting, trial in distinct.items()}
            seconds = {key: None if count is None else count * rate[key] for key, count in flops.items()}
        return _filled(seconds)

    def check_shared(self) -> None:
        """Refuse a results folder that other machines cannot see."""
        root = self.errand.session.results.root.absolute()
        mount, kind = _mount(root)
        temporary = next((folder for folder in _TEMPORARY if root.is_relative_to(folder)), "")
        if (kind in _OF_ONE_MACHINE or temporary) and not commands.only_this_machine():
            where = temporary or f"{mount} ({kind})"
            raise SkelbenchError(
                f"results directory {root} is below {where}, which the nodes of the cluster do not share; name one "
                "that they do with --results"
            )

    # ------------------------------------------------------------------------------------------ what is there
    def there(self) -> Mapping[str, str]:
        """Of every study of these results: a trial may belong to several."""
        commands.check_here()
        arrays = {array.name: array for array in self._every()}
        return {
            arrays[task.name].cells[int(task.number) - 1]: task.words
            for task in commands.tasks(list(arrays))
            if task.name in arrays and task.number.isdigit() and int(task.number) <= len(arrays[task.name].cells)
        }

    def failure(self, trial: Trial, state: Status) -> tuple[str, Path] | None:
        """By what its task or its run wrote down, else by what SLURM wrote into the log of its job."""
        from skelbench.pipeline.studies.runner import name_of

        if state.state == "running":
            return None
        had = [array for array in self._every() if array.job and trial.id in array.cells]  # perhaps another study's
        last = max(had, key=lambda array: array.submitted, default=None)
        folder = last.folder if last else self.folder
        log = folder.parent / f"{name_of(trial)}.log"
        if reason := read_record(folder.parent, trial.id).get("failure"):
            return str(reason), log
        if state.state in ("failed", "diverged") and state.run:
            return state.run.reason or state.state, log
        if last is None:
            return None
        job = f"{last.job}_{last.cells.index(trial.id) + 1}"
        own = folder / f"{job}.log"
        with suppress(OSError):
            if ended := _ENDED.findall(own.read_text(errors="replace")):
                return f"SLURM ended its job {job}: {''.join(ended[-1])}", own
        return (
            f"its job {job} left the queue without a word: it was cancelled, or its node does not see {folder}",
            own,
        )

    def cancel(self) -> int:
        """``scancel`` of all that the study has in the queue."""
        commands.check_here()
        jobs = {task.job for task in commands.tasks([array.name for array in self._kept(self.folder)])}
        if jobs:
            commands.ask("scancel", *sorted(jobs))
        return len(jobs)

    def _every(self) -> Iterator[Array]:
        for folder in sorted(self.errand.logs.parent.glob("*/slurm")):
            yield from self._kept(folder)

    def _kept(self, folder: Path) -> list[Array]:
        """Arrays that were handed over; a damaged file is left out."""
        kept: list[Array] = []
        for path in folder.glob("*.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                held: dict[str, Any] = read_json(path)
                cells = [str(cell) for cell in held["cells"]]
                kept.append(Array(folder, path.stem, str(held["job"]), cells, float(held["submitted"])))
        return kept


def _filled(values: dict[str, float | None]) -> dict[str, float | None]:
    """One that cannot be tried here (it fails: for the run itself to say) has as much as the largest."""
    most = max((value for value in values.values() if value is not None), default=None)
    return {key: most if value is None else value for key, value in values.items()}


def _mount(path: Path) -> tuple[str, str]:
    """(where it is mounted, kind) of the file system that holds ``path``; empty where the system does not say."""
    best = ("", "")
    with suppress(OSError):
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, place, kind, *_ = line.split()
            if path.is_relative_to(place) and len(place) >= len(best[0]):
                best = place, kind
    return best


@hookimpl
def skelbench_engines() -> list[EngineSpec]:
    return [EngineSpec(name="slurm", target=":Slurm", summary="a SLURM cluster: an array task for each trial")]
