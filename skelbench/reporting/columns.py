"""Tables with a row per method and a column per protocol, or per figure of one; papers' figures beside.

Published figures are rows of their own, in italics, below the runs of the same method; plugins announce which figure
belongs in which column (:class:`~skelbench.reporting.study_rows.Row` with the labels ``column`` and ``stream``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from skelbench.core.text import counted
from skelbench.data.store.splits import full_name
from skelbench.reporting import published, significance, study_rows
from skelbench.reporting.controls import CONTROLS, controls_beside
from skelbench.reporting.seeds import (
    INTERVALS,
    accuracy,
    alike,
    all_rows,
    block_of,
    footnotes,
    seeds_of,
    spread,
    subjects_note,
)
from skelbench.reporting.table import Cell, Column, Table, footnotes_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

_SHOWN = {
    "setting": "Setting", "preset": "Preset", "encoder": "Encoder", "stream": "Stream", "checkpoint": "Checkpoint",
    "hardware": "Hardware",
}  # fmt: skip
_SETTING = ["title", "dataset", "split", "data", "tokens", *_SHOWN]
_BLOCK = ["dataset", "split", "data", "setting", "encoder", "stream", "checkpoint", "preset"]
"""What rows that compete have in common; of presets the name without its changes."""
LETTERS = "_letters"
HOW = (
    "Letters behind a figure: rows that share one are not told apart by it, rows that share none are: paired tests of "
    "all pairs of a block (data set, split, preset, ...) over the seeds that both have, the larger p of clips and "
    f"subjects, Holm-adjusted to {100 * significance.ALPHA:.0f} % for the block and figure."
)
PRINTED = (
    "published, not measured here: at the full size and, where something is trained for it, mostly of the best epoch "
    "on test, where rows of runs have the last"
)
"""Footnote of figures that stand in one column with those of runs."""
SMALLER = "preset {}: neither the size nor the training of the published rows"
_FOOTNOTES = {
    "printed": PRINTED,
    "sd": "of one seed: ± is the standard deviation over draws of the corruption",
}


@dataclass(frozen=True)
class Measured:
    """One column: the headline of a protocol, or one of its further figures.

    >>> Measured("map", "mAP", ("retrieval",), "map").header
    'mAP'
    """

    key: str
    header: str
    protocols: Sequence[str]
    """Those that measure it; of as many seeds the first of them goes before the others."""
    metric: str = ""
    """Name of the figure; "" = the headline accuracy."""
    predicted: str = ""
    """By which name an evaluation holds the predictions that the figure is the accuracy of, if it does; the headline's
    are known."""


@dataclass(frozen=True)
class ColumnTable:
    """What a table shows; called with the inputs it makes the table."""

    name: str
    title: str
    columns: Callable[[DataFrame], Sequence[Measured]]
    """The columns, for the evaluations that there are."""
    how: str
    """What fills it, told where no run does."""
    notes: Sequence[str] = ()
    titles: Sequence[str] = ()
    """The only methods that it is about; () = every one."""
    figures_differ: bool = False
    """Whose published figures are, and how they came about, differs: what is to be known of each is a footnote."""

    def __call__(self, inputs: TableInputs) -> Table:
        """The table of the evaluations in ``inputs``; without any, of the published figures."""
        return build(self, inputs)


def settings(frame: DataFrame, keys: Sequence[str]) -> Iterator[list[DataFrame]]:
    """Rows of the frame that make one row of a table: those of each protocol, over seeds, of trainings that are alike.
    Where one protocol has several settings (``compare --all``), each is a row of its own."""
    for _, setting in frame.groupby([*keys, "training"], dropna=False, sort=False):
        groups = list(seeds_of(setting, ["protocol"]))
        names = [group["protocol"].iloc[0] for group in groups]
        if len(set(names)) < len(names):
            yield from ([group] for group in groups)
        else:
            yield groups


def build(about: ColumnTable, inputs: TableInputs) -> Table:
    """The table ``about``."""
    frame = inputs.frame
    if about.titles:
        frame = frame[frame["title"].isin(list(about.titles))]
    columns = about.columns(frame)
    frame = controls_beside(frame[frame["protocol"].isin({name for column in columns for name in column.protocols})])
    keys = {column.key for column in columns}
    grouped = [*settings(frame, _SETTING)]
    made = [(row, groups) for groups in grouped if keys & (row := _row(columns, groups)).keys()]
    told = [*_told_apart(columns, made, inputs)] if inputs.significance else []
    own = [row for row, _ in made]
    papers = [row for row in _papers(about, inputs, own) if keys & row.keys()]
    if papers:
        own = [row | {"method": smaller(row)} for row in own]
    rows = sorted([*own, *papers], key=_place)
    varying, constant = alike(own, [*_SHOWN, "data", "changed"]) if own else (set[str](), [])
    if any(row["stream"] != "joint" for row in papers):
        varying.add("stream")
    used = [column for column in columns if any(column.key in row for row in rows)]
    shown = [{key: value for key, value in row.items() if key != "title"} for row in rows]
    gone = counted(inputs.left_out, "run")
    changed = f"Left out: {gone} with settings changed from their preset or protocol; see --all."
    notes = (
        *([] if own else [about.how]),
        *all_rows(constant),
        *(about.notes if rows else ()),
        *((INTERVALS, *subjects_note(frame)) if own else ()),
        *told,
        *(published.notes(inputs.host, about.name) if papers else ()),
        *([changed] if inputs.left_out else []),
    )
    studied = about.name in inputs.host.names("studies")
    texts = _FOOTNOTES | footnotes(frame) | size_footnotes(own) | published.footnotes(shown)
    texts["printed"] += f"; `skelbench study {about.name}` runs the methods that are here" if studied else ""
    texts = footnotes_of(shown, texts)
    shown_columns = _columns(used, varying, bool(own), inputs.significance)
    table = Table(about.title, shown_columns, tuple(shown), notes, texts)
    return table.ranked(within=partial(block_of, _BLOCK))


def _told_apart(
    columns: Sequence[Measured], made: Sequence[tuple[dict[str, Any], list[DataFrame]]], inputs: TableInputs
) -> Iterator[str]:
    """Give the rows letters for every figure that is the accuracy of predictions; what is to be said of them."""
    yield HOW
    blocks: dict[tuple[str, ...], list[tuple[dict[str, Any], dict[str, DataFrame]]]] = {}
    for row, groups in made:
        blocks.setdefault(block_of(_BLOCK, row), []).append(
            (row, {group["protocol"].iloc[0]: group for group in groups})
        )
    for rows in blocks.values():
        where = significance.place(rows[0][0], ["dataset", "split", "preset"])
        for column in (column for column in columns if column.predicted or not column.metric):
            there = [(row, group) for row, by in rows if (group := _group(column, by)) is not None]
            for row, _ in rows if there else ():
                row[column.key + LETTERS] = ""
            if len(there) < 2:
                continue
            values = [row[column.key].value for row, _ in there]
            groups = [group for _, group in there]
            found = significance.apart(values, groups, inputs.store, column.predicted or "predicted")
            for (row, _), name in zip(there, found.letters, strict=True):
                row[column.key + LETTERS] = name
            if said := " ".join(filter(None, (found.detectable if not column.metric else "", found.missing))):
                yield f"{where}, {column.header}: {said}"


def smaller(row: Mapping[str, Any]) -> Cell:
    """The name of a row of runs that stands with published ones, marked unless it is of their size."""
    cell = row["method"] if isinstance(row["method"], Cell) else Cell(row["method"])
    preset = row["preset"].removesuffix("+")
    if preset in published.SIZES or row["method"] in CONTROLS:
        return cell
    return replace(cell, footnotes=(*cell.footnotes, f"preset {preset}"))


def size_footnotes(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The footnotes that :func:`smaller` may give."""
    presets = sorted({row["preset"].removesuffix("+") for row in rows if row.get("preset")})
    return {f"preset {preset}": SMALLER.format(preset) for preset in presets}


