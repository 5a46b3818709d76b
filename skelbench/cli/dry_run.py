"""``skelbench run --dry-run``: the resolved spec, ids, parameters, cost, memory and time, without training."""

from __future__ import annotations

import json

from skelbench.console import duration, out, print_facts
from skelbench.run.evaluate import eval_spec
from skelbench.run.resolve import Resolved, control, raw_control
from skelbench.run.session import Session


def show(resolved: Resolved, protocols: list[str], session: Session) -> None:
    """Print what the run would do; measures a few steps on a small batch for the estimate, writes nothing."""
    from skelbench.cost.report import step_cost
    from skelbench.run.estimate import estimate
    from skelbench.train.build import build_method, parameters

    spec = resolved.spec
    out.print_json(json.dumps(spec.model_dump(mode="json")))
    run = session.results.by_id(spec.id)
    facts = [("pretrain id", f"{spec.id} ({run.outcome + ': ' + str(run.path) if run else 'new'})")]
    facts += [(f"eval id, {name}", eval_spec(session.host, spec, name).id) for name in protocols]
    if resolved.method.trains:
        controls = (make(resolved, session.host).spec for make in (control, raw_control))
        facts.append(("controls", ", ".join(f"{spec.method} {spec.id}" for spec in controls)))
    counts = parameters(build_method(spec, session.host, resolved.store.topology, "meta"))
    facts.append(("parameters", f"encoder {counts['encoder']:,}, trainable {counts['trainable']:,}"))
    if resolved.method.trains:
        step = step_cost(spec, session.host, resolved.store.topology)
        guess = estimate(spec, session.host, resolved.store, session.device, step["flops_per_clip"])
        flops = step["flops_per_clip"] / 1e9
        facts += [
            ("training step", f"{2 * flops:.2f} GFLOPs per clip with two bodies"),
            ("schedule", f"{guess.steps:,} steps of {spec.train.batch_size} clips"),
            ("memory", f"about {guess.memory_bytes / 2**30:.1f} GiB ({guess.basis})"),
            ("time", f"about {duration(guess.seconds)} of training on {session.device} ({guess.basis})"),
        ]
    print_facts(facts)
