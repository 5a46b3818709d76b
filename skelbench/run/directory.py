"""One process at a time works in a run's directory; a step that is done anew begins with an empty one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from skelbench.errors import SkelbenchError
from skelbench.files import write_json
from skelbench.locks import Busy
from skelbench.results.store import RunDir

RESULTS = ("outcome", "reason", "step", "steps", "clips_seen", "train_seconds", "collapse", "shortcut", "finished")
"""What training adds to run.json."""


@contextmanager
def alone(run: RunDir, patience: float = 1.0) -> Iterator[None]:
    """No other process works in ``run`` meanwhile; one that only looks in, or makes an untrained twin, is waited for
    (at most ``patience`` seconds)."""
    try:
        with run.lock(patience):
            yield
    except Busy as error:
        raise SkelbenchError(
            f"another process is working in {run.path}; wait for it, or use another directory with --results"
        ) from error


def clear(run: RunDir) -> None:
    """Forget a run's results, keep its spec; files that are not ours (an observer's) stay."""
    facts = {key: value for key, value in run.info.items() if key not in RESULTS}
    write_json(run.path / "run.json", {**facts, "outcome": "new"})
    for pattern in ("last.pt", "metrics.jsonl", "cost.json", "encoder*.safetensors", "eval-*", "diagnose-*"):
        for path in run.path.glob(pattern):
            path.unlink()
