"""The process of one trial: its progress, how it is stopped, why it failed."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.leases import Lease
from skelbench.pipeline.session import Session
from skelbench.pipeline.studies.run_status import last_metrics, why_failed
from skelbench.pipeline.studies.trials import Trial
from skelbench.records.run_dir import RunDir


@dataclass
class Work:
    """A process of ``skelbench run`` for ``trial`` that writes to ``log``."""

    trial: Trial
    claim: Lease
    """Lock against other studies."""
    process: subprocess.Popen[bytes]
    log: Path
    share_before: float
    share: float
    started: float = field(default_factory=time.monotonic)
    line: dict[str, Any] = field(default_factory=dict)
    """Last line of metrics of this process."""
    stage: str = "starting"
    run: RunDir | None = None
    stopping: bool = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def update(self, session: Session) -> None:
        """Read the progress from the run directory; a missing or damaged one is reported by the process itself."""
        with suppress(SkelbenchError, OSError):
            self._update(session)

    def _update(self, session: Session) -> None:
        self.run = run = self.run or session.results.by_id(self.trial.id)
        if run is None:
            return
        outcome = run.outcome
        if run.metrics.exists() and run.metrics.stat().st_mtime > time.time() - self.seconds:
            self.line = last_metrics(run)  # written by this process
        if outcome == "done":
            self.share, self.stage = 1.0, "probing"
        elif outcome == "running" and self.line:
            self.share, self.stage = min(1.0, self.line["clips_seen"] / self.trial.clips), "training"

    def stop(self) -> None:
        """Ask the process once to save its state and end; a second signal would kill it."""
        if not self.stopping:
            self.stopping = True
            self.process.terminate()

    def record_failure(self, failure: str) -> None:
        """Write to run.json why the process was killed."""
        with suppress(SkelbenchError, OSError):
            if self.run is not None and self.run.outcome in ("new", "running"):
                self.run.update(outcome="failed", reason=failure)

    def failure(self, code: int, session: Session) -> str | None:
        """Why a process that ended with ``code`` failed; None if it succeeded."""
        if code == 0:
            try:
                run = session.results.by_id(self.trial.id)
                finished = run is not None and run.outcome == "done"
            except SkelbenchError as error:
                return str(error)
            return None if finished else f"it ended without a finished run {self.trial.id}"
        return why_failed(code, self.log)
