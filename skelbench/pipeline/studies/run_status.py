"""Progress of a run in another process, read from its directory (torch-free)."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from skelbench.core.console import AGAIN
from skelbench.records.metrics import is_figure
from skelbench.records.run_dir import RunDir

_TAIL = 16_384
"""Bytes at the end of a metrics file that hold its last line."""


def last_metrics(run: RunDir) -> dict[str, Any]:
    """The last whole line of metrics.jsonl; empty when there is none, or it is damaged."""
    try:
        with open(run.metrics, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            lines = file.read().split(b"\n")[:-1]  # what follows the last newline is being written
        line = json.loads(lines[-1]) if lines else {}
        return line if isinstance(line, dict) and all(map(is_figure, line.values())) else {}
    except (OSError, ValueError):
        return {}


def trained(run: RunDir, clips: int) -> float:
    """Fraction of a training of ``clips`` clips that is done, 0..1, according to the log."""
    return min(1.0, (last_metrics(run).get("clips_seen") or 0) / clips) if clips else 0.0


def at_work(run: RunDir) -> bool:
    """Whether a process works in ``run``, on any machine; the lock is not taken."""
    return run.lock().held()


def outcome_now(run: RunDir) -> str:
    """Return the outcome of ``run``; ``interrupted`` if run.json says ``running`` but no process works in it."""
    if run.outcome != "running":
        return run.outcome
    return "running" if at_work(run) else "interrupted"


def why_failed(code: int, log: Path) -> str:
    """Return why a process that ended with ``code`` (minus a signal's number) failed, from the end of its ``log``."""
    if code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    lines = log.read_bytes().decode(errors="replace").splitlines()
    issued = max((place for place, line in enumerate(lines) if line.startswith("$ skelbench")), default=0)
    errors = [line.removeprefix("error: ").removesuffix(AGAIN) for line in lines[issued:] if line.startswith("error: ")]
    return errors[-1] if errors else f"it ended with exit code {code}"