def _row(columns: Sequence[Measured], groups: Sequence[DataFrame]) -> dict[str, Any]:
    first = groups[0].iloc[0]
    by_protocol = {group["protocol"].iloc[0]: group for group in groups}
    cells = {column.key: cell for column in columns if (cell := _cell(column, by_protocol)).value is not None}
    shown = [group for column in columns if (group := _group(column, by_protocol)) is not None]
    return {
        **{key: str(first[key]) for key in _SETTING},
        "method": str(first["title"]),
        **cells,
        **of_evaluations(shown or groups),
    }


def of_evaluations(groups: Sequence[DataFrame]) -> dict[str, Any]:
    """What one row says of all its evaluations, of which each of ``groups`` are those of one figure over seeds."""
    fewest, most = min(map(len, groups)), max(map(len, groups))
    return {
        "changed": "; ".join(dict.fromkeys(text for group in groups for text in group["changed"] if text)),
        "seeds": most if fewest == most else f"{fewest} to {most}",
        "run": ", ".join(dict.fromkeys(str(run) for group in groups for run in group["run"])),
    }


def _group(column: Measured, groups: Mapping[str, DataFrame]) -> DataFrame | None:
    """The evaluations that a column shows, of those of a row by protocol: those of most seeds."""
    there = (group for name in column.protocols if (group := groups.get(name)) is not None)
    has = (group for group in there if all(not column.metric or column.metric in each for each in group["measures"]))
    return max(has, key=len, default=None)


