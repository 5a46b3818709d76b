"""``compare --table transfer``: runs that were measured on other data than they were trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from skelbench.data.store.splits import full_name
from skelbench.plugin import TableSpec, hookimpl
from skelbench.reporting import builder, published
from skelbench.reporting.columns import Measured, changed_text, seeds_text, size_footnotes, smaller, trainings
from skelbench.reporting.controls import CONTROLS, controls_beside
from skelbench.reporting.seeds import INTERVALS
from skelbench.reporting.study_rows import figures_of
from skelbench.reporting.table import Cell, Column, Table

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
    f"{INTERVALS} Over untrained: minus the same encoder as initialised, measured the same way."
)
PRINTED = (
    "not run here: the published figures only; `skelbench study transfer` trains the encoders that are here, and says "
    "how each is measured"
)
_SHOWN = ["preset", "hardware", "setting", "encoder", "stream", "checkpoint"]
_SETTING = ["title", "source", "target", "split", "data", "tokens", *_SHOWN]
_BLOCK = ["source", "target", "split", "data", "setting", "encoder", "stream", "checkpoint", "preset"]
_PAPER = {"linear": "Paper, frozen", "finetune": "Paper, fine-tuned"}


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "runs on other data than they were trained on: source, target, a column for each protocol, papers' beside"
    return [TableSpec(name=NAME, target=":table", summary=summary)]


def table(inputs: TableInputs) -> Table:
    """A row per setting, source and target; a column, with the lead over the untrained encoder, per protocol that
    measures on other data. Published figures have a column per way of measuring."""
    frame = inputs.frame
    elsewhere = {one.name for one in inputs.host.all("protocols") if getattr(one, "elsewhere", False)}
    frame = frame[frame["protocol"].isin(elsewhere) & (frame["source"] != "")]
    if frame.empty:
        return Table(TITLE, (), notes=(HOW,))
    targets = [text.removesuffix(f" (from {source})") for text, source in zip(frame["dataset"], frame["source"])]
    frame = controls_beside(frame.assign(target=targets))
    figures = _figures(inputs)
    columns = _columns(sorted(set(frame["protocol"])))
    rows = builder.over_seeds([*columns, builder.RUN], trainings(frame, _SETTING))
    places = {_place(row)[1:]: row for row, _ in rows}
    measured = {_place(row) for row, _ in rows}
    for row, _ in rows:
        row["dataset"] = row["target"]
        if found := figures.get(_place(row)):
            row |= _paper(found) | {"method": smaller(row)}
    for place, found in figures.items():
        if place not in measured and (beside := places.get(place[1:])):
            shown = {key: Cell(beside[key], published=True) for key in ("source", "target", "split")}
            method = Cell(place[0], published=True, footnotes=("printed",))
            rows.append(builder.Filled({**shown, "method": method, **_paper(found)}))
    ways = dict.fromkeys(key for row, _ in rows for key in row if key.startswith("paper "))
    headers = {key: _PAPER.get(key.removeprefix("paper "), f"Paper, {key.removeprefix('paper ')}") for key in ways}
    papers = [Column(key, header, ".1f", published=True) for key, header in headers.items()]
    columns += [*papers, builder.RUN]
    layout = builder.Layout(TITLE, HOW, columns, _BLOCK, (NOTE,), ranks=False, order=_order)
    notes = [*published.notes(inputs.host, NAME)] if papers else []
    texts = {"printed": PRINTED, **size_footnotes([row for row, _ in rows if not builder.is_printed(row)])}
    return builder.build(layout, rows, notes=notes, texts=texts, frame=frame)


def _columns(protocols: Sequence[str]) -> list[Column | builder.Measure]:
    measures = [Measured(name, name, (name,)).measure() for name in protocols]
    leads = [
        builder.Measure(Column(f"{one.key}, over untrained", "Over untrained", "+.1f"), _over_untrained, one.pick)
        for one in measures
    ]
    return [
        builder.Measure(Column("method", "Method", leads=True), lambda group: Cell(group["title"].iloc[0])),
        Column("source", "Trained on"),
        Column("target", "Measured on"),
        Column("split", "Split"),
        builder.setting("data"),
        builder.Measure(builder.setting("changed"), partial(changed_text, measures)),
        Column("tokens", "Tokens"),
        *map(builder.setting, _SHOWN),
        builder.Measure(Column("seeds", "Seeds"), partial(seeds_text, measures)),
        *(one for pair in zip(measures, leads, strict=True) for one in pair),
    ]


def _over_untrained(group: DataFrame) -> Cell:
    return Cell() if group["title"].iloc[0] in CONTROLS else builder.OVER_UNTRAINED.cell(group)


def _order(row: Mapping[str, Any]) -> list[str]:
    return [str(row[key].value if isinstance(row[key], Cell) else row[key]) for key in ("source", "target", "split")]


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Method, source, target and split, with full names of splits."""
    return row["method"].value, _full(row["source"]), row["target"], full_name(row["split"])


def _full(source: str) -> str:
    dataset, _, split = source.rpartition(" ")
    return f"{dataset} {full_name(split)}"


def _figures(inputs: TableInputs) -> dict[tuple[str, ...], dict[str, published.Figure]]:
    """Published figures of the rows that plugins announce, by place and by how they were measured; the ``variant`` of
    one is ``from DATASET SPLIT``."""
    found: dict[tuple[str, ...], dict[str, published.Figure]] = {}
    for row, figures in figures_of(inputs, NAME):
        for one in figures:
            source = _full(one["variant"].removeprefix("from "))
            place = row.title, source, one["dataset"], full_name(one["split"])
            found.setdefault(place, {}).setdefault(one["protocol"], one)
    return found


def _paper(found: Mapping[str, published.Figure]) -> dict[str, Cell]:
    return {f"paper {way}": published.cell(one) for way, one in found.items()}
