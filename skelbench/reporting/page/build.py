"""``skelbench report``: one HTML page of all results in one file."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_whole
from skelbench.core.spec import listed
from skelbench.core.text import plain
from skelbench.core.version import __version__
from skelbench.plugin.status import one_line
from skelbench.records.errors import if_whole
from skelbench.records.provenance import added
from skelbench.records.run_dir import ReadRun
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import encoded
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.page import tables
from skelbench.reporting.page.summary import sentences
from skelbench.reporting.table import Cell, Column, Table, is_number

if TYPE_CHECKING:
    from markupsafe import Markup

FIGURES = ("trade-off", "scaling", "robustness", "curves", "target-control", "confusion")


def save(path: Path, inputs: TableInputs, skeletons: bool = True, names: Iterable[str] | None = None) -> int:
    """Write the page and return its number of bytes.

    ``skeletons``: with the figure ``retrieval``, which needs the features of a run; ``names``: these tables only.

    Raises:
        SkelbenchError: there is no run to report.
    """
    text = build(inputs, skeletons, names).encode()
    write_whole(path, lambda file: file.write(text))
    return len(text)


def build(inputs: TableInputs, skeletons: bool = False, names: Iterable[str] | None = None) -> str:
    """Return the page as text; see :func:`save`."""
    if not inputs.stored:
        raise SkelbenchError(
            f"no runs in {inputs.store.root} yet, so there is nothing to report; start with: skelbench run METHOD "
            "--tokens 8 (published numbers without runs: skelbench compare --table NAME)"
        )
    complete = {run.name: run for run in inputs.stored if if_whole(run.checked) is not None}
    selected = {run.name for run in inputs.runs} | set(inputs.every["run"])
    runs = [run for name, run in complete.items() if name in selected]
    if not runs:
        raise SkelbenchError(f"no run in {inputs.store.root} matches {inputs.filters or 'the names given'}")
    places = {run.name: place for place, run in enumerate(runs)}
    inputs.significance = True
    built, failed = tables.build(inputs, names)
    folders = sum((path / "run.json").exists() for path in inputs.store.root.iterdir())
    summary = sentences(runs, built.get(tables.FIRST), folders - len(complete), inputs.left_out)
    figures, undrawn = _figures(inputs)
    retrieval, reason = _retrieval(inputs) if skeletons else (None, "")
    own = {name: table for name, table in built.items() if _is_own(table)}
    return render(
        summary=[(sentence, [places[name] for name in sentence.runs if name in places]) for sentence in summary],
        figures=figures,
        own=own,
        published={name: table for name, table in built.items() if name not in own},
        failed={f"Table {name}": error for name, error in failed.items()} | undrawn,
        runs=[(run, _facts(run)) for run in runs],
        columns_of=columns_of,
        runs_of=lambda row: [places[name] for name in _names(row) if name in places],
        root=inputs.store.root,
        filters=str(inputs.filters),
        uncounted=[] if names is not None else tables.uncounted(inputs.host),
        retrieval=retrieval,
        reason=reason,
    )


def render(**values: Any) -> str:
    """Return the page of the template; every value is escaped and made printable."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(_part),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    environment.filters["date"] = lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else ""
    parts = {"style": Markup(_part("style.css")), "script": Markup(_part("report.js"))}
    return environment.get_template("report.html.j2").render(**values, **parts, now=time.time(), version=__version__)


def _part(name: str) -> str:
    return files("skelbench.reporting.page").joinpath("parts", name).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------ tables
def _names(row: Mapping[str, Cell]) -> list[str]:
    """Names of the runs of a row."""
    return str(row["run"].value or "").split(", ") if "run" in row else []


def columns_of(table: Table) -> list[Column]:
    """The columns of the page: the name of the row and the headline, which stay in view, then the others."""
    shown = [column for column in table.shown if column.key != "run"]
    first = min(shown, key=lambda column: (column.key not in ("method", "title", "target"), not column.leads))
    best = (column for column in shown if column.best)
    headline = next((column for column in best if any(row[column.key].value is not None for row in table.rows)), first)
    return list(dict.fromkeys([first, headline, *shown]))


def _is_own(table: Table) -> bool:
    """Whether some number in ``table`` was measured here."""
    cells = (cell for row in table.rows for cell in row.values())
    return any(map(any, map(_names, table.rows))) or any(is_number(cell.value) and not cell.published for cell in cells)


# ------------------------------------------------------------------------------------------------ figures
def _figures(inputs: TableInputs) -> tuple[dict[str, Markup], dict[str, str]]:
    """Return the figures that the results fill, and the error of each figure that could not be drawn."""
    drawn, failed = dict[str, Any](), dict[str, str]()
    with inputs.track(total=len(FIGURES), label="figures", unit="figures") as report:
        for name in FIGURES:
            try:
                drawn[name] = _draw(name, inputs)
            except NothingToDraw:
                pass
            except Exception as error:  # a damaged record: the other figures are shown
                failed[f"Figure {name}"] = plain(one_line(error))
            report(1)
    return drawn, failed


def _draw(name: str, inputs: TableInputs) -> Markup:
    """Return figure ``name`` as a data URL."""
    from markupsafe import Markup

    figure = inputs.host.load(inputs.host.get("figures", name))(inputs)
    return Markup(f"data:image/svg+xml;base64,{base64.b64encode(encoded(figure, 'svg')).decode()}")


def _retrieval(inputs: TableInputs) -> tuple[Markup | None, str]:
    """Return the figure ``retrieval`` of the trained run with the highest linear (else 1-NN) accuracy, or the reason
    why there is none."""
    weights = {run.name for run in inputs.stored if run.encoder_path().exists()}
    frame = inputs.frame
    frame = frame[(frame["checkpoint"] == "last") & (frame["source"] == "") & ~frame["method"].isin(CONTROLS)]
    frame = frame[frame["protocol"].isin(("linear", "knn")) & frame["run"].isin(weights)]
    if frame.empty:
        return None, "No finished run has an encoder and a linear or 1-NN accuracy to choose it by."
    best = frame.sort_values(["protocol", "accuracy"], ascending=False, kind="stable").iloc[0]
    try:
        return _draw("retrieval", replace(inputs, only=[best["run"]])), ""
    except (SkelbenchError, OSError) as error:  # its data were removed
        return None, f"Not drawn: {best['title']}: {error}"


# ------------------------------------------------------------------------------------------------ runs
def _facts(run: ReadRun) -> dict[str, str]:
    """The facts that the page lists for a run."""
    info, environment, origin = run.info, run.info.get("environment", {}), added(run.info)
    made_with = {key: environment.get(key) for key in ("skelbench", "python")} | environment.get("packages", {})
    facts = {
        "Command": environment.get("command", ""),
        "Stopped because": run.reason,
        "Added from": origin.sentence if origin else "",
        "Changed settings": listed(info["modified"]),
        "Data fingerprint": run.spec.data.fingerprint,
        "Run id": run.spec.id,
        "Clips seen": f"{info['clips_seen']:,}" if info.get("clips_seen") else "",
        "Training": f"{info['train_seconds'] / 60:.1f} minutes" if info.get("train_seconds") else "",
        "Made with": ", ".join(f"{name} {value}" for name, value in made_with.items() if value),
        "Tags": ", ".join(info.get("tags") or ()),
    }
    return {name: value for name, value in facts.items() if value}
