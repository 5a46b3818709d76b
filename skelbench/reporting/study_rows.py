"""Tables of studies: a list of declared rows, each filled by the runs of one exact preset and variant.

Runs are compared in blocks that agree in dataset, split, preset, encoder, stream and probe (ablations: and in the
token grid). Within a block a row is the mean over all seeds of its runs; nothing is chosen by its accuracy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from skelbench.core.spec import titled
from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.outcomes import paired_over_seeds
from skelbench.plugin.descriptors import RowsSpec
from skelbench.plugin.host import Host
from skelbench.records.errors import if_whole
from skelbench.records.store import ResultStore
from skelbench.reporting import builder, published
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.seeds import INTERVALS, OLDER, difference, newest, with_other_protocols
from skelbench.reporting.table import Cell, Column, Table

if TYPE_CHECKING:
    from pandas import DataFrame

BLOCK = (
    "dataset", "split", "tokens", "frames", "patch", "preset", "budget", "encoder", "stream", "protocol", "data",
)  # fmt: skip
"""Columns in which rows of a block agree."""

PAPER = {
    ("accuracy", "xsub"): "paper_xsub",
    ("accuracy", "xview"): "paper_xview",
    ("accuracy", "xsub+xview mean"): "paper_mean",
    ("encoder_gflops", ""): "paper_gflops",
}
"""(metric, split) of published tables -> column."""
PAPER_COLUMNS = {
    key: Column(key, f"Paper: {header}", format, published=True, footnotes=("size",))
    for key, header, format in (
        ("paper_xsub", "X-Sub", ".1f"),
        ("paper_xview", "X-View", ".1f"),
        ("paper_mean", "average", ".2f"),
        ("paper_gflops", "GFLOPs", ".2f"),
    )
}

FOOTNOTES = {
    "shared": "over the seeds that both rows have, which are not all of them",
    "size": "published at the full size (presets `paper` and `ablation`)",
    "untrained": "not significantly better than the untrained encoder: paired p > 0.05, or untested, for one seed",
}
NOTES = (
    "Linear: after the probe's last step. Over untrained: minus the untrained encoder of the same shape, data and "
    "seed; over raw: minus the clip's coordinates, no network. "
    "p: exact sign-flip test over test clips and over subjects, the larger of both. Brackets and p apply to these "
    "trained encoders, not to other pre-training seeds.",
    f"GFLOPs: clips of {BODIES} bodies, matrix products, 2 per multiply-accumulate; step: all of a training step.",
)


@dataclass(frozen=True)
class Printed:
    """Published results of a row: a published table, and method and variant as spelled there.

    >>> Printed("slim-token_budget", "MAMP", "8x25").method
    'MAMP'
    """

    table: str
    method: str
    variant: str

    def figures(self, host: Host, **filters: Any) -> list[published.Figure]:
        """The published results, in the paper's order."""
        return published.load(host, self.table, method=self.method, variant=self.variant, **filters)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a study: the runs that fill it, its cells, and the published results next to it.

    >>> Row(method="slim", variant="glcl-only", grid=(64, 8)).title
    'slim:glcl-only'
    """

    labels: Mapping[str, Any] = field(default_factory=dict)
    """Column key -> text or number that is shown."""
    method: str
    variant: str = ""
    grid: tuple[int, int] | None = None
    """Clip length T and patch P_T; None = the grid of the block."""
    against: int | None = None
    """Place of the row that it is tested against, among the rows that are declared together."""
    printed: Printed | None = None
    """Its published results."""
    expected: bool = True
    """Whether it is shown without a run."""
    planned: bool = True
    """Whether the study of the table's name runs it."""

    @property
    def title(self) -> str:
        """Method and variant as they are typed."""
        return titled(self.method, self.variant)

    @property
    def tokens(self) -> int:
        """Temporal tokens; 0 = as in the block."""
        return self.grid[0] // self.grid[1] if self.grid else 0

    def fits(self, frame: DataFrame) -> DataFrame:
        """The evaluations in ``frame`` of runs of this row."""
        matches = (frame["method"] == self.method) & (frame["variant"] == self.variant)
        if self.grid:
            matches &= (frame["frames"] == self.grid[0]) & (frame["patch"] == self.grid[1])
        return frame[matches]


