"""Lock of a run's directory for one process, and removal of results before a run starts again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_json
from skelbench.core.leases import STALE_SECONDS, Busy, Lease
from skelbench.records.provenance import FIELD
from skelbench.records.run_dir import PROBES, RunDir

RESULTS = (
    "outcome", "reason", "step", "steps", "clips_seen", "train_seconds", "collapse", "shortcut", "finished",
    "uncounted", "unmoved", "train_clips", "memory", "compiled",
)  # fmt: skip
"""Fields that training adds to run.json."""
THEIRS = (FIELD, "budget")
"""Fields of run.json on the earlier training: its origin and its budget."""


@contextmanager
def alone(run: RunDir, patience: float = 1.0) -> Iterator[None]:
    """Lock ``run`` for this process, waiting at most ``patience`` seconds."""
    try:
        with run.lock(patience) as run.held:
            yield
    except Busy as error:
        raise SkelbenchError(
            f"another process is working in {run.path}; wait for it, or use another directory with --results (one that "
            f"was killed on another machine holds it for {STALE_SECONDS / 60:.0f} minutes)"
        ) from error
    finally:
        run.held = None


def clear(run: RunDir, **facts: Any) -> None:
    """Remove a run's results and provenance; keep its spec, add ``facts``. Files of observers stay.

    Raises:
        SkelbenchError: another process evaluates it.
    """
    try:
        with Lease(run.path / PROBES, 0.0):
            info_kept = {key: value for key, value in run.info.items() if key not in (*RESULTS, *THEIRS)}
            _remove(run, "eval-*", "diagnose-*")  # first: a restarted run must not keep old evaluations
            write_json(run.path / "run.json", {**info_kept, **facts, "outcome": "new"})
            _remove(run, "last.pt", "metrics.jsonl", "cost.json", "encoder*.safetensors")
    except Busy as error:
        raise SkelbenchError(
            f"another process evaluates {run.name}; wait for its end before restarting the run with --force"
        ) from error


def _remove(run: RunDir, *patterns: str) -> None:
    for pattern in patterns:
        for path in run.path.glob(pattern):
            path.unlink()
