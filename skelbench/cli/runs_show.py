"""``skelbench runs show``: everything recorded about one run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli.options import RUN, BestOnTest, ReadResults
from skelbench.core.errors import SkelbenchError
from skelbench.core.text import setting_text

if TYPE_CHECKING:
    from skelbench.records.run_dir import RunDir


def show(
    run: Annotated[str, typer.Argument(help=RUN)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    best_on_test: BestOnTest = False,
    results: ReadResults = None,
) -> None:
    """Show the settings, environment, training, cost and evaluations of a run."""
    from skelbench.cli.summary import anomalies, cost_facts, named_root, print_records, training_text
    from skelbench.core.console import out, print_facts
    from skelbench.records.errors import if_whole
    from skelbench.records.store import ResultStore

    if best_on_test and as_json:
        raise SkelbenchError("--json has every metric; leave out --best-on-test")
    store = ResultStore(results)
    stored = store.whole(run)
    cost, records, snapshots = if_whole(stored.cost), stored.records(), stored.snapshots()
    if as_json:
        content = {"run": stored.info, "cost": cost, "snapshots": snapshots, "evaluations": records}
        out.print(json.dumps(content, indent=2), soft_wrap=True)
        return
    number = [entry.name for entry in store.numbered()].index(stored.name) + 1
    print_facts(_about(stored), title=f"{stored.title}, run #{number}")
    modified = stored.info["modified"]
    print_facts(_settings(stored.spec.model_dump(mode="json"), modified), title="\nSettings")
    changed = "* = changed: " + ", ".join(modified) if modified else "Nothing was changed"
    out.print(f"{changed} (preset {stored.info['preset']}).\n", style="dim")
    print_facts(_environment(stored.info.get("environment", {})), title="Environment")
    print_facts([("training", training_text(stored.info)), *anomalies(stored.info)], title="\nTraining")
    if cost:
        print_facts(cost_facts(cost), title="\nCost (FLOPs = 2 MACs, matrix products only)")
    if snapshots:
        again = f"skelbench eval {stored.spec.id}@{snapshots[-1]}{stored.plugin_files}{named_root(store.root)}"
        out.print(f"\nencoder snapshots at epochs {', '.join(snapshots)}: {again}", soft_wrap=True)
    if records:
        out.print()
        print_records(stored, records, best_on_test)


def _about(run: RunDir) -> Iterator[tuple[str, Any]]:
    from skelbench.pipeline.studies.run_status import outcome_now
    from skelbench.records.provenance import added

    info, spec = run.info, run.spec
    yield "run", run.name
    yield "id", spec.id
    yield "data", f"{spec.data.title} / {spec.data.split}, fingerprint {spec.data.fingerprint[:12] or 'not known'}"
    yield "preset", info["preset"] + (" with changes" if info["modified"] else "")
    yield "setting", info.get("setting", "shared")
    yield "seed", spec.seed
    yield "outcome", outcome_now(run) + (f": {run.reason}" if run.reason else "")
    yield "made", _moment(info.get("created"))
    yield "finished", _moment(info.get("finished"))
    yield "starts from", spec.init_from
    yield "added from", (origin := added(info)) and origin.sentence
    yield "tags", ", ".join(run.tags)
    yield "stored in", run.path


def _moment(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else ""


def _settings(spec: Mapping[str, Any], modified: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(section, its settings), with a star before ``modified`` settings; without empty values and the fingerprint."""

    def settings(section: str, values: Mapping[str, Any]) -> str:
        pairs = {
            key: value for key, value in values.items() if value not in (None, [], {}, "") and key != "fingerprint"
        }
        marks = {key: "*" if f"{section}.{key}" in modified else "" for key in pairs}
        return ", ".join(f"{marks[key]}{key}={setting_text(value)}" for key, value in pairs.items())

    for section in ("method", "encoder", "optimizer", "schedule"):
        name = ("*" if section in modified else "") + str(spec[section])
        yield section, ": ".join(filter(None, (name, settings(section, spec[f"{section}_config"]))))
    for section in ("grid", "train", "data"):
        yield section, settings(section, spec[section])
    for name, view in spec["views"].items():
        yield f"view {name}", settings("", view)
    yield "versions", ", ".join(f"{name} {version}" for name, version in spec["components"].items())


def _environment(environment: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "command", environment.get("command")
    yield "hardware", environment.get("hardware")
    yield "device", f"{environment.get('device', '')}, threads {environment.get('threads', 'not known')}"
    yield "platform", environment.get("platform")
    versions = {name: environment.get(name) for name in ("skelbench", "python")} | environment.get("packages", {})
    yield "versions", ", ".join(f"{name} {version}" for name, version in versions.items() if version)
