"""``skelbench report``: one page of all results, whole in one file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_whole
from skelbench.core.text import plain
from skelbench.core.version import __version__
from skelbench.pipeline.session import Session
from skelbench.records.errors import if_whole
from skelbench.records.run_dir import ReadRun
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.page import paper_comparison, tables
from skelbench.reporting.page.charts import charts
from skelbench.reporting.page.provenance import Provenance
from skelbench.reporting.page.summary import sentences
from skelbench.reporting.page.text import data, packed, part, source_hash
from skelbench.reporting.skeletons.page import drawing

TITLE = "skelbench report"


def save(path: Path, inputs: TableInputs, session: Session | None = None, names: Iterable[str] | None = None) -> int:
    """Write the page; returns its bytes. ``session`` extracts the features of the retrieval example, None = without;
    ``names``: these tables alone.

    Raises:
        SkelbenchError: there is no run, so nothing to report; what to run.
    """
    text = build(inputs, session, names).encode()
    write_whole(path, lambda file: file.write(text))
    return len(text)


def build(inputs: TableInputs, session: Session | None = None, names: Iterable[str] | None = None) -> str:
    """The page as text; see :func:`save`."""
    if not inputs.stored:
        raise SkelbenchError(
            f"no runs in {inputs.store.root} yet, so there is nothing to report; start with: skelbench run METHOD "
            "--tokens 8 (published figures alone: skelbench compare --table NAME)"
        )
    whole = {run.name: run for run in inputs.stored if if_whole(run.checked) is not None}
    runs = _wanted(inputs, whole)
    if not runs:
        raise SkelbenchError(f"no run in {inputs.store.root} is of {inputs.filters or 'those that were named'}")
    known = Provenance(runs)
    inputs.significance = True
    built = tables.build(inputs, names)
    lay_out = tables.Layout(known, inputs.host)
    laid = {name: lay_out(name, table) for name, table in built.tables.items()}
    example, why = None, ""
    if session is not None:
        from skelbench.reporting.page.neighbours import example as neighbours

        example, why = neighbours(inputs, session)
    exact = set(inputs.frame["run"])
    shown = {name: len(also - exact) for name, also in built.also_shown.items() if also - exact}
    said = sentences(runs, built.tables.get(tables.FIRST), _folders(inputs) - len(whole), inputs.left_out, shown)
    payload = {
        "runs": known.runs,
        "charts": charts(inputs, known),
        "neighbours": example,
        "methods": sorted({run.spec.method for run in runs}),
        "colours": _colours(),
    }
    places = {name: place for place, name in enumerate(known.names)}
    return render(
        "report.html.j2",
        scripts=("skeleton", "report"),
        payload=payload,
        title=TITLE,
        made=time.strftime("%Y-%m-%d %H:%M"),
        root=plain(inputs.store.root),
        summary=[{**one._asdict(), "runs": [places[name] for name in one.runs if name in places]} for one in said],
        own=[table for table in laid.values() if table.own],
        printed=[table for table in laid.values() if not table.own],
        failed=built.failed,
        differences=paper_comparison.differences(built.tables, laid, known),
        conventions=[*paper_comparison.CONVENTIONS, *paper_comparison.notes(inputs.host, built.tables)],
        runs=known.runs,
        only=plain(inputs.filters),
        uncounted=[] if names is not None else tables.uncounted(inputs.host),
        example=example,
        why=why,
        plotly=_library()[0],
        plotly_version=version("plotly"),
    )


def render(template: str, scripts: Iterable[str], payload: Any, **values: Any) -> str:
    """A page of one of the templates: every value is escaped, and only the page's own scripts may run, which a policy
    names by their hashes; no address can be reached but, of a live page, its own server's."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    sources = {"skeleton": drawing()}
    script = '"use strict";\n' + "\n".join(sources.get(name) or part(f"parts/{name}.js") for name in scripts)
    allowed = [source_hash(script)]
    if "plotly" in values:
        allowed.append(_library()[1])
    policy = {
        "default-src": "'none'",
        "script-src": " ".join(allowed),
        "style-src": "'unsafe-inline'",  # plotly writes styles; a style without an address to load from leaks nothing
        "img-src": "data: blob:",
        "connect-src": "'none'" if "plotly" in values else "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    environment = Environment(
        loader=FunctionLoader(lambda name: part(f"parts/{name}")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["date"] = lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else ""
    environment.filters["plain"] = plain
    from markupsafe import Markup

    return environment.get_template(template).render(
        **values,
        version=__version__,
        policy="; ".join(f"{name} {value}" for name, value in policy.items()),
        style=Markup(part("parts/style.css")),
        script=Markup(script),
        data=Markup(data(payload)),
    )


def _wanted(inputs: TableInputs, whole: Mapping[str, ReadRun]) -> list[ReadRun]:
    """The runs that the page is about: those that were asked for, and those behind a row that was, as of a run that was
    trained on other data than it was evaluated on. What cannot be read is left out with a warning."""
    asked = {run.name for run in inputs.runs} | set(inputs.every["run"])
    return [run for name, run in whole.items() if name in asked]


def _folders(inputs: TableInputs) -> int:
    """How many runs are there, readable or not."""
    return sum((path / "run.json").exists() for path in inputs.store.root.iterdir())


@cache
def _library() -> tuple[str, str]:
    """The library that draws, as pip installed it: packed, and how a policy names it. Once for all pages of a process,
    as it is 5 MB to compress."""
    from plotly.offline import get_plotlyjs

    source = get_plotlyjs()
    return packed(source), source_hash(source)


def _colours() -> dict[str, Any]:
    from skelbench.reporting.figures.style import COLOURS

    return {"lines": COLOURS}
