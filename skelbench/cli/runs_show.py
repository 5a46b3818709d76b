"""``skelbench runs show``: everything recorded about one run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli import complete
from skelbench.cli.options import DataRoot, ReadResults
from skelbench.core.errors import SkelbenchError
from skelbench.core.text import setting_text

if TYPE_CHECKING:
    from skelbench.records.run_dir import RunDir


def show(
    run: Annotated[
        str, typer.Argument(help="Run name, id, number, or an unambiguous part.", autocompletion=complete.runs)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="run.json, cost and evaluations as JSON.")] = False,
    classes: Annotated[
        bool, typer.Option("--classes", help="Accuracy class by class, and what is taken for what.")
    ] = False,
    protocol: Annotated[
        str, typer.Option(help="Of --classes: whose predictions.", autocompletion=complete.names("protocols"))
    ] = "linear",
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Of --classes: the data set of the evaluation, if there are several.", autocompletion=complete.datasets
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Of --classes: its split.", autocompletion=complete.splits)] = None,
    stream: Annotated[str | None, typer.Option(help="Of --classes: its stream.")] = None,
    top: Annotated[int, typer.Option(min=0, help="Of --classes: number of the hardest classes; 0 = all.")] = 15,
    best_on_test: Annotated[
        bool,
        typer.Option(
            "--best-on-test", help="Also the highest test accuracy of a probe's checkpoints: chosen on test data."
        ),
    ] = False,
    results: ReadResults = None,
    data_root: DataRoot = None,
) -> None:
    """Everything recorded about one run: its settings with those changed from the preset marked, environment, training,
    cost, evaluations. With --classes which classes are hard, and the pairs that are confused."""
    from skelbench.cli.summary import cost_facts, named_root, print_records
    from skelbench.core.console import out, print_facts
    from skelbench.records.errors import if_whole
    from skelbench.records.store import ResultStore

    if classes and as_json:
        raise SkelbenchError("--json and --classes are two ways to show a run; leave one out")
    given = {"protocol": protocol != "linear", "dataset": dataset, "split": split, "stream": stream, "top": top != 15}
    if not classes and (name := next((name for name, value in given.items() if value), "")):
        raise SkelbenchError(f"--{name} is of --classes; add that, or leave it out")
    if best_on_test and (classes or as_json):
        raise SkelbenchError("--best-on-test is of the page that a run has without --classes and --json; leave it out")
    store = ResultStore(results)
    if classes:
        found, checkpoint = store.find(run)
        from skelbench.cli.classes import print_classes

        print_classes(found, checkpoint, protocol, top, data_root, dataset, split, stream)
        return
    found = store.whole(run)
    cost, records, kept = if_whole(found.cost), found.records(), found.snapshots()
    if as_json:
        whole = {"run": found.info, "cost": cost, "snapshots": kept, "evaluations": records}
        out.print(json.dumps(whole, indent=2), soft_wrap=True)
        return
    number = [each.name for each in store.numbered()].index(found.name) + 1
    print_facts(_about(found, number), title=f"{found.title}, run #{number}")
    modified = found.info["modified"]
    print_facts(_settings(found.spec.model_dump(mode="json"), modified), title="\nSettings")
    changed = "Behind * what was changed: " + ", ".join(modified) if modified else "Nothing was changed"
    out.print(f"{changed} (preset {found.info['preset']}).\n", style="dim")
    print_facts(_environment(found.info.get("environment", {})), title="Environment")
    print_facts(_training(found), title="\nTraining")
    if cost:
        print_facts(cost_facts(cost), title="\nCost (FLOPs = 2 MACs, matrix products only)")
    if kept:
        again = f"skelbench eval {found.spec.id}@{kept[-1]}{found.plugin_files}{named_root(store.root)}"
        out.print(f"\nencoder snapshots at epochs {', '.join(kept)}: {again}", soft_wrap=True)
    if records:
        out.print()
        print_records(found, records, best_on_test)


def _about(run: RunDir, number: int) -> Iterator[tuple[str, Any]]:
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
    yield "note", info.get("note", "")
    yield "lies in", run.path


def _moment(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else ""


def _settings(spec: Mapping[str, Any], modified: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(section, its settings), with a star before ``modified`` settings; without empty values and the fingerprint."""

    def settings(section: str, values: Mapping[str, Any]) -> str:
        kept = {key: value for key, value in values.items() if value not in (None, [], {}, "") and key != "fingerprint"}
        marks = {key: "*" if f"{section}.{key}" in modified else "" for key in kept}
        return ", ".join(f"{marks[key]}{key}={setting_text(value)}" for key, value in kept.items())

    for section in ("method", "encoder", "optimizer", "schedule"):
        name = ("*" if section in modified else "") + str(spec[section])
        yield section, ": ".join(filter(None, (name, settings(section, spec[f"{section}_config"]))))
    for section in ("grid", "train", "data"):
        yield section, settings(section, spec[section])
    for name, view in spec["views"].items():
        yield f"view {name}", settings("", view)
    yield "versions", ", ".join(f"{name} {version}" for name, version in spec["components"].items())


def _environment(environment: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in ("command", "hardware"):
        yield name, environment.get(name)
    yield "device", f"{environment.get('device', '')}, threads {environment.get('threads', 'not known')}"
    yield "platform", environment.get("platform")
    versions = {name: environment.get(name) for name in ("skelbench", "python")} | environment.get("packages", {})
    yield "versions", ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def _training(run: RunDir) -> Iterator[tuple[str, Any]]:
    from skelbench.training.anomalies import UNMOVED, describe

    info = run.info
    if info.get("steps"):
        clips, seconds = info["clips_seen"], max(info["train_seconds"], 1e-9)
        yield "steps", f"{info['steps']:,} of {run.spec.train.batch_size} clips"
        yield "clips seen", f"{clips:,.0f}"
        yield "time", f"{seconds / 60:.1f} min, {clips / seconds:,.0f} clips/s"
    for kind in ("collapse", "shortcut"):
        yield kind, "; ".join(map(describe, info.get(kind) or ()))
    yield "unmoved", UNMOVED if info.get("unmoved") else ""
