"""Run the trials of a study, each as a process of ``skelbench run``: a crash stays in its trial.

Progress is read from the run directories.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skelbench.core.console import duration
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
from skelbench.pipeline.studies.engine import Failures, StudyContext
from skelbench.pipeline.studies.files import literal
from skelbench.pipeline.studies.run_status import at_work, trained, why_failed
from skelbench.pipeline.studies.trials import Status, Trial
from skelbench.records.run_dir import RunDir

POLL_SECONDS = 0.25
MOST_JOBS = 4
"""Default number of processes on a CPU; each has its own copy of the data."""


class Stopped(Exception):
    """Error after SIGINT, SIGTERM or SIGHUP; every trial has saved its state."""


def processes(device: str, jobs: int | None) -> tuple[int, int | None]:
    """(trials at a time, threads of each; None = PyTorch's own choice).

    One trial at a time with a GPU. On a CPU they share the cores, unless ``OMP_NUM_THREADS`` (or ``threads`` of
    ``skelbench.toml``) is set: a second thread gains little for small models, and waits when its core is busy.
    """
    if device.startswith("cuda"):
        return jobs or 1, None
    cores = usable_cores()
    jobs = jobs or min(MOST_JOBS, cores)
    threads = said("threads")
    return jobs, threads if isinstance(threads, int) else max(1, cores // jobs)


def command(trial: Trial, protocols: Sequence[str], session: Session) -> list[str]:
    """Arguments of ``skelbench`` that run exactly this trial."""
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


@dataclass
class _Process:
    """A process of ``skelbench run`` for ``trial``."""

    trial: Trial
    claim: Lease
    """Lock against other studies; held until the process locks the run itself, some seconds later."""
    process: subprocess.Popen[bytes]
    log: Path
    started: float


def run_all(
    trials: Sequence[tuple[Trial, Status]], context: StudyContext, jobs: int, threads: int | None, display: Display
) -> Failures:
    """Run every trial to its end, ``jobs`` at a time; return those that failed.

    Raises :class:`Stopped` after a signal, when every process has saved its state; a second signal kills them.
    """
    session, stopping = context.session, False
    waiting, working = [trial for trial, _ in trials], list[_Process]()
    shares = {trial.id: state.share for trial, state in trials}
    failures: Failures = {}
    try:
        with stop_requested() as stop:
            while working or (waiting and not stop.is_set()):
                while len(working) < jobs and not stop.is_set() and (work := _start_next(waiting, context, threads)):
                    working.append(work)
                    share = shares[work.trial.id]
                    resumed = f", resumed at {100 * share:.0f} %" if 0 < share < 1 else ""
                    display.message(f"{work.trial.title}: started{resumed}")
                time.sleep(POLL_SECONDS)
                if stop.is_set() and not stopping:
                    stopping = True
                    display.message("stopping: the running trials save their state (a second signal kills them)")
                    for work in working:
                        work.process.terminate()
                for work in list(working):
                    if (code := work.process.poll()) is None:
                        shares[work.trial.id] = _share(work.trial, session)
                        continue
                    working.remove(work)
                    work.claim.release()
                    shares[work.trial.id] = 1.0
                    if stopping and code:
                        continue  # it was stopped on purpose
                    outcome = f"done in {duration(time.monotonic() - work.started)}"
                    if failure := _failure(work, code, session):
                        failures[work.trial.id], outcome = (failure, work.log), f"failed: {failure}"
                    display.ended(work.trial.title, outcome, bool(failure))
                running = [f"{work.trial.title} {100 * shares[work.trial.id]:.0f} %" for work in working]
                display.refresh(running, shares)
    finally:  # also after an error here or a second signal: nothing keeps running
        for work in working:
            work.process.kill() if stopping else work.process.terminate()
            work.claim.release()
    if stopping:
        raise Stopped
    return failures


def claim_of(trial: Trial, folder: Path) -> Lease | None:
    """Claim ``trial`` for a process of this study; None if another study has claimed it."""
    claim = Lease(folder / f".{trial.id}.lock")
    try:
        claim.acquire()
    except Busy:
        return None
    return claim


def _run_of(trial: Trial, session: Session) -> RunDir | None:
    """The run of ``trial``; None if there is none, or it is damaged, which its process reports."""
    with suppress(SkelbenchError):
        return session.results.by_id(trial.id)
    return None


def _share(trial: Trial, session: Session) -> float:
    """Fraction of the training of ``trial`` that is done; 1 while it is probed."""
    with suppress(SkelbenchError, OSError):
        if run := _run_of(trial, session):
            return 1.0 if run.outcome == "done" else trained(run, trial.clips)
    return 0.0


def _start_next(waiting: list[Trial], context: StudyContext, threads: int | None) -> _Process | None:
    """Start the next waiting trial that no other command works on; None if there is none."""
    for trial in waiting:
        run = _run_of(trial, context.session)
        if not (run and at_work(run)) and (claim := claim_of(trial, context.logs.parent)):
            waiting.remove(trial)
            return _start(trial, claim, context, threads)
    return None


def _start(trial: Trial, claim: Lease, context: StudyContext, threads: int | None) -> _Process:
    words = command(trial, context.protocols, context.session)
    context.logs.mkdir(parents=True, exist_ok=True)
    log = context.logs / f"{log_name(trial)}.log"
    with naming(log), open(log, "ab") as file:
        file.write(f"$ skelbench {shlex.join(words)}\n".encode())
        file.flush()
        process = subprocess.Popen(
            [sys.executable, *own_modules(), "-m", "skelbench", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)}),
            start_new_session=True,  # a terminal's Ctrl-C comes to this process, which passes it on once
        )
    return _Process(trial, claim, process, log, time.monotonic())


def _failure(work: _Process, code: int, session: Session) -> str:
    """Why a process that ended with ``code`` failed, "" if it succeeded; recorded in run.json if it was killed."""
    try:
        run = session.results.by_id(work.trial.id)
        outcome = run.outcome if run else "new"
    except SkelbenchError as error:
        return str(error)
    if code == 0:
        return "" if outcome == "done" else f"it ended without a finished run {work.trial.id}"
    failure = why_failed(code, work.log)
    if code < 0 and run and outcome in ("new", "running"):
        run.update(outcome="failed", reason=failure)
    return failure
