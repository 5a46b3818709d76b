"""The end of a sitting of a trial that did not finish: whether its task goes back into the queue (torch-free).

    python -m skelbench.pipeline.studies.slurm.requeue LOGS CELL TWIN JOB CODE [yes]

Called by the array's script; exit code 0: it shall be requeued. A trial that was stopped is requeued as long as it gets
on: after :data:`IDLE` sittings in a row in which nothing of it was written, it fails. ``yes``: the script was asked to
stop.
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
"""Exit codes of a trial that was stopped, as a shell sees them."""
_NO_PROGRESS = ("run.json", "metrics.jsonl")
"""Written in every sitting, whether it gets on or not."""


def record_of(logs: Path, id_: str) -> Path:
    """Where is kept how the sittings of a trial ended."""
    return logs / "slurm" / f"cell-{id_}.json"


def read_record(logs: Path, id_: str) -> dict[str, Any]:
    """Of a trial without any, or with a damaged one: empty."""
    with suppress(OSError, ValueError):
        if isinstance(record := read_json(record_of(logs, id_)), dict):
            return record
    return {}


def main(words: Sequence[str]) -> int:
    """Exit code 0 if the task shall be requeued, else 1."""
    place, cell, twin, job, code, *stopping = words
    logs, id_ = Path(place), cell.rpartition("-")[2]
    store = ResultStore(logs.parent.parent)
    run = store.by_id(id_)
    stopped = bool(stopping) or int(code) in STOPPED
    if run is not None and at_work(run):
        if not stopped and _left(run):
            return 0
        print(f"{cell}: another command works on it")
        return 1
    if stopped and not _runs_on(job):
        print(f"{cell}: stopped; SLURM has decided whether job {job} goes back into the queue")
        return 1
    record = read_record(logs, id_)
    if stopped:
        mark = progress([run, store.by_id(twin) if twin else None])
        idle = 0 if mark != record.get("mark", 0) else record.get("idle", 0) + 1
        record = {"mark": mark, "idle": idle}
        failure = idle >= IDLE and (
            f"it was stopped in {IDLE} sittings in a row before anything was saved; give each more --time"
        )
    else:
        killed = int(code) - 128 in {*signal.Signals}
        failure = why_failed(128 - int(code) if killed else int(code), logs / f"{cell}.log")
    write_json(
        record_of(logs, id_),
        record | {"job": job, "code": int(code), "when": time.time()} | ({"failure": failure} if failure else {}),
    )
    if not failure:
        return 0
    if run is not None and run.outcome in ("new", "running", "interrupted"):
        run.update(outcome="failed", reason=failure)
    print(f"{cell}: {failure}")
    return 1


def progress(runs: Sequence[RunDir | None]) -> int:
    """When something was last written of what a trial makes, in the file server's nanoseconds; 0 for nothing."""
    made = [path for run in runs if run for path in run.path.iterdir() if path.name[0] != "."]
    return max(
        (path.stat().st_mtime_ns for path in made if path.is_file() and path.name not in _NO_PROGRESS), default=0
    )


def _left(run: RunDir) -> bool:
    """Whether who holds the run does so no longer after a while: a node that was lost, whose task SLURM gave to
    another, holds it for :data:`~skelbench.core.leases.STALE_SECONDS`."""
    end = time.monotonic() + PATIENCE
    while at_work(run):
        if time.monotonic() > end:
            return False
        time.sleep(1)
    return True


def _runs_on(job: str) -> bool:
    """Whether the task still runs, or ends for its time limit alone: of one that was cancelled, or is requeued by SLURM
    itself, the state is another."""
    with suppress(SkelbenchError):  # a controller that is away may be back for the requeue
        state, _, reason = commands.ask("squeue", "-h", "-j", job, "-o", "%T|%r").strip().partition("|")
        return state == "RUNNING" or reason == "TimeLimit"
    return True


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (SkelbenchError, OSError) as problem:
        print(f"error: {problem}")
        sys.exit(1)
