"""``skelbench report``: one HTML page of all results in one file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_whole
from skelbench.core.text import plain
from skelbench.core.version import __version__
from skelbench.pipeline.session import Session
from skelbench.records.errors import if_whole
from skelbench.records.provenance import added
from skelbench.records.run_dir import ReadRun
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.page import paper_comparison, tables
from skelbench.reporting.page.charts import charts
from skelbench.reporting.page.summary import sentences
from skelbench.reporting.skeletons.page import drawing


def save(path: Path, inputs: TableInputs, session: Session | None = None, names: Iterable[str] | None = None) -> int:
    """Write the page; returns its bytes. ``session`` extracts the features of the nearest neighbours, None = without;
    ``names``: these tables only.

    Raises:
        SkelbenchError: there is no run to report.
    """
    text = build(inputs, session, names).encode()
    write_whole(path, lambda file: file.write(text))
    return len(text)


def build(inputs: TableInputs, session: Session | None = None, names: Iterable[str] | None = None) -> str:
    """The page as text; see :func:`save`."""
    if not inputs.stored:
        raise SkelbenchError(
            f"no runs in {inputs.store.root} yet, so there is nothing to report; start with: skelbench run METHOD "
            "--tokens 8 (published numbers without runs: skelbench compare --table NAME)"
        )
    whole = {run.name: run for run in inputs.stored if if_whole(run.checked) is not None}
    asked = {run.name for run in inputs.runs} | set(inputs.every["run"])
    runs = [run for name, run in whole.items() if name in asked]
    if not runs:
        raise SkelbenchError(f"no run in {inputs.store.root} matches {inputs.filters or 'the names given'}")
    index = {run.name: place for place, run in enumerate(runs)}
    inputs.significance = True
    built = tables.build(inputs, names)
    printed = tables.PrintedNumbers(inputs.host)
    laid = {name: tables.lay_out(name, table, index, printed) for name, table in built.tables.items()}
    example, reason = None, ""
    if session is not None:
        from skelbench.reporting.page.neighbours import nearest_neighbours

        example, reason = nearest_neighbours(inputs, session)
    folders = sum((path / "run.json").exists() for path in inputs.store.root.iterdir())
    changed = {name: len(also - set(inputs.frame["run"])) for name, also in built.also_shown.items()}
    summary = sentences(runs, built.tables.get(tables.FIRST), folders - len(whole), inputs.left_out, changed)
    return render(
        summary=[(one, [index[name] for name in one.runs if name in index]) for one in summary],
        own=[table for table in laid.values() if table.own],
        published=[table for table in laid.values() if not table.own],
        failed=built.failed,
        differences=paper_comparison.differences(built.tables, laid, runs, printed),
        conventions=[*paper_comparison.CONVENTIONS, *paper_comparison.notes(inputs.host, built.tables)],
        runs=[_facts(run) for run in runs],
        root=inputs.store.root,
        filters=str(inputs.filters),
        uncounted=[] if names is not None else tables.uncounted(inputs.host),
        example=example,
        reason=reason,
        payload={
            "charts": charts(inputs, index),
            "neighbours": example,
            "methods": sorted({run.spec.method for run in runs}),
        },
    )


def render(**values: Any) -> str:
    """The page of the template; every value is escaped and made printable."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    from skelbench.reporting.figures.base import COLORS

    environment = Environment(
        loader=FunctionLoader(_part),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    environment.filters["date"] = lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else ""
    values["payload"] |= {"colours": COLORS}
    return environment.get_template("report.html.j2").render(
        **values,
        now=time.time(),
        version=__version__,
        style=Markup(_part("style.css")),
        script=Markup("\n".join((drawing(), _part("report.js")))),
        plotly=Markup(get_plotlyjs()),
        plotly_version=version("plotly"),
    )


def _part(name: str) -> str:
    return files("skelbench.reporting.page").joinpath("parts", name).read_text(encoding="utf-8")


def _facts(run: ReadRun) -> dict[str, Any]:
    """The facts that the page shows of a run."""
    from markupsafe import escape

    info, environment, origin = run.info, run.info.get("environment", {}), added(run.info)
    changed = ", ".join(f"{key}={value}" for key, value in info["modified"].items())
    minutes = f"{info['train_seconds'] / 60:.1f} minutes" if info.get("train_seconds") else ""
    made_with = {key: environment.get(key) for key in ("skelbench", "python")} | environment.get("packages", {})
    facts = {
        "Command": environment.get("command", ""),
        "Stopped because": run.reason,
        "Added from": origin.sentence if origin else "",
        "Suites": ", ".join(f"{name} {digest}" for name, digest in (info.get("suites") or {}).items()),
        "Changed settings": changed,
        "Data fingerprint": run.spec.data.fingerprint,
        "Run id": run.spec.id,
        "Clips seen": f"{info['clips_seen']:,}" if info.get("clips_seen") else "",
        "Training": minutes,
        "Made with": ", ".join(f"{name} {value}" for name, value in made_with.items() if value),
        "Tags": ", ".join(info.get("tags") or ()),
    }
    return {
        "name": run.name,
        "title": run.title,
        "outcome": run.outcome,
        "preset": info["preset"] + ("+" if info["modified"] else ""),
        "data": f"{run.spec.data.title} {run.spec.data.split}",
        "seed": run.spec.seed,
        "hardware": run.hardware,
        "created": "" if origin else info.get("created"),
        "facts": {name: value for name, value in facts.items() if value},
        "evaluations": [_evaluation(record) for record in run.records()],
        "spec": escape(json.dumps(info["spec"], indent=1)),
    }


def _evaluation(record: Mapping[str, Any]) -> dict[str, Any]:
    spec = record["spec"]
    at = "" if spec["checkpoint"] == "last" else f"@{spec['checkpoint']}"
    return {
        "title": f"{spec['protocol']}{at} on {spec['data']['name']} {spec['data']['split']}",
        "accuracy": 100 * record["metrics"]["accuracy"],
        "id": record["id"],
        "command": record.get("environment", {}).get("command", ""),
        "metrics": record["metrics"],
        "notes": record.get("notes", []),
    }
