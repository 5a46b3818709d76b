"""Probes and cost of a finished run and its controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from skelbench.core import distributed
from skelbench.core.files import write_json
from skelbench.core.spec import RunSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import for_choosing
from skelbench.pipeline.controls import control, raw_control
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.memory import memory_errors
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.resolve import Resolved
from skelbench.pipeline.session import Session
from skelbench.records.run_dir import RunDir
from skelbench.training.build import build_encoder

Records = dict[str, dict[str, Any]]
"""Evaluation records by protocol."""


@dataclass(frozen=True)
class Conclusion:
    """A finished run, its controls, what they cost."""

    pairs: list[tuple[RunDir, Records]]
    """The run, then its controls, each with its records."""
    cost: dict[str, Any] | None
    """Of the run; None where it was not counted, or could not be."""


def costed(spec: RunSpec) -> bool:
    """Whether the cost of a run is measured; no table shows the cost of a tuning trial."""
    return not for_choosing(spec.data.split)


def measure_cost(session: Session, run: RunDir, store: ClipStore, force: bool = False) -> dict[str, Any]:
    """MACs, step FLOPs, parameters, and latency and peak memory on this device; measured once per run."""
    if not force and (cost := run.cost()):
        return cost
    from skelbench.evaluation.cost.report import run_cost

    spec = run.spec
    bodies = max(store.max_bodies, 2 if spec.data.second_body == "repeat" else 1)
    encoder = session.encoders.pop(spec.id, None) or build_encoder(spec, session.host, store.topology)
    with memory_errors(f"measuring the cost of {run.name}", session.device):
        cost = run_cost(spec, session.host, encoder, session.device, bodies)
    write_json(run.cost_path, cost)
    return cost


def conclude(
    session: Session,
    run: RunDir,
    resolved: Resolved,
    protocols: Sequence[str],
    force: bool = False,
    uncounted: Callable[[Resolved, Exception], None] | None = None,
) -> Conclusion:
    """Probe a finished run, make and probe its controls, measure the cost of each; existing records are read.

    ``uncounted`` is called with each run whose cost cannot be counted, and the error.
    """

    made, costs, store = [resolved], [], resolved.store
    made += [make(resolved, session.host) for make in (control, raw_control)] if resolved.method.trains else []
    pairs: list[tuple[RunDir, Records]] = []
    for each in made:
        of = pretrain(session, each) if pairs else run
        specs = {name: eval_spec(session.host, of, name, like=resolved) for name in protocols}
        records = {name: evaluate(session, of, spec, force, resolved, store) for name, spec in specs.items()}
        pairs.append((of, records))
        session.features.clear()  # coordinates are as large as the clips
        cost = None
        if costed(of.spec):
            try:
                cost = distributed.first(partial(measure_cost, session, of, store, force))
            except Exception as error:
                if not distributed.rank():
                    of.update(uncounted=str(error) or type(error).__name__)
                if uncounted:
                    uncounted(each, error)
        costs.append(cost)
    return Conclusion(pairs, costs[0])