@dataclass(frozen=True)
class StudyTable:
    """Definition of a study's table; called with the inputs it makes the table."""

    name: str
    """Name of the table, and of the study that runs it."""
    title: str
    rows: Sequence[Row] | Callable[[DataFrame], Sequence[Row]]
    """The rows, or a function that makes them for the runs of a block."""
    labels: Sequence[Column]
    against: str
    """Header of the differences: "Over ..."."""
    paper: Sequence[Column] = ()
    block: Sequence[str] = BLOCK
    extra: Sequence[Column] = ()
    measure: Callable[[DataFrame, ResultStore], Mapping[str, Any]] | None = None
    """Cells of the ``extra`` columns for the runs of a row."""
    notes: Sequence[str] = ()
    footnotes: Mapping[str, str] = field(default_factory=dict)
    shown: Sequence[str] = ()
    """Keys of optional columns to show, such as ``batch_size``; by default these are in CSV and JSON only."""

    def __call__(self, inputs: TableInputs) -> Table:
        """The declared rows, filled block by block. Changed settings (``compare --all``) have blocks of their own."""
        headline = builder.probed(with_other_protocols(inputs.compared), checkpoint="last", setting="shared")
        headline = headline.assign(exact=headline["exact"].astype(bool) | (headline["budget"] != ""))
        changed = ~headline["exact"]
        plain = headline.assign(preset=headline["preset"].astype(str).str.removesuffix("+"))
        keys = [*(plain[key] for key in self.block), changed, plain["changed"].where(changed, "")]
        layout, filled, older = self.layout(), list[builder.Filled](), list[str]()
        for _, block in headline.groupby(keys, dropna=False):
            filled += self._filled(block, layout, inputs, older)
        notes = [INTERVALS, f'p of "{self.against}": Holm-adjusted over the rows of a heading.']
        if any(runs is None for _, runs in filled):
            notes.append(f"Rows without numbers have no run yet; see `skelbench study {self.name} --dry-run`.")
        if older:
            notes.append(f"{OLDER[0].upper()}{OLDER[1:]} {', '.join(older)}.")
        if any(column.key in row for row, _ in filled for column in self.paper):
            notes += published.notes(inputs.host, self.name)
        return builder.build(layout, filled, inputs, notes=[*notes, *self.notes, *NOTES, *_versions(filled)])

    def _filled(
        self, block: DataFrame, layout: builder.Layout, inputs: TableInputs, older: list[str]
    ) -> Iterator[builder.Filled]:
        """The rows of one block, tested among each other; rows without a run only with default evaluations. Names of
        runs that later runs of the same rows replace are added to ``older``."""
        rows, replaced = list(self.rows(block) if callable(self.rows) else self.rows), list[str]()
        runs = [newest(row.fits(block), replaced) for row in rows]
        filled = [row for row, group in zip(rows, runs, strict=True) if group is not None]
        first, takes = block.iloc[0], inputs.filters.takes
        if len(filled) < 2 and not (first["exact"] and any(row.against is not None for row in filled)):
            return
        older += replaced
        usual = first["exact"] and not first["source"] and (first["protocol"], first["stream"]) == ("linear", "joint")
        for row, group in zip(rows, runs, strict=True):
            if group is not None:
                cells = builder.fill(layout.columns, group) | {
                    key: int(group[key].iloc[0]) for key in ("frames", "patch")
                }
                cells |= self.measure(group, inputs.store) if self.measure else {}
                cells |= self._labels(row, group, inputs.host)
                if row.against is not None and (baseline := runs[row.against]) is not None:
                    cells |= _test(group, baseline, inputs.store)
                yield builder.Filled(cells | {"tokens": group["tokens"].iloc[0]}, group)
            elif usual and row.expected and takes(method=row.title):
                common = {key: first[key] for key in self.block}
                yield builder.Filled(common | {"changed": ""} | self._labels(row, block, inputs.host))

    def _labels(self, row: Row, runs: DataFrame, host: Host) -> dict[str, Any]:
        """Title, grid and labels of a row, and its published results. Accuracies are on the dataset of ``runs``; costs
        do not depend on it."""
        grid = {"frames": row.grid[0], "patch": row.grid[1]} if row.grid else {}
        cells = {"title": row.title, **grid, **row.labels}
        columns, dataset = {column.key for column in self.paper}, runs["dataset"].iloc[0]
        for figure in row.printed.figures(host) if row.printed else ():
            key = PAPER.get((figure["metric"], figure["split"]))
            if key in columns and (figure["metric"] != "accuracy" or figure["dataset"] == dataset):
                cells[key] = Cell(figure["value"], figure["std"], published=True)
        return cells

    def layout(self) -> builder.Layout:
        """Columns, blocks and notes."""
        labels = {column.key for column in self.labels}

        def column(key: str, header: str, format: str = "") -> Column:
            return Column(key, header, format, shown=key in self.shown)

        columns: list[Column | builder.Measure] = [
            *(builder.setting(key, leads=True, heads=True) for key in BLOCK if key not in labels),
            *self.labels,
            column("title", "Method"),
            Column("changed", "Changed settings", leads=True, shown="filled"),
            builder.LINEAR,
            builder.Measure(
                Column("difference", self.against, "+.1f", beside=("pm", "interval"), shown="filled"),
                lambda group: None,
            ),
            builder.Measure(Column("p_value", "p (Holm)", ".2g", shown="filled"), lambda group: None),
            builder.Measure(replace(builder.OVER_UNTRAINED.column, key="control", bare=True), _over_untrained),
            builder.KNN,
            builder.OVER_RAW,
            builder.SEEDS,
            *self.extra,
            builder.mean_of(Column("gflops", f"GFLOPs, {BODIES} bodies", ",.2f"), "clip_gflops"),
            builder.mean_of(Column("step_gflops", f"Step GFLOPs, {BODIES} bodies", ",.2f"), "step_gflops", BODIES),
            builder.mean_of(column("batch_size", "Batch", ",.0f"), "batch_size"),
            builder.mean_of(column("clips_seen", "Clips seen", ",.0f"), "clips_seen"),
            builder.mean_of(column("train_minutes", "Training, minutes", ".1f"), "train_seconds", per=60),
            *(replace(column, shown="filled" if column.shown else False) for column in self.paper),
            builder.HARDWARE,
            replace(builder.RUN, column=column("run", "Run")),
        ]
        command = f"skelbench study {self.name}"
        how = f"no results yet: `{command}` makes the runs of this table (`{command} --dry-run` lists them first)"
        block = [*(key for key in BLOCK if key not in labels), "changed"]
        return builder.Layout(self.title, how, columns, block, (), FOOTNOTES | dict(self.footnotes))


