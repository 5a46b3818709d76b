"""Builder of all tables of evaluations: columns define their values, blocks define rows that compete.

A table declares a :class:`Layout` and hands its rows to :func:`build`, which adjusts p-values (Holm) and compares
rows within blocks, adds rows of published results, hides columns without information and marks the best.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from skelbench.reporting import published, significance
from skelbench.reporting.seeds import (
    accuracy,
    adjust,
    alike,
    block_of,
    chance,
    every_seed,
    footnotes,
    hardware,
    over_raw,
    percent,
    subjects_note,
    word,
)
from skelbench.reporting.table import Cell, Column, Table, footnotes_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs


_HEADERS = {
    "dataset": "Dataset", "data": "Data version", "changed": "Changed settings", "protocol": "Probe", "frames": "T",
    "patch": "P_T", "timed": "Timed on", "memory_how": "Memory is", "asked": "Trials asked for",
}  # fmt: skip


def setting(key: str, **options: Any) -> Column:
    """A setting of training or evaluation as a column, shown if rows differ in it."""
    header = _HEADERS.get(key, key.replace("_", " ").capitalize())
    return Column(key, header, headed=f"{word(key)} ", **dict[str, Any](shown="varies") | options)


@dataclass(frozen=True)
class Measure:
    """A column and the function that fills it.

    >>> Measure(Column("seeds", "Seeds", "d"), len).key
    'seeds'
    """

    column: Column
    cell: Callable[[DataFrame], Any]
    """Function of the evaluations of one row, one per seed: its value or cell."""
    pick: Callable[[DataFrame], DataFrame | None] = lambda group: group
    """Return the evaluations of a row that have the metric; None = there are none."""
    predicted: str = ""
    """Name of the predictions that the accuracy belongs to; "" = no accuracy, so no tests between rows."""
    protocols: Sequence[str] = ()
    """Protocols that measure it, if a row has evaluations by several."""

    @property
    def key(self) -> str:
        return self.column.key


class Filled(NamedTuple):
    """A row and its evaluations; None = a row of published results, or a row without runs so far."""

    row: dict[str, Any]
    runs: DataFrame | None = None


@dataclass(frozen=True)
class Layout:
    """Definition of a table for any runs: its columns, blocks and texts."""

    title: str
    how: str
    """Note of an empty table: the commands that fill it."""
    columns: Sequence[Column | Measure]
    """A plain :class:`Column` is filled from the frame's column of the same key."""
    block: Sequence[str]
    """Columns in which competing rows agree; presets are compared without their changed settings."""
    notes: Sequence[str] = ()
    footnotes: Mapping[str, str] = field(default_factory=dict)
    ranks: bool = True
    """``--significance`` gives ranks and letters for the headline; False: letters for every accuracy."""
    against: bool = False
    """Whether it has columns for ``--against METHOD``."""
    order: Callable[[Mapping[str, Any]], Any] | None = None
    """Sort key of a row; None = as given."""


def probed(frame: DataFrame, **wanted: Any) -> DataFrame:
    """The evaluations by a linear probe whose columns have the ``wanted`` values."""
    frame = frame[frame["protocol"].astype(str).str.startswith("linear")]
    for key, value in wanted.items():
        frame = frame[frame[key] == value]
    return frame


def fill(columns: Iterable[Column | Measure], group: DataFrame) -> dict[str, Any]:
    """The cells of one row from its evaluations."""
    first, row = group.iloc[0], dict[str, Any]()
    for column in columns:
        if isinstance(column, Measure):
            picked = column.pick(group)
            row[column.key] = Cell() if picked is None else column.cell(picked)
        elif column.key in group:
            row[column.key] = str(first[column.key])
    return row


def over_seeds(columns: Sequence[Column | Measure], groups: Iterable[DataFrame]) -> list[Filled]:
    """A row for each of the groups of evaluations, which differ in the seed."""
    return [Filled(fill(columns, group), group) for group in groups]


def build(
    layout: Layout,
    rows: Sequence[Filled],
    inputs: TableInputs | None = None,
    *,
    notes: Sequence[str] = (),
    texts: Mapping[str, str] | None = None,
    show: Collection[str] = (),
) -> Table:
    """The table of ``layout`` with ``rows``. ``inputs`` names the requested comparisons; ``notes`` and ``texts``
    (of footnotes) come after the layout's; ``show``: keys of columns that are always shown. A note counts the
    subjects of the rows' evaluations."""
    import pandas

    columns = [*_expanded(layout, inputs)]
    if not any(_value(row.get("budget")) for row, _ in rows):  # rare, so only in CSV files that need it
        columns = [column for column in columns if column.key != "budget"]
    if not rows:
        columns_shown = tuple(replace(column, shown=column.shown is True) for column in columns)
        return Table(layout.title, columns_shown, notes=(layout.how,), footnotes=layout.footnotes)
    blocks = _blocks(layout.block, rows)
    for block in blocks:
        adjust([cell_row.row for cell_row in block])
    own = [row for row, _ in rows if not is_printed(row)] or [row for row, _ in rows]
    varying, constant = alike(own, [column.key for column in columns if column.shown == "varies"])
    sentences = [*_compared(layout, blocks, varying, inputs)] if inputs else []
    cells = [row for row, _ in rows]
    if layout.order:
        cells.sort(key=layout.order)
    filled = {key for row in cells for key, value in row.items() if _value(value) not in (None, "")}
    shows = {"varies": varying | {*show}, "filled": filled | {*show}}
    columns = [
        replace(column, shown=column.shown is True or column.key in shows.get(str(column.shown), show))
        for column in columns
    ]
    keys = {column.key for column in columns}
    shown_rows = tuple({key: value for key, value in row.items() if key in keys} for row in cells)
    runs = [filled.runs for filled in rows if filled.runs is not None and "subjects" in filled.runs]
    frame = pandas.concat(runs) if runs else None
    below = {**layout.footnotes, **(footnotes(frame) if frame is not None else {}), **(texts or {})}
    below |= published.footnotes(shown_rows)
    used = {note for column in columns for note in column.footnotes} | {*footnotes_of(shown_rows, below)}
    below = {key: text for key, text in below.items() if key in used}
    subjects = subjects_note(frame) if frame is not None else ()
    if frame is not None and (guessed := chance(frame)):
        constant.append(guessed)
    common = f"All rows: {', '.join(constant)}." if constant else ""
    every = (*sentences, *layout.notes, *notes, *subjects)
    table = Table(layout.title, tuple(columns), shown_rows, every, below, common)
    return table.ranked(within=partial(block_of, layout.block))