def _cell(column: Measured, groups: Mapping[str, DataFrame]) -> Cell:
    if (group := _group(column, groups)) is None:
        return Cell()
    return _further(column.metric, list(group["measures"])) if column.metric else accuracy(group)


def _further(name: str, found: Sequence[Mapping[str, Any]]) -> Cell:
    """A figure in percent if it is a share: its t interval over seeds, of one seed its spread over draws."""
    scale = 100 if found[0][name][1].share else 1
    cell = spread([scale * each[name][0] for each in found])
    if len(found) == 1 and (sd := found[0].get(f"{name}_sd")):
        half = scale * sd[0]
        return replace(cell, plus_minus=half, plus_minus_over="corruption draws (sd)", footnotes=("sd",))
    return cell


def _papers(about: ColumnTable, inputs: TableInputs, own: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Published figures by method, stream, data set and split; those of places where there are runs, or all."""
    places = {(row["dataset"], full_name(row["split"])): row["split"] for row in own}
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in chain.from_iterable(study_rows.announced(inputs, about.name)):
        if row.printed is None or not inputs.filters.takes(method=row.title):
            continue
        stream = row.labels.get("stream", "joint")
        named = {"method": row.printed.method, "variant": row.printed.variant, "metric": "accuracy"}
        for one in published.load(inputs.host, row.printed.table, **named):
            place = one["dataset"], full_name(one["split"])
            if places and place not in places or not inputs.filters.takes(dataset=one["dataset"]):
                continue
            made = rows.setdefault(
                (row.title, stream, *place),
                {
                    "title": row.title,
                    "method": Cell(_spelt(row, one), published=True, footnotes=("printed",)),
                    "dataset": Cell(one["dataset"], published=True),
                    "split": Cell(places.get(place, one["split"]), published=True),
                    "stream": stream,
                },
            )
            told = published.told(one) if about.figures_differ else ()
            made.setdefault(row.labels["column"], Cell(one["value"], one["std"], published=True, footnotes=told))
    yield from rows.values()


def _spelt(row: study_rows.Row, one: published.Figure) -> str:
    return one["method"] + (f":{row.variant}" if row.variant else "")


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """In blocks; controls last; a paper's row below those of the same method."""

    def text(key: str) -> str:
        value = row.get(key, "")
        return str(value.value if isinstance(value, Cell) else value)

    return text("dataset"), text("split"), row["title"] in CONTROLS, row["title"], "run" not in row, text("stream")


def _with_letters(column: Measured, lettered: bool) -> Iterator[Column]:
    yield Column(column.key, column.header, ".1f", best="max")
    if lettered and (column.predicted or not column.metric):
        yield Column(column.key + LETTERS, "Letters", minor=True)


def _columns(used: Sequence[Measured], varying: set[str], own: bool, lettered: bool = False) -> tuple[Column, ...]:
    return (
        Column("method", "Method", leads=True),
        Column("dataset", "Data set", leads=True),
        Column("split", "Split", leads=True),
        Column("data", "Data version", shown="data" in varying, leads=True),
        Column("changed", "Changed settings", shown="changed" in varying, leads=True),
        Column("tokens", "Tokens", shown=own),
        *(Column(key, header, shown=key in varying) for key, header in _SHOWN.items()),
        Column("seeds", "Seeds", shown=own),
        *chain.from_iterable(_with_letters(column, lettered) for column in used),
        Column("run", "Run", shown=own),
    )
