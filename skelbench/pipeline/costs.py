"""The cost of a run, measured once."""

from __future__ import annotations

from typing import Any

from skelbench.core.files import write_json
from skelbench.data.store.clip_store import ClipStore
from skelbench.pipeline.session import Session
from skelbench.records.run_dir import RunDir


def measure_cost(session: Session, run: RunDir, store: ClipStore, force: bool = False) -> dict[str, Any]:
    """MACs, step FLOPs, parameters, and latency and peak memory on this device; measured once per run."""
    if not force and (cost := run.cost()):
        return cost
    from skelbench.evaluation.cost.report import run_cost
    from skelbench.pipeline.memory import memory_errors

    spec = run.spec
    bodies = max(store.max_bodies, 2 if spec.data.second_body == "repeat" else 1)
    with memory_errors(f"measuring the cost of {run.name}", session.device):
        cost = run_cost(spec, session.host, store.topology, session.device, bodies=bodies)
    write_json(run.cost_path, cost)
    return cost
