"""``skelbench run --dry-run``: the resolved spec, ids, parameters, cost and time, without training."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skelbench.cli.runs import differences, short
from skelbench.cli.summary import print_header
from skelbench.core.console import duration, make_table, out, print_facts
from skelbench.core.text import setting_text
from skelbench.evaluation.cost import BODIES
from skelbench.pipeline.controls import control, raw_control
from skelbench.pipeline.evaluate import eval_spec
from skelbench.pipeline.request import CHOICES
from skelbench.pipeline.resolve import Resolved
from skelbench.pipeline.session import Session


def show(every: Sequence[Resolved], protocols: list[str], session: Session, as_json: bool, as_list: bool) -> None:
    """Print the plan of each run; a few steps on a small batch are timed, nothing is written.

    ``as_json``: print only JSON, of a single run as a list if ``as_list``.
    """
    plans = []
    for resolved in every:
        if not as_json:
            print_header(resolved, session.device)
            _print_settings(resolved)
        plans.append(planned(resolved, protocols, session))
        if not as_json:
            print_facts(list(_facts(plans[-1])))
    if as_json:
        out.print(json.dumps(plans if as_list else plans[0], indent=2), soft_wrap=True)


def planned(resolved: Resolved, protocols: list[str], session: Session) -> dict[str, Any]:
    """Plan of a run as plain data; ``training`` is None for a method that does not train."""
    from skelbench.evaluation.cost.report import step_cost
    from skelbench.pipeline.pace import estimate
    from skelbench.training.build import meta_method, parameters

    spec, host = resolved.spec, session.host
    run = session.results.by_id(spec.id)
    alike = [] if run else [other for other in session.results.numbered()[::-1] if other.spec.method == spec.method]
    changed = [(other.name, differences(other.spec, spec)) for other in alike]
    facts: dict[str, Any] = {
        "id": spec.id,
        "state": run.outcome if run else "new",
        "directory": str(run.path) if run else None,
        "nearest": min(changed, key=lambda entry: len(entry[1]), default=None),
        "method": resolved.title,
        "preset": resolved.preset,
        "setting": resolved.setting,
        "modified": dict(resolved.modified),
        "budget": resolved.length.record() if resolved.length else None,
        "notes": list(resolved.notes),
        "evaluations": {name: eval_spec(host, resolved, name).id for name in protocols},
        "controls": {},
        "parameters": dict(parameters(meta_method(spec, host, resolved.store.topology))),
        "training": None,
        "spec": spec.model_dump(mode="json"),
    }
    if not resolved.method.trains:
        return facts
    controls = [make(resolved, host).spec for make in (control, raw_control)]
    facts["controls"] = {control.method: control.id for control in controls}
    step = step_cost(spec, host, resolved.store.topology)
    guess = estimate(spec, host, resolved.store, session.device, step["flops_per_clip"])
    clips, flops = guess.steps * spec.train.batch_size, BODIES * step["flops_per_clip"]
    facts["training"] = {
        "steps": guess.steps,
        "clips": clips,
        "batch_size": spec.train.batch_size,
        "bodies": BODIES,
        "flops_per_clip": flops,
        "flops": clips * flops,
        "seconds": guess.seconds,
        "device": session.device,
        "basis": guess.basis,
    }
    return facts


def _facts(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of a plan that neither the header nor the settings show."""
    spec, counts = plan["spec"], plan["parameters"]
    components = [f"{name} {version}" for name, version in spec["components"].items()]
    for part in ("method", "encoder"):
        source = spec[f"{part}_source"]
        components.append(
            f"{part} {spec[part]} {spec[f'{part}_version']}" + (f" (file {source[:12]})" if source else "")
        )
    yield "component versions", ", ".join(components)
    yield "pretrain id", f"{plan['id']} ({plan['state']}{': ' + plan['directory'] if plan['directory'] else ''})"
    if plan["nearest"]:
        run, changed = plan["nearest"]
        shown = [f"{key} {' -> '.join(map(short, values))}" for key, values in [*changed.items()][:3]]
        yield "nearest run", f"{run} differs in {', '.join(shown)}{', ...' if len(changed) > 3 else ''}"
    for name, evaluation in plan["evaluations"].items():
        yield f"eval id, {name}", evaluation
    yield "controls", ", ".join(f"{name} {control}" for name, control in plan["controls"].items())
    yield "parameters", f"encoder {counts['encoder']:,}, trainable {counts['trainable']:,}"
    if training := plan["training"]:
        giga = f"{training['flops_per_clip'] / 1e9:.2f} GFLOPs per clip with two bodies"
        yield "training step", f"{giga}, {training['flops']:.3g} FLOPs in all".replace("e+", "e")
        yield "schedule", f"{training['steps']:,} steps of {training['batch_size']} clips, {training['clips']:,} clips"
        time = f"about {duration(training['seconds'])} of training on {training['device']}"
        yield "time", f"{time} ({training['basis']})"


def _print_settings(resolved: Resolved) -> None:
    """Print every setting with its value in the preset if that differs, then a table of the views."""
    spec, rows, last = resolved.spec.model_dump(mode="json"), [], ""
    spec["data"]["fingerprint"] = spec["data"]["fingerprint"][:12]
    for section in ("method", *CHOICES, "train", "grid", "data", "init_from", "imported"):
        values = spec[f"{section}_config"] if f"{section}_config" in spec else spec[section]
        if section in CHOICES and section != "encoder" and not resolved.spec.views:
            continue
        named = values if isinstance(values, Mapping) else {}
        own = {} if spec[section] is None or values is spec[section] is named else {"": spec[section]}
        for name, value in {**own, **named}.items():
            key = f"{section}.{name}" if name else section
            preset = setting_text(resolved.usual[key]) if key in resolved.usual else ""
            rows.append(("" if section == last else section, name, setting_text(value), preset))
            last = section
    views = spec["views"]
    parts = list(next(iter(views.values()))) if views else []
    unlike = [part for part in parts if len({setting_text(view[part]) for view in views.values()}) > 1]
    rows += [
        ("every view", part, setting_text(next(iter(views.values()))[part]), "") for part in parts if part not in unlike
    ]
    columns = ["", "setting", "value", *([f"preset {resolved.preset} has"] if resolved.usual else [])]
    out.print(make_table(columns, [row[: len(columns)] for row in rows]))
    if unlike:
        cells = [(name, *(setting_text(view[part]) for part in unlike)) for name, view in views.items()]
        out.print(make_table(("view", *unlike), cells))
