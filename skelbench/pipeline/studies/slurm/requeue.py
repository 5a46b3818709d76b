"""Decide at the end of a task whether it goes back into the queue (torch-free).

    python -m skelbench.pipeline.studies.slurm.requeue LOGS TRIAL BASELINE JOB CODE [yes]

The script of an array calls it; exit code 0 means requeue. A stopped trial is requeued while it makes progress; after
``IDLE`` attempts in a row that saved nothing it fails. ``yes``: the script was asked to stop.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_json
from skelbench.core.leases import STALE_SECONDS
from skelbench.core.signals import AGAIN_LATER
from skelbench.pipeline.studies.run_status import at_work, why_failed
from skelbench.pipeline.studies.slurm import commands
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore

IDLE = 3
PATIENCE = STALE_SECONDS + 15
STOPPED = (AGAIN_LATER, 130, *(128 + number for number in (signal.SIGTERM, getattr(signal, "SIGUSR2", signal.SIGTERM))))
"""Exit codes of a stopped trial, as a shell sees them."""
_NO_PROGRESS = ("run.json", "metrics.jsonl")
"""Files that every attempt writes."""


def record_path(logs: Path, id_: str) -> Path:
    """Path of the record of how the attempts of a trial ended."""
    return logs / "slurm" / f"cell-{id_}.json"


def read_record(logs: Path, id_: str) -> dict[str, Any]:
    """Read the record of a trial; empty if there is none, or it is damaged."""
    with suppress(OSError, ValueError):
        if isinstance(record := read_json(record_path(logs, id_)), dict):
            return record
    return {}


def main(words: Sequence[str]) -> int:
    """Return exit code 0 to requeue the task, else 1."""
    folder, name, baseline, job, code, *stopping = words
    logs, id_ = Path(folder), name.rpartition("-")[2]
    store = ResultStore(logs.parent.parent)
    run = store.by_id(id_)
    stopped = bool(stopping) or int(code) in STOPPED
    if run is not None and at_work(run):
        if not stopped and _is_released(run):
            return 0
        print(f"{name}: another command works on it")
        return 1
    if stopped and not _ends_by_time_limit(job):
        print(f"{name}: stopped; SLURM decides whether job {job} is requeued")
        return 1
    record = read_record(logs, id_)
    if stopped:
        mark = last_saved([run, store.by_id(baseline) if baseline else None])
        idle = 0 if mark != record.get("mark", 0) else record.get("idle", 0) + 1
        record = {"mark": mark, "idle": idle}
        failure = f"stopped {IDLE} times in a row before anything was saved; give more --time" if idle >= IDLE else ""
    else:
        killed = int(code) - 128 in {*signal.Signals}
        failure = why_failed(128 - int(code) if killed else int(code), logs / f"{name}.log")
    record |= {"job": job, "code": int(code), "when": time.time()} | ({"failure": failure} if failure else {})
    write_json(record_path(logs, id_), record)
    if not failure:
        return 0
    if run is not None and run.outcome in ("new", "running", "interrupted"):
        run.update(outcome="failed", reason=failure)
    print(f"{name}: {failure}")
    return 1


def last_saved(runs: Sequence[RunDir | None]) -> int:
    """Time of the last file that a trial saved, in nanoseconds of the file server; 0 if there is none."""
    files = [path for run in runs if run for path in run.path.iterdir() if path.name[0] != "." and path.is_file()]
    return max((path.stat().st_mtime_ns for path in files if path.name not in _NO_PROGRESS), default=0)


def _is_released(run: RunDir) -> bool:
    """Wait until a lost node holds the run no longer; False if another command really works on it."""
    end = time.monotonic() + PATIENCE
    while at_work(run):
        if time.monotonic() > end:
            return False
        time.sleep(1)
    return True


def _ends_by_time_limit(job: str) -> bool:
    """Whether the task still runs or reached its time limit; a cancelled or requeued one has another state."""
    with suppress(SkelbenchError):  # a controller that is away now may be back for the requeue
        state, _, reason = commands.ask("squeue", "-h", "-j", job, "-o", "%T|%r").strip().partition("|")
        return state == "RUNNING" or reason == "TimeLimit"
    return True


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (SkelbenchError, OSError) as problem:
        print(f"error: {problem}")
        sys.exit(1)
