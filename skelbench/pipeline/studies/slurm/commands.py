"""sbatch, squeue, scontrol, scancel and sinfo: called, and what they say in one sentence (torch-free)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.studies.slurm.resources import seconds_of

NEEDED = ("sbatch", "squeue", "scontrol", "scancel", "sinfo")
TRIES = 4
PAUSE_SECONDS = 3.0
USUAL_ARRAY = 1001
"""SLURM's own default of MaxArraySize."""
MOST_ARRAY = 1000
"""Trials of one script, whatever the limit: more would be hard to read."""
MOST_NAMES = 1000
"""Of jobs that squeue is asked for at once: a word of a command has at most 128 KiB."""
_AWAY = ("unable to contact slurm controller", "socket timed out", "connection refused", "communication connection")
_OURS = re.compile(r"SBATCH_(JOB_NAME|ARRAY_INX|TIMELIMIT|MEM_PER_\w+|PARTITION|OUTPUT|OPEN_MODE|SIGNAL|(NO_)?REQUEUE)")
"""Variables that would take the place of what a script says."""


class Refused(SkelbenchError):
    """A command of SLURM failed."""


class Away(Refused):
    """The controller does not answer: nothing is known."""


class Task(NamedTuple):
    """One line of the queue."""

    job: str
    number: str
    """Of the task in its array; ``N/A`` for a job without one."""
    state: str
    reason: str
    node: str
    name: str

    @property
    def title(self) -> str:
        """``12_3``."""
        return self.job if self.number == "N/A" else f"{self.job}_{self.number}"

    @property
    def words(self) -> str:
        """``running (job 12_3 on n1)``."""
        if self.state == "PENDING":
            held = "" if self.reason in ("None", "") else f", {self.reason}"
            return f"queued (job {self.title}{held})"
        return f"{self.state.lower()} (job {self.title}{f' on {self.node}' if self.node else ''})"


def here() -> bool:
    """Whether SLURM can be asked from this machine."""
    return all(map(shutil.which, NEEDED))


def check_here() -> None:
    """SkelbenchError if it cannot."""
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        raise SkelbenchError(
            f"--on slurm needs {missing[0]}, which is not on PATH here; issue it on a login node of the cluster, or "
            "add --emit to see the script"
        )


def ask(*words: str, tries: int = TRIES) -> str:
    """What a command prints; a controller that does not answer is asked again."""
    for _ in range(tries - 1):
        try:
            return _once(words)
        except Away:
            time.sleep(PAUSE_SECONDS)
    return _once(words)


def _once(words: Sequence[str]) -> str:
    try:
        kept = {key: value for key, value in os.environ.items() if not _OURS.fullmatch(key)}
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, env=kept
        )
    except OSError as error:
        raise Refused(f"{words[0]} cannot be run: {error.strerror or error}") from error
    if done.returncode == 0:
        return done.stdout
    lines = [re.sub(r"^(\w+: )?(error|fatal): ", "", line.strip()) for line in done.stderr.splitlines()]
    said = "; ".join(dict.fromkeys(filter(None, lines))) or f"exit code {done.returncode}"
    away = any(sign in said.lower() for sign in _AWAY)
    raise (Away if away else Refused)(f"{words[0]} refused: {said}")


def tasks(names: Sequence[str]) -> list[Task]:
    """What of the jobs of these names is in the queue, a line for each task of an array."""
    lines: list[str] = []
    for start in range(0, len(names), MOST_NAMES):
        wanted = ",".join(names[start : start + MOST_NAMES])
        lines += ask("squeue", "-h", "-r", f"--name={wanted}", "-o", "%F|%K|%T|%r|%N|%j").splitlines()
    return [Task(*line.split("|", 5)) for line in lines if line.count("|") >= 5]


def array_size() -> int:
    """How many tasks an array may have, numbered from 1."""
    found = re.search(r"MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config")) if here() else None
    largest = int(found[1]) if found else USUAL_ARRAY
    if largest < 2:
        raise SkelbenchError("this SLURM has no job arrays (MaxArraySize is 0); ask its administrators for them")
    return min(largest - 1, MOST_ARRAY)


def partition_limit(partition: str | None) -> int | None:
    """Seconds that a job of the partition, or of the default one, may take; None without a limit."""
    if not here():
        return None
    for line in ask("sinfo", "-h", "-o", "%P|%l").splitlines():
        name, _, limit = line.partition("|")
        if name.rstrip("*") == partition or (partition is None and name.endswith("*")):
            try:
                return seconds_of(limit if limit.count(":") == 2 else f"0:{limit}")
            except SkelbenchError:
                return None  # infinite, or not set
    return None


def only_this_machine() -> bool:
    """Whether all nodes are this machine, which sees every folder of its own."""
    names = set(ask("sinfo", "-h", "-N", "-o", "%n").split())
    return names <= {os.uname().nodename.partition(".")[0], os.uname().nodename}