def variants(
    method: str, keys: Sequence[str], *rows: tuple[Any, ...], printed: tuple[str, str] = ("", "")
) -> list[Row]:
    """Rows of one method's variants, each ``(label, ..., variant, name of its published row)``; all rows are tested
    against the last one. ``printed``: the published table and the method as it is spelled there."""
    return [
        Row(
            method=method,
            labels=dict(zip(keys, labels, strict=True)),
            variant=variant,
            against=len(rows) - 1 if place < len(rows) - 1 else None,
            printed=Printed(*printed, name) if name else None,
        )
        for place, (*labels, variant, name) in enumerate(rows)
    ]


def announced(inputs: TableInputs, table: str) -> list[Sequence[Row]]:
    """The rows that plugins announce for ``table`` (hook ``skelbench_rows``), a list per announcement."""
    host = inputs.host
    specs = [spec for spec in host.all("rows") if isinstance(spec, RowsSpec) and spec.table == table]
    return [host.checked(spec, host.load(spec), Sequence, "list of rows") for spec in specs]


def figures_of(inputs: TableInputs, table: str) -> Iterator[tuple[Row, list[published.Figure]]]:
    """The rows that plugins announce for ``table``, each with its published accuracies that pass the filters."""
    for row in chain.from_iterable(announced(inputs, table)):
        figures = row.printed.figures(inputs.host, metric="accuracy") if row.printed else []
        yield row, [figure for figure in figures if inputs.filters.takes(method=row.title, dataset=figure["dataset"])]


def _test(group: DataFrame, baseline: DataFrame, store: ResultStore) -> dict[str, Any]:
    """Cells of the difference to another row's runs, and its p-value before adjustment."""
    test = if_whole(partial(paired_over_seeds, store, group, baseline))
    if test is None:
        return {}
    cell = difference(test)
    partly = ("shared",) if test.seeds < max(len(group), len(baseline)) else ()
    return {"difference": replace(cell, footnotes=(*partly, *cell.footnotes)), "p_value": test.p_value}


def _versions(filled: Iterable[builder.Filled]) -> Iterator[str]:
    """Notes on methods whose rows mix runs of several versions of the method."""
    runs = {(group["method"].iloc[0], int(group["version"].iloc[0])) for _, group in filled if group is not None}
    for method, count in Counter(method for method, _ in runs).items():
        if count > 1:
            yield f"Rows of {method} come from {count} of its versions; the study runs the older ones again."


def _over_untrained(group: DataFrame) -> Cell:
    cell = builder.OVER_UNTRAINED.cell(group)
    significant = (group["difference"].gt(0) & group["p_value"].le(0.05)).all()
    return cell if cell.value is None or significant else replace(cell, footnotes=("untrained",))
