"""Run the trials of a study, each as a process of ``skelbench run``: a crash stays in its trial.

Progress is read from the run directories.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import naming
from skelbench.core.leases import Busy, Lease
from skelbench.core.signals import stop_requested
from skelbench.core.spec import file_name
from skelbench.core.threads import usable_cores
from skelbench.core.user_config import said
from skelbench.pipeline.request import parse_value
from skelbench.pipeline.session import Session
from skelbench.pipeline.studies.display import Display
from skelbench.pipeline.studies.engine import Failures
from skelbench.pipeline.studies.files import literal
from skelbench.pipeline.studies.run_status import at_work
from skelbench.pipeline.studies.trials import Status, Trial
from skelbench.pipeline.studies.worker_process import Work

POLL_SECONDS = 0.25
MOST_JOBS = 4
"""Default number of processes on a CPU; each has its own copy of the data."""


class Stopped(Exception):
    """By SIGINT, SIGTERM or SIGHUP; every trial has saved its state."""


def processes(device: str, jobs: int | None) -> tuple[int, int | None]:
    """(trials at a time, threads of each; None = PyTorch's own choice).

    One trial at a time with a GPU. On a CPU the cores are shared out, unless ``OMP_NUM_THREADS`` (or ``threads`` of
    ``skelbench.toml``) says otherwise: small models gain little from a second thread, and lose much when it has to wait
    for a core that another one is using (measured on 2 busy cores: a step at preset `quick` took 0.5 s of processor
    time with one thread, 5.6 s with two).
    """
    if device.startswith("cuda"):
        return jobs or 1, None
    cores = usable_cores()
    jobs = jobs or min(MOST_JOBS, cores)
    threads = said("threads")
    return jobs, threads if isinstance(threads, int) else max(1, cores // jobs)


def command(trial: Trial, protocols: Sequence[str], session: Session) -> list[str]:
    """Words after ``skelbench`` that run exactly this trial."""
    request = trial.request
    options = {
        "--dataset": request.dataset,
        "--split": request.split,
        "--tokens": request.tokens,
        "--preset": trial.resolved.preset,
        "--budget": request.budget,
        "--seed": request.seed,
        "--probe": ",".join(protocols) or "none",
        "--device": session.device,
        "--results": session.results.root,
        "--data-root": session.data_root,
    }
    words = ["run", request.method]
    for option, value in options.items():
        if value is not None:  # a split may be named like an option
            words += [f"{option}={value}"] if str(value).startswith("-") else [option, str(value)]
    words += ["--native"] if request.native else []
    words += [word for spec in session.observe for word in ("--observe", spec.name)]
    for key, value in request.sets.items():
        words += ["--set", f"{key}={typed(value)}"]
    files = [plugin.source for plugin in session.host.plugins if plugin.requested]
    return words + [word for file in files for word in ("--plugin", file)]


def log_name(trial: Trial) -> str:
    """Name of the log of a trial: ``slim-8t-6654ce724f0f``."""
    return f"{file_name(trial.method)}-{trial.resolved.spec.tokens}t-{trial.id}"


def own_modules() -> list[str]:
    """Python options that keep modules of the current folder out, unless skelbench itself is there."""
    return [] if Path(__file__).parents[3] == Path.cwd() else ["-P"]


def typed(value: Any) -> str:
    """``value`` as ``--set`` reads it: plain text if it is read back unchanged."""
    if isinstance(value, str) and value == value.strip() and parse_value(value) == value:
        return value
    return "None" if value is None else literal(value)


def claim_of(trial: Trial, folder: Path) -> Lease | None:
    """Claim ``trial`` for a process of this study, which locks its run only seconds later; None if it is claimed."""
    claim = Lease(folder / f".{trial.id}.lock")
    try:
        claim.acquire()
    except Busy:
        return None
    return claim


class Runner:
    """Run trials, ``jobs`` at a time."""

    def __init__(self, session: Session, protocols: Sequence[str], logs: Path, jobs: int, threads: int | None) -> None:
        self.session, self.protocols, self.logs, self.jobs = session, protocols, logs, jobs
        self.environment = dict(os.environ)
        if threads is not None:
            self.environment["OMP_NUM_THREADS"] = str(threads)
        self.working: list[Work] = []

    def run(self, trials: Sequence[tuple[Trial, Status]], display: Display) -> Failures:
        """Run every trial to its end; return those that failed: id -> (reason, log).

        Raises :class:`Stopped` after a signal, when every process has saved its state; a second signal kills them.
        """
        waiting = deque(trials)
        failures: Failures = {}
        try:
            with stop_requested() as stop:
                while (waiting and not stop.is_set()) or self.working:
                    while len(self.working) < self.jobs and not stop.is_set():
                        if (item := self._free(waiting)) is None:
                            break
                        display.started(self._start(*item))
                    time.sleep(POLL_SECONDS)
                    if stop.is_set() and not all(work.stopping for work in self.working):
                        display.message("stopping: the running trials save their state (a second signal kills them)")
                        for work in self.working:
                            work.stop()
                    self._see_ends(failures, display, stop.is_set())
                    display.refresh(self.working, [(trial, before.share) for trial, before in waiting])
        finally:  # also after an error here or a second signal: nothing keeps running
            for work in self.working:
                work.process.kill() if work.stopping else work.stop()
                work.claim.release()
        if stop.is_set():
            raise Stopped
        return failures

    def _see_ends(self, failures: Failures, display: Display, stopping: bool) -> None:
        """Update each process, and remove those that have ended."""
        for work in list(self.working):
            work.update(self.session)
            if (code := work.process.poll()) is None:
                continue
            self.working.remove(work)
            work.claim.release()
            if stopping and code:
                continue  # it was stopped on purpose
            if failure := work.failure(code, self.session):
                if code < 0:
                    work.record_failure(failure)
                failures[work.trial.id] = failure, work.log
            display.ended(work, failure)

    def _free(self, waiting: deque[tuple[Trial, Status]]) -> tuple[Trial, Status, Lease] | None:
        """The next trial that no other command works on, and the claim on it."""
        for place, (trial, before) in enumerate(waiting):
            if not self._at_work(trial) and (claim := claim_of(trial, self.logs.parent)) is not None:
                del waiting[place]
                return trial, before, claim
        return None

    def _at_work(self, trial: Trial) -> bool:
        """Whether another process works on ``trial``; the process of a damaged run reports the damage itself."""
        try:
            run = self.session.results.by_id(trial.id)
        except SkelbenchError:
            return False
        return run is not None and at_work(run)

    def _start(self, trial: Trial, before: Status, claim: Lease) -> Work:
        words = command(trial, self.protocols, self.session)
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{log_name(trial)}.log"
        with naming(log), open(log, "ab") as file:
            file.write(f"$ skelbench {shlex.join(words)}\n".encode())
            file.flush()
            process = subprocess.Popen(
                [sys.executable, *own_modules(), "-m", "skelbench", *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,  # a terminal's Ctrl-C comes to this process, which passes it on once
            )
        work = Work(trial, claim, process, log, share_before=before.share, share=before.share)
        self.working.append(work)
        return work
