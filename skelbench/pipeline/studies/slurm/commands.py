"""Call sbatch, squeue and scancel, and turn their failures into one error (torch-free)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection
from typing import NamedTuple

from skelbench.core.errors import SkelbenchError

NEEDED = ("sbatch", "squeue", "scontrol", "scancel")
TRIES = 4
PAUSE_SECONDS = 3.0
_NO_ANSWER = re.compile("unable to contact slurm controller|socket timed out|connection refused|communication", re.I)
_OVERRIDES = re.compile(
    r"SBATCH_(JOB_NAME|ARRAY_INX|TIMELIMIT|MEM_PER_\w+|PARTITION|OUTPUT|OPEN_MODE|SIGNAL|(NO_)?REQUEUE)"
)
"""Environment variables that would override the options of a script."""


class CommandFailed(SkelbenchError):
    """A command of SLURM failed."""


class NoAnswer(CommandFailed):
    """The controller does not answer."""


class QueuedTask(NamedTuple):
    """One line of the queue."""

    job: str
    number: str
    """Number of the task in its array; ``N/A`` for a job without one."""
    state: str
    reason: str
    node: str
    name: str

    @property
    def description(self) -> str:
        """``running (job 12_3 on n1)``, ``queued (job 12_3, Priority)``."""
        title = self.job if self.number == "N/A" else f"{self.job}_{self.number}"
        if self.state == "PENDING":
            reason = "" if self.reason in ("None", "") else f", {self.reason}"
            return f"queued (job {title}{reason})"
        return f"{self.state.lower()} (job {title}{f' on {self.node}' if self.node else ''})"


def available() -> bool:
    """Whether this machine has the commands of SLURM."""
    return all(map(shutil.which, NEEDED))


def check_available() -> None:
    """Raise SkelbenchError if a command is missing."""
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        raise SkelbenchError(
            f"--on slurm needs {missing[0]}, which is not on PATH here; run it on a login node of the cluster, or "
            "add --emit to see the script"
        )


def ask(*words: str, tries: int = TRIES) -> str:
    """Run a command and return its output; try again while the controller does not answer."""
    environment = {key: value for key, value in os.environ.items() if not _OVERRIDES.fullmatch(key)}
    try:
        process = subprocess.run(
            words, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, env=environment
        )
    except OSError as error:
        raise CommandFailed(f"{words[0]} cannot be run: {error.strerror or error}") from error
    if process.returncode == 0:
        return process.stdout
    lines = [re.sub(r"^(\w+: )?(error|fatal): ", "", line.strip()) for line in process.stderr.splitlines()]
    message = "; ".join(dict.fromkeys(filter(None, lines))) or f"exit code {process.returncode}"
    if not _NO_ANSWER.search(message):
        raise CommandFailed(f"{words[0]} failed: {message}")
    if tries <= 1:
        raise NoAnswer(f"{words[0]} failed: {message}")
    time.sleep(PAUSE_SECONDS)
    return ask(*words, tries=tries - 1)


def tasks(names: Collection[str]) -> list[QueuedTask]:
    """Queued and running tasks of the user's jobs with these names."""
    lines = ask("squeue", "-h", "-r", "-u", str(os.getuid()), "-o", "%F|%K|%T|%r|%N|%j").splitlines() if names else []
    queue = [QueuedTask(*line.split("|", 5)) for line in lines if line.count("|") >= 5]
    return [task for task in queue if task.name in names]
