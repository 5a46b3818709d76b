"""Runs the cells of a study, each in a process of its own: a crash stays in its cell, and memory is given back.

A process is ``skelbench run`` as it could be typed: what a study makes, one command at a time makes as well. Progress
is read from the run's directory.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from skelbench.results.store import RunDir
from skelbench.run.request import parse_value
from skelbench.run.session import Session
from skelbench.spec import file_name
from skelbench.studies.cells import Cell, Status, status
from skelbench.studies.files import literal
from skelbench.studies.watch import at_work, last_metrics

if TYPE_CHECKING:
    from skelbench.studies.display import Display

POLL_SECONDS = 0.25
MOST_JOBS = 4
"""Processes at once on a CPU unless more are asked for: each holds its own copy of everything."""


@dataclass
class Work:
    """One cell whose process runs."""

    cell: Cell
    claim: filelock.BaseFileLock
    process: subprocess.Popen
    log: Path
    log_start: int
    share_before: float
    started: float = field(default_factory=time.monotonic)
    share: float = 0.0
    line: dict[str, Any] = field(default_factory=dict)
    """Last line of metrics of this sitting."""
    stage: str = "starting"
    run: RunDir | None = None
    stopping: bool = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class Stopped(Exception):
    """By SIGINT, SIGTERM or SIGHUP; every cell has saved its state."""


def processes(device: str, jobs: int | None) -> tuple[int, int | None]:
    """(cells at a time, threads of each; None = PyTorch's own choice).

    One cell at a time with a GPU. On a CPU the cores are shared out, unless ``OMP_NUM_THREADS`` says otherwise: small
    models gain little from a second thread, and lose much when it has to wait for a core that another one is using
    (measured on 2 busy cores: a `quick` step of slim took 0.5 s of processor time with one thread, 5.6 s with two).
    """
    if device.startswith("cuda"):
        return jobs or 1, None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jobs = jobs or min(MOST_JOBS, cores)
    said = os.environ.get("OMP_NUM_THREADS", "")
    return jobs, int(said) if said.isdigit() else max(1, cores // jobs)


def command(cell: Cell, protocols: Sequence[str], session: Session) -> list[str]:
    """``skelbench run ...`` for exactly this cell, as words after the program's name."""
    request = cell.request
    said = {
        "--dataset": request.dataset,
        "--split": request.split,
        "--tokens": request.tokens,
        "--preset": cell.resolved.preset,
        "--seed": request.seed,
        "--probe": ",".join(protocols) or "none",
        "--device": session.device,
        "--results": session.results.root,
        "--data-root": session.data_root,
    }
    words = ["run", request.method]
    words += [str(word) for option, value in said.items() if value is not None for word in (option, value)]
    words += ["--native"] if request.native else []
    for key, value in request.sets.items():
        words += ["--set", f"{key}={typed(value)}"]
    files = [plugin.source for plugin in session.host.plugins if plugin.requested]
    return words + [word for file in files for word in ("--plugin", file)]


def typed(value: Any) -> str:
    """``value`` as ``--set`` reads it: plain text where that is read back as the same."""
    if isinstance(value, str) and value == value.strip() and parse_value(value) == value:
        return value
    return "None" if value is None else literal(value)


class Runner:
    """Works through cells, ``jobs`` at a time."""

    def __init__(self, session: Session, protocols: Sequence[str], logs: Path, jobs: int, threads: int | None) -> None:
        self.session, self.protocols, self.logs, self.jobs = session, protocols, logs, jobs
        self.environment = dict(os.environ)
        if threads is not None:
            self.environment["OMP_NUM_THREADS"] = str(threads)
        self.working: list[Work] = []
        self._signals = 0

    def run(self, cells: Sequence[tuple[Cell, Status]], display: Display) -> dict[str, tuple[str, Path]]:
        """Bring every cell to its end; returns those that failed: id -> (reason, log).

        Raises :class:`Stopped` after a signal, when every process has ended.
        """
        waiting = deque(cells)
        failures: dict[str, tuple[str, Path]] = {}
        with self._stop_signals(display):
            while (waiting and not self._signals) or self.working:
                while len(self.working) < self.jobs and not self._signals:
                    if (item := self._free(waiting)) is None:
                        break
                    display.started(self._start(*item))
                time.sleep(POLL_SECONDS)
                for work in list(self.working):
                    self._look(work)
                    if (code := work.process.poll()) is not None:
                        self.working.remove(work)
                        work.claim.release()
                        if self._signals and code:
                            continue  # it was made to stop
                        if failure := self._failure(work, code):
                            failures[work.cell.id] = failure, work.log
                        display.ended(work, failure)
                display.tick(self.working, [(cell, before.share) for cell, before in waiting])
        if self._signals:
            raise Stopped
        return failures

    def _free(self, waiting: deque[tuple[Cell, Status]]) -> tuple[Cell, Status, filelock.BaseFileLock] | None:
        """The next cell that no other command is working on, and the claim that keeps other studies from it."""
        for place, (cell, before) in enumerate(waiting):
            run = self.session.results.by_id(cell.id)
            if (run is None or not at_work(run)) and (claim := self._claim(cell)) is not None:
                del waiting[place]
                return cell, before, claim
        return None

    def _claim(self, cell: Cell) -> filelock.BaseFileLock | None:
        """Held while a process of this study works on ``cell``, which locks its run some seconds after it started."""
        self.logs.mkdir(parents=True, exist_ok=True)
        claim = filelock.FileLock(self.logs.parent / f".{cell.id}.lock", timeout=0)
        try:
            claim.acquire()
        except filelock.Timeout:
            return None
        return claim

    def _start(self, cell: Cell, before: Status, claim: filelock.BaseFileLock) -> Work:
        words = command(cell, self.protocols, self.session)
        log = self.logs / f"{file_name(cell.method)}-{cell.resolved.spec.tokens}t-{cell.id}.log"
        with open(log, "ab") as file:
            file.write(f"$ skelbench {shlex.join(words)}\n".encode())
            file.flush()
            start = file.tell()
            process = subprocess.Popen(
                [sys.executable, "-m", "skelbench", *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,  # a terminal's Ctrl-C comes to this process, which passes it on once
            )
        work = Work(cell, claim, process, log, start, before.share, share=before.share)
        self.working.append(work)
        if self._signals:  # one that came while the process was started
            _stop(work)
        return work

    def _look(self, work: Work) -> None:
        """Read how far a cell is."""
        work.run = run = work.run or self.session.results.by_id(work.cell.id)
        if run is None:
            return
        outcome = run.outcome
        if run.metrics.exists() and run.metrics.stat().st_mtime > time.time() - work.seconds:
            work.line = last_metrics(run)  # of this sitting: an older one says nothing of its speed
        if outcome == "done":
            work.share, work.stage = 1.0, "probing"
        elif outcome == "running" and work.line:
            work.share, work.stage = min(1.0, work.line["clips_seen"] / work.cell.clips), "training"

    def _failure(self, work: Work, code: int) -> str | None:
        """Why a process that ended with ``code`` failed, in one sentence; None if it did what it should."""
        if code == 0:
            now = status(work.cell, self.session, self.protocols)
            made = now.run is not None and now.run.outcome == "done"
            return None if made else f"it ended without a finished run {work.cell.id}"
        with open(work.log, "rb") as file:
            file.seek(work.log_start)
            said = file.read().decode(errors="replace").splitlines()
        if code < 0:
            name = signal.Signals(-code).name
            return f"its process was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
        errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
        return errors[-1] if errors else f"it ended with exit code {code}"

    @contextmanager
    def _stop_signals(self, display: Display):
        """The first signal lets every process save its state, another one kills them."""

        def handler(number: int, _frame: Any) -> None:
            self._signals += 1
            for work in self.working:
                _stop(work) if self._signals == 1 else work.process.kill()
            if self._signals == 1:
                display.say("stopping: the cells that run are saving their state (once more kills them)")

        numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        # nohup: a terminal that closes is to be ignored.
        numbers = [n for n in numbers if n in numbers[:2] or signal.getsignal(n) != signal.SIG_IGN]
        before = {number: signal.signal(number, handler) for number in numbers}
        try:
            yield
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)
            for work in self.working:  # something failed here: nothing is left running behind the user's back
                _stop(work)


def _stop(work: Work) -> None:
    """Ask a cell, once, to save its state and end: a second time would kill it."""
    if not work.stopping:
        work.stopping = True
        work.process.terminate()
