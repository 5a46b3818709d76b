"""``skelbench run --dry-run``: the resolved spec, ids, parameters, cost and time, without training."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skelbench.cli.summary import print_header
from skelbench.core.console import duration, make_table, out, print_facts
from skelbench.core.spec import RunSpec
from skelbench.core.text import setting_text
from skelbench.evaluation.cost import BODIES
from skelbench.pipeline.controls import control, raw_control
from skelbench.pipeline.evaluate import eval_spec
from skelbench.pipeline.request import CHOICES
from skelbench.pipeline.resolve import Resolved
from skelbench.pipeline.session import Session


def show(every: Sequence[Resolved], protocols: list[str], session: Session, as_json: bool, as_list: bool) -> None:
    """Print what the runs would do; measures a few steps on a small batch for the estimates, writes nothing.

    ``as_json``: nothing else on stdout; ``as_list``: also of a single run in a list.
    """
    found = []
    for resolved in every:
        if not as_json:
            print_header(resolved, session.device)
            _print_settings(resolved)
        facts = planned(resolved, protocols, session)
        found.append(facts)
        if not as_json:
            print_facts(list(_told(facts)))
    if as_json:
        out.print(json.dumps(found if as_list else found[0], indent=2), soft_wrap=True)


def planned(resolved: Resolved, protocols: list[str], session: Session) -> dict[str, Any]:
    """What a run would be, as plain data; ``training``: None for a method that does not train."""
    from skelbench.evaluation.cost.report import step_cost
    from skelbench.pipeline.estimate import estimate
    from skelbench.training.build import build_method, parameters

    spec, host = resolved.spec, session.host
    run = session.results.by_id(spec.id)
    facts: dict[str, Any] = {
        "id": spec.id,
        "state": run.outcome if run else "new",
        "directory": str(run.path) if run else None,
        "method": resolved.title,
        "preset": resolved.preset,
        "setting": resolved.setting,
        "modified": dict(resolved.modified),
        "budget": resolved.length.record() if resolved.length else None,
        "notes": list(resolved.notes),
        "evaluations": {name: eval_spec(host, resolved, name).id for name in protocols},
        "controls": {},
        "parameters": dict(parameters(build_method(spec, host, resolved.store.topology, "meta"))),
        "training": None,
        "spec": spec.model_dump(mode="json"),
    }
    if not resolved.method.trains:
        return facts
    facts["controls"] = {
        beside.method: beside.id for beside in (m(resolved, host).spec for m in (control, raw_control))
    }
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


def _told(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The same in words, but for what the header and the settings say."""
    where = f"{facts['state']}: {facts['directory']}" if facts["directory"] else "new"
    made = [f"{name} {version}" for name, version in facts["spec"]["components"].items()]
    yield "made with", ", ".join([*made, *_versions(facts["spec"])])
    yield "pretrain id", f"{facts['id']} ({where})"
    for name, known in facts["evaluations"].items():
        yield f"eval id, {name}", known
    yield "controls", ", ".join(f"{name} {known}" for name, known in facts["controls"].items())
    counts = facts["parameters"]
    yield "parameters", f"encoder {counts['encoder']:,}, trainable {counts['trainable']:,}"
    if training := facts["training"]:
        giga = f"{training['flops_per_clip'] / 1e9:.2f} GFLOPs per clip with two bodies"
        yield "training step", f"{giga}, {training['flops']:.3g} FLOPs in all".replace("e+", "e")
        yield "schedule", f"{training['steps']:,} steps of {training['batch_size']} clips, {training['clips']:,} clips"
        time = f"about {duration(training['seconds'])} of training on {training['device']}"
        yield "time", f"{time} ({training['basis']})"


def _versions(spec: Mapping[str, Any]) -> Iterator[str]:
    """Of method and encoder: ``method mine 1 (file 3f2a...)``."""
    for part in ("method", "encoder"):
        source = spec[f"{part}_source"]
        yield f"{part} {spec[part]} {spec[f'{part}_version']}" + (f" (file {source[:12]})" if source else "")


def _print_settings(resolved: Resolved) -> None:
    """All that decides the run, section by section, and what differs from the preset; views as a table of their own."""
    rows, before = [], ""
    for section, name, value in _settings(resolved.spec):
        key = f"{section}.{name}" if name else section
        usual = setting_text(resolved.usual[key]) if key in resolved.usual else ""
        rows.append(("" if section == before else section, name, setting_text(value), usual))
        before = section
    last = f"preset {resolved.preset} has" if resolved.usual else ""
    out.print(make_table(("", "setting", "value", last)[: 4 if last else 3], [row[: 4 if last else 3] for row in rows]))
    views = resolved.spec.views
    unlike = [part for part in _parts(views) if len({setting_text(view[part]) for view in views.values()}) > 1]
    if unlike:
        cells = [(name, *(setting_text(view[part]) for part in unlike)) for name, view in views.items()]
        out.print(make_table(("view", *unlike), cells))


def _settings(spec: RunSpec) -> Iterator[tuple[str, str, Any]]:
    """(section, setting, value); of views what all have in common."""
    held = spec.model_dump(mode="json")
    for section in ("method", *CHOICES):
        if section in ("method", "encoder") or spec.views:
            yield section, "", held[section]
            yield from ((section, name, value) for name, value in held[f"{section}_config"].items())
    held["data"]["fingerprint"] = held["data"]["fingerprint"][:12]
    for section in ("train", "grid", "data"):
        yield from ((section, name, value) for name, value in held[section].items())
    for part in _parts(spec.views):
        values = [view[part] for view in spec.views.values()]
        if len(set(map(setting_text, values))) == 1:
            yield "every view" if len(values) > 1 else f"view {next(iter(spec.views))}", part, values[0]
    for name in ("init_from", "imported"):
        if held[name] is not None:
            yield name, "", held[name]


def _parts(views: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return list(next(iter(views.values()))) if views else []
