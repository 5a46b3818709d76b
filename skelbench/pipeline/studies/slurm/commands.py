"""Call sbatch, squeue, scontrol, scancel and sinfo, and turn their failures into one error (torch-free)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.studies.slurm.script import seconds_of

NEEDED = ("sbatch", "squeue", "scontrol", "scancel", "sinfo")
TRIES = 4
PAUSE_SECONDS = 3.0
DEFAULT_ARRAY = 1001
"""SLURM's default of MaxArraySize."""
MOST = 1000
"""Most trials of one script."""
_NO_ANSWER = (
    "unable to contact slurm controller",
    "socket timed out",
    "connection refused",
    "communication connection",
)
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
    """Run a command and return its output; retry while the controller does not answer."""
    for _ in range(tries - 1):
        try:
            return _run(words)
        except NoAnswer:
            time.sleep(PAUSE_SECONDS)
    return _run(words)


def _run(words: Sequence[str]) -> str:
    environment = {key: value for key, value in os.environ.items() if not _OVERRIDES.fullmatch(key)}
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, env=environment
        )
    except OSError as error:
        raise CommandFailed(f"{words[0]} cannot be run: {error.strerror or error}") from error
    if done.returncode == 0:
        return done.stdout
    lines = [re.sub(r"^(\w+: )?(error|fatal): ", "", line.strip()) for line in done.stderr.splitlines()]
    message = "; ".join(dict.fromkeys(filter(None, lines))) or f"exit code {done.returncode}"
    no_answer = any(sign in message.lower() for sign in _NO_ANSWER)
    raise (NoAnswer if no_answer else CommandFailed)(f"{words[0]} failed: {message}")


def tasks(names: Collection[str]) -> list[QueuedTask]:
    """Queued and running tasks of the user's jobs with these names."""
    lines = ask("squeue", "-h", "-r", "-u", str(os.getuid()), "-o", "%F|%K|%T|%r|%N|%j").splitlines() if names else []
    queue = [QueuedTask(*line.split("|", 5)) for line in lines if line.count("|") >= 5]
    return [task for task in queue if task.name in names]


def array_size() -> int:
    """Most tasks of an array, numbered from 1."""
    limit = re.search(r"MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config")) if available() else None
    largest = int(limit[1]) if limit else DEFAULT_ARRAY
    if largest < 2:
        raise SkelbenchError("this SLURM has no job arrays (MaxArraySize is 0); ask its administrators for them")
    return min(largest - 1, MOST)


def partition_limit(partition: str | None) -> int | None:
    """Time limit of the partition (None: the default one) in seconds, None if there is no limit."""
    for line in ask("sinfo", "-h", "-o", "%P|%l").splitlines() if available() else ():
        name, _, limit = line.partition("|")
        if name.rstrip("*") == partition or (partition is None and name.endswith("*")):
            with_hours = limit if limit.count(":") == 2 else f"0:{limit}"
            return seconds_of(with_hours) if re.fullmatch(r"[\d:-]+", limit) else None
    return None
