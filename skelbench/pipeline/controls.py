"""Probes and cost of a finished run and its controls: the untrained baseline, and coordinates without a network.

Each control is a run of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from skelbench.core import distributed
from skelbench.core.files import write_json
from skelbench.core.spec import RunSpec, twin_fields
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import for_choosing
from skelbench.pipeline.evaluate import eval_spec, evaluate, protocol_class
from skelbench.pipeline.memory import memory_errors
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.resolve import Resolved
from skelbench.pipeline.session import Session
from skelbench.pipeline.settings import NO_PATCH, still
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host
from skelbench.plugin.plugin_errors import plugin_code
from skelbench.records.run_dir import RunDir
from skelbench.training.build import build_encoder

Records = dict[str, dict[str, Any]]
"""Evaluation records by protocol."""


@dataclass(frozen=True)
class Conclusion:
    """A finished run and its controls with their records, and the cost of the run."""

    pairs: list[tuple[RunDir, Records]]
    """The run, then its baselines, each with its records."""
    cost: dict[str, Any] | None
    """Cost of the run; None if it was not or could not be counted."""


def costed(spec: RunSpec) -> bool:
    """Whether the cost of a run is measured; it is skipped for tuning trials, because no table shows it."""
    return not for_choosing(spec.data.split)


def measure_cost(session: Session, run: RunDir, store: ClipStore, force: bool = False) -> dict[str, Any]:
    """MACs, step FLOPs, parameters, and latency and peak memory on this device; measured once per run."""
    spec = run.spec
    encoder = session.encoders.pop(spec.id, None)
    if not force and (cost := run.cost()):
        return cost
    from skelbench.evaluation.cost.report import run_cost

    bodies = max(store.max_bodies, 2 if spec.data.second_body == "repeat" else 1)
    encoder = encoder or build_encoder(spec, session.host, store.topology)
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
    group, costs, store = [resolved], [], resolved.store
    group += [make(resolved, session.host) for make in (control, raw_control)] if resolved.method.trains else []
    pairs: list[tuple[RunDir, Records]] = []
    for member in group:
        member_run = pretrain(session, member) if pairs else run
        specs = {name: eval_spec(session.host, member_run, name, like=resolved) for name in protocols}
        records = {name: evaluate(session, member_run, spec, force, resolved, store) for name, spec in specs.items()}
        pairs.append((member_run, records))
        session.features.clear()  # coordinates are as large as the clips
        cost = None
        if costed(member_run.spec):
            try:
                cost = distributed.first(partial(measure_cost, session, member_run, store, force))
            except Exception as error:
                if not distributed.rank():
                    member_run.update(uncounted=str(error) or type(error).__name__)
                if uncounted:
                    uncounted(member, error)
        costs.append(cost)
    return Conclusion(pairs, costs[0])


def check_protocols(session: Session, resolved: Resolved, protocols: Sequence[str]) -> None:
    """Raise :class:`SkelbenchError`, before anything is trained, if a protocol cannot evaluate these data."""
    for name in protocols:
        spec = eval_spec(session.host, resolved, name)
        split = resolved.store.split(spec.data.split, spec.data.min_frames)
        protocol = protocol_class(session.host, name).model_validate(spec.protocol_config)
        with plugin_code(protocol.check, "(train, test, classes)"):
            protocol.check(len(split.train), len(split.test), resolved.store.num_classes)


def control(resolved: Resolved, host: Host) -> Resolved:
    """The untrained baseline: same encoder, grid, data, precision and seed, no training; the run that `skelbench run
    untrained` makes."""
    spec, method = resolved.spec, host.get("methods", "untrained")
    sections = {"train": still(spec.train.precision), "components": _topology(spec)}
    baseline = RunSpec(**_method(host, method), **sections, **twin_fields(spec))
    # The untrained baseline has no variant: encoder settings of a variant become changes of its preset.
    changed = {
        key: value
        for key, value in resolved.from_preset.items()
        if key.startswith("encoder.") or key == "train.precision"
    }
    shared = resolved.preset, changed, method, resolved.encoder, resolved.store
    return Resolved(baseline, *shared, setting=resolved.setting)


def raw_control(resolved: Resolved, host: Host) -> Resolved:
    """The run of the control ``raw`` on the same data and clip length: the one that ``skelbench run raw`` makes."""
    spec, method = resolved.spec, host.get("methods", "raw")
    encoder = host.get("encoders", method.recipe["encoder"])
    run = RunSpec(
        **_method(host, method),
        encoder=encoder.name,
        encoder_version=encoder.version,
        encoder_source=host.origin(encoder).source_hash,
        components=_topology(spec),
        grid=spec.grid.model_copy(update=NO_PATCH),
        data=spec.data,
        train=still("fp32"),
    )
    return Resolved(run, resolved.preset, {}, method, encoder, resolved.store)


def _method(host: Host, method: MethodSpec) -> dict[str, Any]:
    """A control's part of the run spec."""
    return {
        "method": method.name,
        "method_version": method.version,
        "method_source": host.origin(method).source_hash,
        "method_config": host.config(method)().model_dump(mode="json"),
    }


def _topology(spec: RunSpec) -> dict[str, str]:
    """Skeleton among the components of a run: the only component that a baseline shares."""
    return {name: version for name, version in spec.components.items() if name.startswith("topologies ")}
