"""``skelbench runs list``: every run on a line."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli.options import Columns, ReadResults, Sort, request_options
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import comma_separated
from skelbench.reporting.filters import Filters

if TYPE_CHECKING:
    from skelbench.records.run_dir import ReadRun
    from skelbench.reporting.table import Table

UNEVALUATED = "trained, not evaluated"


@request_options
def list_runs(
    filters: Filters,
    sort: Sort = None,
    columns: Columns = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    results: ReadResults = None,
) -> None:
    """List all runs. The number of a run can be used as its name: `skelbench eval 7`."""
    from skelbench.core.console import out
    from skelbench.plugin.host import get_host
    from skelbench.records.store import ResultStore
    from skelbench.reporting.table import sorted_by, with_columns
    from skelbench.reporting.terminal import Terminal

    if as_json and (sort or columns):
        raise SkelbenchError("--json prints every run with all its facts; leave out --sort and --columns")
    store = ResultStore(results)
    numbered = store.numbered()
    filters.check(numbered, get_host())
    numbers = {run.name: number for number, run in enumerate(numbered, 1)}
    runs = filters.runs(numbered)
    facts = [_facts(numbers[run.name], run) for run in runs]
    if as_json:
        out.print(json.dumps(facts, indent=2), soft_wrap=True)
        return
    if not runs:
        start = f"no runs in {store.root} yet; start with: skelbench run METHOD --tokens 8"
        out.print(f"no run in {store.root} is of {filters}" if numbered else start)
        return
    names = comma_separated(columns or "")
    built = _table(facts, {name.removeprefix("-").lower() for name in (*names, sort or "")})
    built = sorted_by(built, sort) if sort else built
    built = with_columns(built, names) if columns else built
    out.print(Terminal(built, hint="--json"))
    for run in runs:
        if run.reason:
            out.print(f"#{numbers[run.name]} {run.outcome}: {run.name}: {run.reason}", soft_wrap=True)
    if waiting := [str(fact["number"]) for fact in facts if fact["outcome"] == UNEVALUATED]:
        from skelbench.cli.summary import named_root

        again = f"skelbench eval {waiting[0]}{named_root(store.root)}"
        out.print(f"#{', #'.join(waiting)} {UNEVALUATED}: issue its command again, or: {again}", soft_wrap=True)


def _facts(number: int, run: ReadRun) -> dict[str, Any]:
    """Facts of a run for a list; accuracies are between 0 and 1."""
    from skelbench.pipeline.studies.run_status import outcome_now
    from skelbench.records.provenance import added

    about = run.about
    standard = [record for record in run.records() if record["standard"]]
    accuracy = {record["spec"]["protocol"]: record["metrics"]["accuracy"] for record in standard}
    outcome = outcome_now(run)
    if outcome == "done" and run.spec.views and not run.records():
        outcome = UNEVALUATED
    return {
        "number": number,
        "id": about["id"],
        "run": run.name,
        "method": about["title"],
        "dataset": about["data"],
        "preset": about["preset"] + ("+" if about["modified"] else ""),
        **{key: about[key] for key in ("split", "tokens", "encoder", "changed", "seed", "reason")},
        "outcome": outcome,
        "linear": accuracy.get("linear"),
        "knn": accuracy.get("knn"),
        "made": _iso(about["created"]),
        "finished": _iso(about["finished"]),
        "hardware": about["hardware"],
        "added": origin.sentence if (origin := added(about["origin"])) else "",
        "tags": about["tags"],
    }


def _iso(seconds: float | None) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(seconds)) if seconds else None


def _table(facts: list[dict[str, Any]], columns_asked: set[str]) -> Table:
    """The list as a table. ``columns_asked``: columns that are shown even if all runs have the same value."""
    from skelbench.data.store.splits import for_choosing
    from skelbench.reporting.seeds import alike
    from skelbench.reporting.table import Column, Table

    varying, constant = alike(facts, ["dataset", "split", "tokens", "encoder", "preset", "changed", "seed", "hardware"])
    visible = varying | columns_asked | ({"tags"} if any(fact["tags"] for fact in facts) else set())

    def column(key: str, **more: Any) -> Column:
        return Column(key, key, shown=key in visible, **more)

    columns = (
        Column("number", "#", "d", leads=True),
        Column("method", "method", leads=True),
        column("dataset"),
        column("split", minor=True),
        column("tokens", format="d"),
        column("preset"),
        column("changed"),
        column("encoder", minor=True),
        column("seed", format="d"),
        Column("outcome", "outcome"),
        Column("linear", "linear", ".1%", leads=True),
        Column("knn", "knn", ".1%"),
        Column("added", "added from", shown="added" in columns_asked),
        column("tags"),
        Column("made", "made"),
        column("finished"),
        column("reason"),
        Column("id", "id"),
        column("hardware", minor=True),
        Column("run", "run", minor=True),
    )
    rows = []
    for entry in facts:
        row = {column.key: entry[column.key] for column in columns} | {"tags": ", ".join(entry["tags"])}
        row |= {key: entry[key] and entry[key][:16].replace("T", " ") for key in ("made", "finished")}
        row["method"] += ", trial" if for_choosing(entry["split"]) else ""
        row["outcome"] += ", added" if entry["added"] else ""
        rows.append(row)
    notes = [f"All runs: {', '.join(constant)}."] if constant and len(facts) > 1 else []
    if any(for_choosing(fact["split"]) for fact in facts):
        notes.append(
            "Trials: runs of a tuning, evaluated on held-out training clips and not on the test clips of a split."
        )
    if count := sum(bool(fact["added"]) for fact in facts):
        notes.append(f"Added from files: {count} runs; --columns +added names the files.")
    return Table("Runs", columns, tuple(rows), tuple(notes))