def is_printed(row: Mapping[str, Any]) -> bool:
    """Whether a row holds published results only."""
    method = row.get("method")
    return isinstance(method, Cell) and method.published


def _value(cell: Any) -> Any:
    return cell.value if isinstance(cell, Cell) else cell


def _expanded(layout: Layout, inputs: TableInputs | None) -> Iterator[Column]:
    """The columns, each accuracy followed by the columns of the comparisons that ``inputs`` asks for."""
    for column in layout.columns:
        yield column.column if isinstance(column, Measure) else column
        if inputs and isinstance(column, Measure) and column.predicted:
            if inputs.against and layout.against:
                title = inputs.host.spelling(inputs.against)
                yield Column("against", f"Over {title}", "+.1f", beside=("pm", "interval"), asked=True)
                yield Column("against_p", f"p over {title} (Holm)", ".2g", asked=True)
            if inputs.significance:
                yield from significance.RANKS if layout.ranks else (significance.letters_of(column.key),)


def _blocks(keys: Sequence[str], rows: Iterable[Filled]) -> list[list[Filled]]:
    """The rows that runs fill, block by block."""
    blocks: dict[tuple[str, ...], list[Filled]] = {}
    for filled in rows:
        if filled.runs is not None:
            blocks.setdefault(block_of(keys, filled.row), []).append(filled)
    return [*blocks.values()]


def _compared(
    layout: Layout, blocks: Sequence[Sequence[Filled]], varying: Collection[str], inputs: TableInputs
) -> Iterator[str]:
    """Fill the columns of ``--significance`` and ``--against``; yields the notes on them."""
    if inputs.significance:
        yield significance.HOW
        for block in blocks:
            yield from _significant(layout, block, varying, inputs)
        yield significance.TESTS
    if inputs.against and layout.against:
        for block in blocks:
            rows = [(row, runs) for row, runs in block if runs is not None]
            significance.mark_against(rows, inputs.against, inputs.store)
        yield significance.AGAINST.format(inputs.host.spelling(inputs.against))


def _significant(
    layout: Layout, block: Sequence[Filled], varying: Collection[str], inputs: TableInputs
) -> Iterator[str]:
    first = block[0].row
    place = [f"{first['dataset']} / {first['split']}"] if "dataset" in first else []
    place += [f"{key} {_value(first[key])}".removesuffix("+") for key in layout.block if key in varying]
    for measure in (measure for measure in layout.columns if isinstance(measure, Measure) and measure.predicted):
        present = [
            (row, picked) for row, runs in block if runs is not None and (picked := measure.pick(runs)) is not None
        ]
        values = [row[measure.key].value for row, _ in present]
        key = "letters" if layout.ranks else significance.letters_of(measure.key).key
        note = significance.mark(present, values, inputs.store, measure.predicted, key)
        where = ", ".join([*place, *([] if layout.ranks else [measure.column.header])])
        yield from [f"{where}: {note}"] if note else []


SEEDS = Measure(Column("seeds", "Seeds", "d", shown="varies"), len)
LINEAR = Measure(
    Column("accuracy", "Linear", ".1f", best="max", beside=("pm", "interval")), accuracy, predicted="predicted"
)
KNN = Measure(Column("knn", "1-NN", ".1f", best="max", beside=("pm",), bare=True), lambda group: percent(group["knn"]))
OVER_UNTRAINED = Measure(
    Column("difference", "Over untrained", "+.1f", beside=("pm",)),
    lambda group: percent(group["accuracy"] - group["control_accuracy"]),
)
P_VALUE = Measure(Column("p_value", "p (Holm)", ".2g"), every_seed)
OVER_RAW = Measure(Column("raw", "Over raw", "+.1f", shown="filled", beside=("pm",), bare=True), over_raw)
HARDWARE = Measure(setting("hardware", minor=True), hardware)
"""All hardware of a row: its seeds may come from several machines."""
RUN = Measure(Column("run", "Run"), lambda group: ", ".join(dict.fromkeys(map(str, group["run"]))))


def mean_of(column: Column, name: str, scale: float = 1.0, per: float = 1.0) -> Measure:
    """A column with the mean over seeds of the frame's column ``name``, in units of ``per`` / ``scale``; empty unless
    every seed has it."""
    return Measure(column, lambda group: scale * float(group[name].mean(skipna=False)) / per)
