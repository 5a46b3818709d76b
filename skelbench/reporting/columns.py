"""Tables with a row per method and a column per protocol or metric, next to published results.

Published results are rows of their own, in italics, below the runs of the same method; plugins announce which result
belongs in which column (:class:`~skelbench.reporting.study_rows.Row` with the labels ``column`` and ``stream``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from skelbench.data.store.splits import full_name
from skelbench.reporting import published, seeds
from skelbench.reporting.builder import HARDWARE, Filled, Layout, Measure, build, is_printed, over_seeds, setting
from skelbench.reporting.controls import CONTROLS, controls_beside
from skelbench.reporting.seeds import INTERVALS, accuracy, seeds_of
from skelbench.reporting.study_rows import Row, figures_of
from skelbench.reporting.table import Cell, Column, Table

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

_SHOWN = ("setting", "preset", "budget", "encoder", "stream", "checkpoint")
BLOCK = ("dataset", "split", "data", "setting", "encoder", "stream", "checkpoint", "preset", "budget")
"""Columns in which competing rows agree; presets are compared without their changed settings."""
PRINTED = "published, not measured here: at the full size, mostly at the best epoch on test (rows of runs: the last)"
SMALLER = "preset {}: neither the size nor the training of the published rows"


def measured(key: str, header: str, protocols: Sequence[str], metric: str = "", predicted: str = "") -> Measure:
    """The headline of ``protocols`` as a column, or their metric ``metric``, from the protocol with most seeds.
    ``predicted``: name of the predictions whose accuracy the metric is."""

    def pick(group: DataFrame) -> DataFrame | None:
        groups = (group[group["protocol"] == name] for name in protocols)
        has = (rows for rows in groups if len(rows) and all(not metric or metric in m for m in rows["measures"]))
        return max(has, key=len, default=None)

    column = Column(key, header, ".1f", best="max")
    tested = predicted or ("" if metric else "predicted")
    return Measure(column, partial(_metric, name=metric) if metric else accuracy, pick, tested, protocols)


def _metric(group: DataFrame, name: str) -> Cell:
    """Mean of a metric with its t interval over seeds; with one seed, the spread over draws."""
    cell, sd = seeds.metric(group, name), group["measures"].iloc[0].get(f"{name}_sd") if len(group) == 1 else None
    if not sd:
        return cell
    half = sd[0] * (100 if sd[1].share else 1)
    return replace(cell, plus_minus=half, plus_minus_over="corruption draws (sd)", footnotes=("sd",))


PLACE = (setting("dataset", leads=True), setting("split", leads=True))
"""Columns of the data that a row is tested on."""


@dataclass(frozen=True)
class ColumnTable:
    """Definition of a table; called with the inputs it makes the table."""

    name: str
    title: str
    columns: Callable[[DataFrame], Sequence[Measure]]
    """The columns, for the evaluations that there are."""
    how: str
    """Note of a table without runs: commands that fill it."""
    notes: Sequence[str] = ()
    titles: Sequence[str] = ()
    """Names of the only methods in the table; () = all."""
    block: Sequence[str] = BLOCK
    """Columns in which competing rows agree."""
    place: Sequence[Column] = PLACE
    """Columns that a published result and its row have in common."""
    extra: Sequence[Measure] = ()
    """Columns behind the protocols."""

    def __call__(self, inputs: TableInputs) -> Table:
        """The table of the evaluations in ``inputs``; without any, of the published results."""
        frame = self.evaluations(inputs)
        columns = self.columns(frame)
        protocols = {name for column in columns for name in column.protocols}
        frame = controls_beside(frame[frame["protocol"].isin(protocols)])
        keys = {column.key for column in columns}
        layout = self._layout(columns)
        setting = ["title", *self.keys, "data", "tokens", *_SHOWN]
        rows = over_seeds(layout.columns, trainings(frame, setting))
        rows = [filled for filled in rows if any(filled.row[key].value is not None for key in keys)]
        own = [row for row, _ in rows]
        papers = [row for row in self._papers(inputs, own) if keys & row.keys()]
        for row in own if papers else ():
            row["method"] = _smaller(row)
        empty = {key for key in keys if not any(_filled(row.get(key)) for row in (*papers, *own))}
        layout = replace(layout, columns=[column for column in layout.columns if column.key not in empty])
        notes = [
            *([] if rows else [self.how]),
            *(self.notes if rows or papers else ()),
            *([INTERVALS] if rows else []),
            *(published.notes(inputs.host, self.name) if papers else ()),
        ]
        studied = self.name in inputs.host.names("studies")
        also = f"; `skelbench study {self.name}` runs the implemented methods" if studied else ""
        presets = sorted({row["preset"].removesuffix("+") for row in own})
        texts = {"printed": PRINTED + also, **{f"preset {preset}": SMALLER.format(preset) for preset in presets}}
        show = {"stream"} if any(row["stream"] != "joint" for row in papers) else set()
        every = [*rows, *map(Filled, papers)]
        return build(layout, every, inputs, notes=notes, texts=texts, show=show)

    def evaluations(self, inputs: TableInputs) -> DataFrame:
        """Return the evaluations for this table."""
        frame = inputs.compared
        return frame[frame["title"].isin(list(self.titles))] if self.titles else frame

    def published_at(self, row: Row, figure: published.Figure) -> tuple[str, Mapping[str, str]]:
        """Column of a published result of ``row``, and its ``place``."""
        return row.labels["column"], {"dataset": figure["dataset"], "split": figure["split"]}

    @property
    def keys(self) -> list[str]:
        """Keys of the columns ``place``."""
        return [column.key for column in self.place]

    def _layout(self, measures: Sequence[Measure]) -> Layout:
        columns: tuple[Column | Measure, ...] = (
            Measure(Column("method", "Method", leads=True), lambda group: Cell(group["title"].iloc[0])),
            *self.place,
            setting("data", leads=True),
            Measure(setting("changed", leads=True), partial(_changed, measures)),
            setting("tokens", leads=True),
            *(setting(key, leads=key == "budget") for key in _SHOWN),
            HARDWARE,
            Measure(Column("seeds", "Seeds", shown="filled"), partial(_seeds, measures)),
            *measures,
            *self.extra,
            Measure(Column("run", "Run", shown="filled"), partial(_runs, measures)),
        )
        footnotes = {"sd": "one seed: ± is the standard deviation over draws of the corruption"}
        return Layout(self.title, self.how, columns, self.block, footnotes=footnotes, ranks=False, order=self._order)

    def _papers(self, inputs: TableInputs, own: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Rows of published results by method, stream and place: places with runs, or all if there are no runs."""
        places = {self._full(row): row for row in own}
        rows: dict[tuple[str, ...], dict[str, Any]] = {}
        for row, figures in figures_of(inputs, self.name):
            stream = row.labels.get("stream", "joint")
            for figure in figures:
                column, place = self.published_at(row, figure)
                full = self._full(place)
                if places and full not in places:
                    continue
                name = figure["method"] + (f":{row.variant}" if row.variant else "")
                first = {
                    "title": row.title,
                    "method": Cell(name, published=True, footnotes=("printed",)),
                    **{key: Cell(places.get(full, place)[key], published=True) for key in self.keys},
                    "stream": stream,
                }
                rows.setdefault((row.title, stream, *full), first).setdefault(column, published.cell(figure))
        yield from rows.values()

    def _full(self, place: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the place with full names of splits, also after a dataset (``ntu60 xsub``)."""
        return tuple(" ".join(map(full_name, place[key].split(" "))) for key in self.keys)

    def _order(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Sort key: place, baselines last, a published row below the runs of its method."""
        places = (str(row[key].value if isinstance(row[key], Cell) else row[key]) for key in self.keys)
        title = row["title"] if is_printed(row) else row["method"].value
        return *places, title in CONTROLS, title, is_printed(row), row["stream"]


def trainings(frame: DataFrame, keys: Sequence[str]) -> Iterator[DataFrame]:
    """The evaluations of one row of a table: by each protocol, over the seeds of one training. A protocol with several
    settings (``compare --all``) has a row for each."""
    import pandas

    for _, rows in frame.groupby([*keys, "training"], dropna=False, sort=False):
        groups = list(seeds_of(rows, ["protocol"]))
        if len({group["protocol"].iloc[0] for group in groups}) < len(groups):
            yield from groups
        else:
            yield pandas.concat(groups)


def _picked(measures: Sequence[Measure], group: DataFrame) -> list[DataFrame]:
    """Return the evaluations of a row that some column shows."""
    return [picked for measure in measures if (picked := measure.pick(group)) is not None] or [group]


def _changed(measures: Sequence[Measure], group: DataFrame) -> str:
    """Changed settings of the evaluations behind the shown numbers."""
    return "; ".join(dict.fromkeys(text for picked in _picked(measures, group) for text in picked["changed"] if text))


def _seeds(measures: Sequence[Measure], group: DataFrame) -> int | str:
    """Number of seeds behind the shown numbers: ``3``, or ``1 to 3``."""
    counts = {len(picked) for picked in _picked(measures, group)}
    return counts.pop() if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def _runs(measures: Sequence[Measure], group: DataFrame) -> str:
    """Names of the runs behind the shown numbers."""
    return ", ".join(dict.fromkeys(str(run) for picked in _picked(measures, group) for run in picked["run"]))


def _smaller(row: Mapping[str, Any]) -> Cell:
    """The name of a row of runs next to published rows; runs of another size are marked."""
    preset, cell = row["preset"].removesuffix("+"), row["method"]
    if preset in published.SIZES or cell.value in CONTROLS:
        return cell
    return replace(cell, footnotes=(*cell.footnotes, f"preset {preset}"))


def _filled(value: Any) -> bool:
    return isinstance(value, Cell) and value.value is not None
