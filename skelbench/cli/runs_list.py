"""``skelbench runs list``: every run on a line."""

from __future__ import annotations

import json
import time
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

if TYPE_CHECKING:
    from skelbench.report.table import Table
    from skelbench.results.store import ReadRun


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
    Accuracies are those of the final weights."""
    from skelbench.console import out
    from skelbench.plugin.host import get_host
    from skelbench.report.arrange import sorted_by, with_columns
    from skelbench.results.store import ResultStore

    store = ResultStore(results)
    numbered = store.numbered()
    filters = filters_of(dataset=dataset, method=method, protocol=protocol, preset=preset, tag=tag)
    filters.check(numbered, get_host())
    numbers = {run.name: number for number, run in enumerate(numbered, 1)}
    runs: list[ReadRun] = filters.runs(numbered)
    if as_json:
        out.print(json.dumps([_facts(numbers[run.name], run) for run in runs], indent=2), soft_wrap=True)
        return
    if not runs:
        start = f"no runs in {store.root} yet; start with: skelbench run METHOD --tokens 8"
        out.print(f"no run in {store.root} is of {filters}" if numbered else start)
        return
    built = _table([_facts(numbers[run.name], run) for run in runs], asked=[*names_of(columns or ""), sort or ""])
    built = sorted_by(built, sort) if sort else built
    _print(with_columns(built, names_of(columns)) if columns else built)
    for run in runs:
        for what, text in ((run.outcome, run.reason), ("note", run.info.get("note"))):
            if text:
                out.print(f"#{numbers[run.name]} {what}: {run.name}: {text}", soft_wrap=True)


def _facts(number: int, run: ReadRun) -> dict[str, Any]:
    """What a list says of a run; accuracies are shares."""
    from skelbench.results.added import added
    from skelbench.spec import listed

    info, spec = run.info, run.spec
    records = [record for record in run.records() if record["standard"]]
    accuracy = {record["spec"]["protocol"]: record["metrics"]["accuracy"] for record in records}
    return {
        "number": number,
        "id": spec.id,
        "run": run.name,
        "method": run.title,
        "dataset": spec.data.title,
        "split": spec.data.split,
        "tokens": spec.tokens,
        "encoder": spec.encoder,
        "preset": info["preset"] + ("+" if info["modified"] else ""),
        "changed": listed(info["modified"]),
        "seed": spec.seed,
        "outcome": run.outcome,
        "reason": run.reason,
        "linear": accuracy.get("linear"),
        "knn": accuracy.get("knn"),
        "made": _iso(info.get("created")),
        "finished": _iso(info.get("finished")),
        "hardware": run.hardware,
        "added": origin.sentence if (origin := added(info)) else "",
        "tags": list(run.tags),
        "note": info.get("note", ""),
    }


def _iso(seconds: float | None) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(seconds)) if seconds else None


def _day(iso: str | None) -> str:
    """``2026-03-01``; of today the time."""
    if not iso:
        return ""
    day, _, clock = iso.partition("T")
    return clock[:5] if day == time.strftime("%Y-%m-%d") else day


def _table(facts: list[dict[str, Any]], asked: list[str]) -> Table:
    """``asked``: columns that a person named, which are not left out because all runs are alike in them."""
    from skelbench.report.seeds import alike
    from skelbench.report.table import Column, Table

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
        Column("id", "id"),
        column("note", "note"),
        Column("hardware", "hardware", shown="hardware" in shown, minor=True),
        Column("run", "run", minor=True),
    )
    keys = [column.key for column in columns]
    rows = tuple(
        {key: each[key] for key in keys}
        | {"tags": ", ".join(each["tags"]), "outcome": each["outcome"] + (", added" if each["added"] else "")}
        for each in facts
    )
    notes = [f"All runs: {', '.join(constant)}."] if constant and len(facts) > 1 else []
    if files := sorted({each["added"] for each in facts} - {""}):
        notes.append(f"Added, not made here: from {'; '.join(files)}.")
    return Table("Runs", columns, rows, tuple(notes))


def _print(table: Table) -> None:
    """Line by line: of a thousand runs every cell laid out by itself takes seconds."""
    from dataclasses import replace

    from skelbench.console import make_table, out
    from skelbench.report.render import Terminal

    keys = {column.key for column in table.columns}
    if "made" in keys:
        days = tuple(dict(row) | {"made": replace(row["made"], value=_day(row["made"].value))} for row in table.rows)
        table = replace(table, rows=days)
    chosen, left = (list(table.shown), []) if not out.is_terminal else Terminal(table).columns_for(out.width)
    cells = [[column.text(row[column.key].value) for column in chosen] for row in table.rows]
    grid = make_table([column.header for column in chosen], cells)
    for place, column in enumerate(chosen):
        grid.columns[place].justify = "right" if column.format else "left"
    out.print(grid)
    if left:
        names = ", ".join(f"`{column.header}`" for column in left)
        out.print(f"No room for {names}; --columns shows those that you name, --json all.", style="dim")
    for note in table.notes:
        out.print(note, style="dim")
