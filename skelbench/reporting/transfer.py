"""``compare --table transfer``: runs that were measured on other data than they were trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from skelbench.data.store.splits import full_name
from skelbench.plugin import TableSpec, hookimpl
from skelbench.reporting import published, study_rows
from skelbench.reporting.columns import of_evaluations, settings, size_footnotes, smaller
from skelbench.reporting.controls import CONTROLS, controls_beside
from skelbench.reporting.seeds import INTERVALS, accuracy, alike, all_rows, block_of, footnotes, percent, subjects_note
from skelbench.reporting.table import Cell, Column, Table, footnotes_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

NAME = "transfer"
TITLE = "Transfer to another data set: accuracy in percent"
HOW = (
    "nothing to compare yet: `skelbench eval RUN --protocol transfer --dataset NAME` measures a finished run, and its "
    "controls, on another data set; `skelbench study transfer` trains the paper's encoders that are here"
)
NOTE = (
    "A column is one protocol: a frozen encoder and one that was fine-tuned on the target are never compared. "
    f"{INTERVALS} Over untrained: minus the same encoder as initialised, measured alike."
)
PRINTED = (
    "not run here: the published figures only; `skelbench study transfer` trains the encoders that are here, and says "
    "how each is measured"
)
_SETTING = [
    "title", "setting", "source", "target", "split", "data", "tokens", "preset", "encoder", "hardware", "stream",
    "checkpoint",
]  # fmt: skip
_SHOWN = ["preset", "hardware", "setting", "encoder", "stream", "checkpoint"]
_BLOCK = ["source", "target", "split", "data", "setting", "encoder", "stream", "checkpoint", "preset"]
_PAPER = {"linear": "Paper, frozen", "finetune": "Paper, fine-tuned"}


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "runs on other data than they were trained on: source, target, a column for each protocol, papers' beside"
    return [TableSpec(name=NAME, target=":table", summary=summary)]


def table(inputs: TableInputs) -> Table:
    """A row per setting, source and target; a column, with the lead over the untrained encoder, per protocol that
    measures on other data. Published figures stand in a column for each way in which they were measured."""
    frame, host = inputs.frame, inputs.host
    elsewhere = {one.name for one in host.all("protocols") if getattr(one, "elsewhere", False)}
    frame = frame[frame["protocol"].isin(elsewhere) & (frame["source"] != "")]
    if frame.empty:
        return Table(TITLE, (), notes=(HOW,))
    targets = [text.removesuffix(f" (from {source})") for text, source in zip(frame["dataset"], frame["source"])]
    frame = controls_beside(frame.assign(target=targets))
    figures = _figures(inputs)
    rows = [_row(group) for group in settings(frame, _SETTING)]
    rows = [_beside(row, figures.get(_place(row), {})) for row in rows]
    measured, places = {_place(row) for row in rows}, {_place(row)[1:]: row for row in rows}
    for (title, *place), found in figures.items():
        if (title, *place) not in measured and (beside := places.get(tuple(place))):
            shown = {key: Cell(beside[key], published=True) for key in ("source", "target", "split")}
            method = Cell(title, published=True, footnotes=("printed",))
            rows.append({**shown, "method": method, **_paper(found)})
    rows.sort(key=lambda row: [_text(row.get(key)) for key in ("source", "target", "split")])
    own = [row for row in rows if "run" in row]
    varying, constant = alike([row | {"dataset": row["target"]} for row in own], [*_SHOWN, "data", "changed"])
    columns = tuple(_columns(sorted(set(frame["protocol"])), rows, varying))
    papers = published.notes(host, NAME) if any(column.published for column in columns) else ()
    notes = (*all_rows(constant), NOTE, *subjects_note(frame), *papers)
    texts = {"printed": PRINTED, **size_footnotes(own), **footnotes(frame), **published.footnotes(rows)}
    return Table(TITLE, columns, tuple(rows), notes, footnotes_of(rows, texts)).ranked(within=partial(block_of, _BLOCK))


def _row(groups: list[DataFrame]) -> dict[str, Any]:
    first = groups[0].iloc[0]
    row: dict[str, Any] = {key: str(first[key]) for key in _SETTING}
    row["method"] = row.pop("title")
    for group in groups:
        name = group["protocol"].iloc[0]
        row[name] = accuracy(group)
        if row["method"] not in CONTROLS:
            row[f"{name}, over untrained"] = percent(group["accuracy"] - group["control_accuracy"])
    return row | of_evaluations(groups)


def _columns(protocols: list[str], rows: list[dict[str, Any]], varying: set[str]) -> Iterator[Column]:
    yield Column("method", "Method", leads=True)
    yield Column("source", "Trained on")
    yield Column("target", "Measured on")
    yield Column("split", "Split")
    yield Column("data", "Data version", shown="data" in varying)
    yield Column("changed", "Changed settings", shown="changed" in varying)
    yield Column("tokens", "Tokens")
    for key in _SHOWN:
        yield Column(key, key.capitalize(), shown=key in varying)
    yield Column("seeds", "Seeds")
    for name in protocols:
        yield Column(name, name, ".1f", best="max")
        yield Column(f"{name}, over untrained", "Over untrained", "+.1f")
    for key in dict.fromkeys(key for row in rows for key in row if key.startswith("paper ")):
        way = key.removeprefix("paper ")
        yield Column(key, _PAPER.get(way, f"Paper, {way}"), ".1f", published=True)
    yield Column("run", "Run")


def _beside(row: Mapping[str, Any], found: Mapping[str, published.Figure]) -> dict[str, Any]:
    """A row of runs with the published figures beside it, and marked where it is of another size than they are."""
    return {**row, **_paper(found), **({"method": smaller(row)} if found else {})}


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Method, source, target and split, with full names of splits."""
    return _text(row["method"]), _full(row["source"]), row["target"], full_name(row["split"])


def _full(source: str) -> str:
    dataset, _, split = source.rpartition(" ")
    return f"{dataset} {full_name(split)}"


def _figures(inputs: TableInputs) -> dict[tuple[str, ...], dict[str, published.Figure]]:
    """Published figures of the rows that plugins announce, by place and by how they were measured; the ``variant`` of
    one is ``from DATASET SPLIT``."""
    found: dict[tuple[str, ...], dict[str, published.Figure]] = {}
    for row in chain.from_iterable(study_rows.announced(inputs, NAME)):
        if row.printed and inputs.filters.takes(method=row.title):
            named = {"method": row.printed.method, "variant": row.printed.variant, "metric": "accuracy"}
            source = _full(row.printed.variant.removeprefix("from "))
            for one in published.load(inputs.host, row.printed.table, **named):
                place = row.title, source, one["dataset"], full_name(one["split"])
                found.setdefault(place, {}).setdefault(one["protocol"], one)
    return found


def _paper(found: Mapping[str, published.Figure]) -> dict[str, Cell]:
    return {
        f"paper {way}": Cell(one["value"], one["std"], published=True, footnotes=published.told(one))
        for way, one in found.items()
    }


def _text(value: Any) -> str:
    return str(value.value if isinstance(value, Cell) else value)
