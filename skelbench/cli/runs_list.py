"""``skelbench runs list``: every run on a line."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli.options import (
    OfDataset,
    OfMethod,
    OfPreset,
    OfProtocol,
    OfTag,
    ReadResults,
    filters_of,
    names_of,
)
from skelbench.core.errors import SkelbenchError

DAYS = ("made", "finished")
"""Columns of times."""

if TYPE_CHECKING:
    from pathlib import Path

    from skelbench.records.run_dir import ReadRun
    from skelbench.reporting.filters import Filters
    from skelbench.reporting.table import Table


def list_runs(
    dataset: OfDataset = None,
    method: OfMethod = None,
    protocol: OfProtocol = None,
    preset: OfPreset = None,
    tag: OfTag = None,
    sort: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Order of the runs; `-COLUMN`: the highest first.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="These columns alone, comma separated; `runs list --json` has their names.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All that is known of each, as JSON.")] = False,
    results: ReadResults = None,
) -> None:
    """Every run with its number, which stands for it wherever a RUN is wanted (`skelbench eval 7`): the oldest is 1.
    Accuracies belong to the final weights."""
    from skelbench.core.threads import uncollected

    filters = filters_of(dataset=dataset, method=method, protocol=protocol, preset=preset, tag=tag)
    with uncollected():
        _list(filters, sort, columns, as_json, results)


def _list(filters: Filters, sort: str | None, columns: str | None, as_json: bool, results: Path | None) -> None:
    from skelbench.core.console import err, out, progress
    from skelbench.plugin.host import get_host
    from skelbench.records.run_dir import shown
    from skelbench.records.store import ResultStore
    from skelbench.reporting.table import sorted_by, with_columns
    from skelbench.reporting.terminal import Terminal

    if as_json and (sort or columns):
        raise SkelbenchError("--json has every run with all that is known of it; leave --sort and --columns out")
    store = ResultStore(results, progress if err.is_terminal else None)
    numbered = store.numbered()
    if filters:  # else no plugin is asked for anything
        filters.check(numbered, get_host())
    numbers = {run.name: number for number, run in enumerate(numbered, 1)}
    runs: list[ReadRun] = filters.runs(numbered)
    facts = [_facts(numbers[run.name], run) for run in shown(runs, "evaluations", "reading evaluations")]
    if as_json:
        out.print(json.dumps(facts, indent=2), soft_wrap=True)
        return
    if not runs:
        start = f"no runs in {store.root} yet; start with: skelbench run METHOD --tokens 8"
        out.print(f"no run in {store.root} is of {filters}" if numbered else start)
        return
    built = _table(facts, asked=[*names_of(columns or ""), sort or ""])
    built = sorted_by(built, sort) if sort else built
    built = with_columns(built, names_of(columns)) if columns else built
    out.print(Terminal(_with_days(built), hint="Show them with --columns or --json."))
    for run in runs:
        for what, text in ((run.outcome, run.reason), ("note", run.about["note"])):
            if text:
                out.print(f"#{numbers[run.name]} {what}: {run.name}: {text}", soft_wrap=True)


def _facts(number: int, run: ReadRun) -> dict[str, Any]:
    """Facts of a run for a list; accuracies are between 0 and 1."""
    from skelbench.pipeline.studies.run_status import outcome_now
    from skelbench.records.provenance import added

    about = run.about
    accuracy = {one["protocol"]: one["accuracy"] for one in run.evaluations if one["standard"]}
    return {
        "number": number,
        "id": about["id"],
        "run": run.name,
        "method": about["title"],
        "dataset": about["data"],
        "split": about["split"],
        "tokens": about["tokens"],
        "encoder": about["encoder"],
        "preset": about["preset"] + ("+" if about["modified"] else ""),
        "changed": about["changed"],
        "seed": about["seed"],
        "outcome": outcome_now(run),
        "reason": about["reason"],
        "linear": accuracy.get("linear"),
        "knn": accuracy.get("knn"),
        "made": _iso(about["created"]),
        "finished": _iso(about["finished"]),
        "hardware": about["hardware"],
        "added": origin.sentence if (origin := added(about["origin"])) else "",
        "tags": about["tags"],
        "note": about["note"],
    }


def _iso(seconds: float | None) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(seconds)) if seconds else None


def _day(iso: str | None) -> str:
    """``2026-03-01``, or the time if it is today."""
    if not iso:
        return ""
    day, _, clock = iso.partition("T")
    return clock[:5] if day == time.strftime("%Y-%m-%d") else day


def _table(facts: list[dict[str, Any]], asked: list[str]) -> Table:
    """The list as a table. ``asked``: columns that are shown even if all runs agree in them."""
    from skelbench.data.store.splits import for_choosing
    from skelbench.reporting.seeds import alike
    from skelbench.reporting.table import Column, Table

    said = {name.removeprefix("-").lower() for name in asked}
    varying, constant = alike(facts, ["dataset", "split", "tokens", "encoder", "preset", "changed", "seed", "hardware"])
    shown = varying | said

    def column(key: str, header: str, **more: Any) -> Column:
        return Column(key, header, shown=key in shown, **more)

    columns = (
        Column("number", "#", "d", leads=True),
        Column("method", "method", leads=True),
        column("dataset", "dataset"),
        column("split", "split", minor=True),
        column("tokens", "tokens", format="d"),
        column("preset", "preset"),
        column("changed", "changed"),
        column("encoder", "encoder", minor=True),
        column("seed", "seed", format="d"),
        Column("outcome", "outcome"),
        Column("linear", "linear", ".1%", leads=True),
        Column("knn", "knn", ".1%"),
        Column("added", "added from", shown="added" in said),
        Column("tags", "tags", shown="tags" in said or any(each["tags"] for each in facts)),
        Column("made", "made"),
        Column("finished", "finished", shown="finished" in said),
        Column("reason", "reason", shown="reason" in said),
        Column("id", "id"),
        column("note", "note"),
        Column("hardware", "hardware", shown="hardware" in shown, minor=True),
        Column("run", "run", minor=True),
    )
    keys = [column.key for column in columns]
    rows = tuple(
        {key: each[key] for key in keys}
        | {"tags": ", ".join(each["tags"]), "outcome": each["outcome"] + (", added" if each["added"] else "")}
        | {"method": each["method"] + (", trial" if for_choosing(each["split"]) else "")}
        for each in facts
    )
    notes = [f"All runs: {', '.join(constant)}."] if constant and len(facts) > 1 else []
    if any(for_choosing(each["split"]) for each in facts):
        notes.append(
            "Trials: runs of a tuning, evaluated on held-out training clips and not on the test clips of a split."
        )
    if files := sorted({each["added"] for each in facts} - {""}):
        notes.append(f"Added from files: {'; '.join(files)}.")
    return Table("Runs", columns, rows, tuple(notes))


def _with_days(table: Table) -> Table:
    """``table`` with days instead of times."""
    days = [column.key for column in table.columns if column.key in DAYS]
    rows = ({**row, **{key: replace(row[key], value=_day(row[key].value)) for key in days}} for row in table.rows)
    return replace(table, rows=tuple(rows))
