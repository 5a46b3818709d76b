"""Tables of studies: a list of declared rows, each filled by the runs of one exact preset and variant.

Runs are compared in blocks that agree in data set, split, preset, encoder, stream, hardware and probe (ablations: and
in the token grid). Within a block a row is the mean over all seeds of its runs; nothing is ever chosen by its accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import titled
from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.outcomes import paired_over_seeds
from skelbench.plugin.descriptors import RowsSpec
from skelbench.records.errors import if_whole
from skelbench.records.store import ResultStore
from skelbench.reporting import published, significance
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.seeds import (
    INTERVALS,
    OLDER,
    accuracy,
    adjust,
    alike,
    all_rows,
    difference,
    footnotes,
    nearest,
    newest,
    over_raw,
    percent,
    seeds_of,
    subjects_note,
)
from skelbench.reporting.table import Cell, Column, Table, footnotes_of

if TYPE_CHECKING:
    from pandas import DataFrame

BLOCK = {
    "dataset": "Data set",
    "split": "Split",
    "tokens": "Tokens",
    "frames": "T",
    "patch": "P_T",
    "preset": "Preset",
    "encoder": "Encoder",
    "stream": "Stream",
    "hardware": "Hardware",
    "protocol": "Probe",
    "data": "Data version",
}
"""What rows of a block have in common, and its headers."""
_NUMBERS = [
    "accuracy", "control_accuracy", "difference", "p_value", "raw_difference", "raw_p_value", "n_test", "clip_gflops",
    "step_gflops", "batch_size", "clips_seen", "train_seconds", "finished",
]  # fmt: skip

PAPER = {
    ("accuracy", "xsub"): "paper_xsub",
    ("accuracy", "xview"): "paper_xview",
    ("accuracy", "xsub+xview mean"): "paper_mean",
    ("encoder_gflops", ""): "paper_gflops",
}
"""(metric, split) of published tables -> column."""

FOOTNOTES = {
    "shared": "over the seeds that both rows have, which are not all of them",
    "size": "published at the full size (presets `paper` and `ablation`), which not every row beside has",
    "untrained": "not shown to be better than the untrained encoder: paired p > 0.05, or untested, for a seed at least",
}


@dataclass(frozen=True)
class Printed:
    """Where the published figures of a row are: a published table, and method and variant as they are spelt there.

    >>> Printed("slim-token_budget", "MAMP", "8x25").method
    'MAMP'
    """

    table: str
    method: str
    variant: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a study: the runs that fill it, what readers see of it, and where a paper has figures of it.

    >>> Row(method="slim", variant="glcl-only", grid=(64, 8)).title
    'slim:glcl-only'
    """

    labels: Mapping[str, Any] = field(default_factory=dict)
    """Column key -> what is shown."""
    method: str
    variant: str = ""
    grid: tuple[int, int] | None = None
    """Clip length T and patch P_T; None = those of the block."""
    against: int | None = None
    """Place of the row that it is tested against, among the rows that are declared together."""
    printed: Printed | None = None
    """Its published figures."""
    expected: bool = True
    """Shown also while no run fills it."""
    planned: bool = True
    """The study of the table's name runs it."""

    @property
    def title(self) -> str:
        """As it is typed."""
        return titled(self.method, self.variant)

    @property
    def name(self) -> str:
        """Title, and temporal tokens where a row says them."""
        return self.title + (f" at {self.tokens} tokens" if self.grid else "")

    @property
    def tokens(self) -> int:
        """Temporal tokens; 0 = those of the block."""
        return self.grid[0] // self.grid[1] if self.grid else 0

    def fits(self, frame: DataFrame) -> DataFrame:
        """The rows of ``frame`` that are runs of this one."""
        mine = (frame["method"] == self.method) & (frame["variant"] == self.variant)
        if self.grid:
            mine &= (frame["frames"] == self.grid[0]) & (frame["patch"] == self.grid[1])
        return frame[mine]


@dataclass(frozen=True)
class StudyTable:
    """What a table shows and which study fills it."""

    name: str
    """Of the table, and of the study that runs it."""
    title: str
    rows: Sequence[Row] | Callable[[DataFrame], Sequence[Row]]
    """The rows, or what makes them for the runs that there are."""
    labels: Sequence[Column]
    against: str
    """Header of the differences: "Over ..."."""
    paper: Sequence[Column] = ()
    block: Sequence[str] = tuple(BLOCK)
    extra: Sequence[Column] = ()
    measure: Callable[[DataFrame, ResultStore], Mapping[str, Any]] | None = None
    """Cells of the ``extra`` columns for the runs of a row."""
    notes: Sequence[str] = ()
    footnotes: Mapping[str, str] = field(default_factory=dict)
    shown: Sequence[str] = ()
    """Keys of columns that are otherwise in CSV and JSON only."""

    def __call__(self, inputs: TableInputs) -> Table:
        """So that a ``TableSpec`` can name it."""
        return build(self, inputs)


PAPER_COLUMNS = {
    "paper_xsub": Column("paper_xsub", "Paper: X-Sub", ".1f", published=True),
    "paper_xview": Column("paper_xview", "Paper: X-View", ".1f", published=True),
    "paper_mean": Column("paper_mean", "Paper: average", ".2f", published=True),
    "paper_gflops": Column("paper_gflops", "Paper: GFLOPs", ".2f", published=True),
}


def variants(
    method: str, keys: Sequence[str], *rows: tuple[Any, ...], printed: tuple[str, str] = ("", "")
) -> list[Row]:
    """Rows of one method's variants, each ``(label, ..., variant, name of its published row)``; the last row is what
    all are tested against. ``printed``: the published table and the method as it is spelt there."""
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


def announced(inputs: TableInputs, table: str) -> list[list[Row]]:
    """The rows that plugins announce for ``table`` (hook ``skelbench_rows``), those of one announcement together;
    without those of published figures that cannot be read."""
    host, found = inputs.host, []
    for descriptor in host.all("rows"):
        if isinstance(descriptor, RowsSpec) and descriptor.table == table:
            rows = host.checked(descriptor, host.load(descriptor), Sequence, "list of rows")
            if wrong := [row for row in rows if not isinstance(row, Row)]:
                raise SkelbenchError(
                    f"rows {descriptor.name!r} of plugin {host.origin(descriptor).name!r} hold a "
                    f"{type(wrong[0]).__name__}, not a skelbench.reporting.study_rows.Row"
                )
            found.append([row for row in rows if not row.printed or published.readable(host, row.printed.table)])
    return found


def build(study: StudyTable, inputs: TableInputs) -> Table:
    """The table of ``study`` from the evaluations in ``inputs``.

    Rows of the frame that are not exact (``compare --all``) make a block of their own where their changed settings are
    the same, a study with ``--set``. One that has nobody to be compared with follows the block of the exact preset, is
    not tested and competes with nothing.
    """
    import pandas

    frame = inputs.frame
    frame = frame.assign(**{name: pandas.to_numeric(frame[name]) for name in _NUMBERS})
    headline = frame[
        frame["protocol"].astype(str).str.startswith("linear")
        & (frame["checkpoint"] == "last")
        & (frame["setting"] == "shared")
    ]
    headline = headline.assign(preset=headline["preset"].astype(str).str.removesuffix("+"))
    knn, further_knn = nearest(frame[frame["exact"].astype(bool)]), nearest(frame)
    rows: list[dict[str, Any]] = []
    older, missing, told = list[str](), list[str](), list[str]()
    blocks = [block for _, block in headline.groupby(list(study.block), dropna=False)]
    by_block = list[tuple[list[Row], list["DataFrame | None"]]]()
    for block in blocks:
        wanted = list(study.rows(block) if callable(study.rows) else study.rows)
        wanted = [replace(row, expected=row.expected and inputs.filters.takes(method=row.title)) for row in wanted]
        exact = block[block["exact"].astype(bool)]
        by_block.append((wanted, [newest(row.fits(exact), older) for row in wanted]))
    at_home = _at_home(study, blocks, [runs for _, runs in by_block])
    for place, (block, (wanted, runs)) in enumerate(zip(blocks, by_block, strict=True)):
        exact = block["exact"].astype(bool)
        comparable = _comparable(wanted, runs)
        if comparable:
            rows += _rows(study, inputs, wanted, runs, knn, told, block if place in at_home else None)
            open_rows = [row for row, group in zip(wanted, runs, strict=True) if group is None and place in at_home]
            missing += [row.name for row in open_rows if row.expected and row.planned]
        name = study.labels[0].key
        for _, changed in block[~exact].groupby("changed", sort=False):
            theirs = list(study.rows(changed) if callable(study.rows) else study.rows)
            replaced: list[str] = []
            runs_changed = [newest(row.fits(changed), replaced) for row in theirs]
            if sum(group is not None for group in runs_changed) > 1:
                rows += _rows(study, inputs, theirs, runs_changed, further_knn, told)
                older += replaced
            elif comparable:  # every run of them is shown, the older ones too
                for row in wanted:
                    for group in seeds_of(row.fits(changed), ["title", "changed"]):
                        filled = _filled(study, inputs, row, group, further_knn)
                        rows.append(filled | {name: row.title} | _measured(group))
    if not rows:
        start = f"`skelbench study {study.name}` runs what this table shows"
        how = f"nothing to compare yet: {start} (`skelbench study {study.name} --dry-run` lists it first)"
        return Table(study.title, _columns(study, [], set()), notes=(how,))
    return _table(study, inputs, rows, list(dict.fromkeys(missing)), older, told)


def _rows(
    study: StudyTable,
    inputs: TableInputs,
    wanted: Sequence[Row],
    runs: Sequence[DataFrame | None],
    knn: Callable[[DataFrame], list[float]],
    told: list[str],
    block: DataFrame | None = None,
) -> list[dict[str, Any]]:
    """The rows of one block, tested among each other; where ``block`` is given also those without a run. What is to be
    said of all pairs, if they are asked for, goes into ``told``."""
    rows, filled = list[dict[str, Any]](), list[dict[str, Any]]()
    for row, group, test in zip(wanted, runs, _tests(wanted, runs, inputs.store), strict=True):
        shown = group if group is not None else block
        beside = dict(row.labels)
        beside |= _paper(study, row, inputs, shown["dataset"].iloc[0]) if shown is not None else {}
        if group is not None:
            rows.append(_filled(study, inputs, row, group, knn) | beside | _measured(group) | test)
            filled.append(rows[-1])
        elif row.expected and block is not None:
            rows.append(_common(study, row, block) | beside)
    if inputs.significance:
        groups = [group for group in runs if group is not None]
        where = significance.place(filled[0], [key for key in ("dataset", "split", "preset") if key in study.block])
        told += significance.mark(filled, groups, inputs.store, where)
    return rows


def _at_home(
    study: StudyTable, blocks: Sequence[DataFrame], filled: Sequence[Sequence[DataFrame | None]]
) -> Collection[int]:
    """Places of the blocks that show rows without a run: of blocks that differ only in how, or on what, the same
    trainings were evaluated the one with most runs. One run that was probed once more asks nobody for the others."""
    best: dict[tuple[Any, ...], tuple[tuple[Any, ...], int]] = {}
    keys = [key for key in study.block if key not in ("dataset", "split", "stream", "protocol", "data")]
    for place, (block, runs) in enumerate(zip(blocks, filled, strict=True)):
        first = block.iloc[0]
        training = (*(first[key] for key in keys), first["source"] or f"{first['dataset']} {first['split']}")
        usual = not first["source"], first["protocol"] == "linear", first["stream"] == "joint"
        rank = (sum(group is not None for group in runs), *usual, -place)
        best[training] = max(best.get(training, (rank, place)), (rank, place))
    return {place for _, place in best.values()}


def _comparable(rows: Sequence[Row], runs: Sequence[DataFrame | None]) -> bool:
    """Whether there is more than the one row that others would be compared with."""
    filled = [row for row, group in zip(rows, runs, strict=True) if group is not None]
    return len(filled) > 1 or any(row.against is not None for row in filled)


def _tests(rows: Sequence[Row], runs: Sequence[DataFrame | None], store: ResultStore) -> list[dict[str, Any]]:
    """Cells of the difference and its p-value, Holm-adjusted over the rows of a block."""
    tests: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = [{} for _ in rows]
    for place, (row, group) in enumerate(zip(rows, runs, strict=True)):
        other = runs[row.against] if row.against is not None else None
        if group is None or other is None:
            continue
        test = if_whole(partial(paired_over_seeds, store, group, other))
        if test is None:
            continue
        cell = difference(test)
        partly = ("shared",) if test.seeds < max(len(group), len(other)) else ()
        tests.append({"difference": replace(cell, footnotes=(*partly, *cell.footnotes)), "p_value": test.p_value})
        cells[place] = tests[-1]
    adjust(tests)
    return cells


def _common(study: StudyTable, row: Row, block: DataFrame) -> dict[str, Any]:
    """What tells rows and blocks apart."""
    values = {key: block[key].iloc[0] for key in study.block} | {"title": row.title}
    return values | ({"frames": row.grid[0], "patch": row.grid[1]} if row.grid else {})


def _filled(
    study: StudyTable, inputs: TableInputs, row: Row, group: DataFrame, knn: Callable[[DataFrame], list[float]]
) -> dict[str, Any]:
    first = group.iloc[0]
    over = percent(group["accuracy"] - group["control_accuracy"])
    if over.value is not None and not (group["difference"].gt(0) & group["p_value"].le(0.05)).all():
        over = replace(over, footnotes=("untrained",))
    return _common(study, row, group) | {
        "preset": first["preset"] + ("" if first["exact"] else "+"),
        "changed": first["changed"],
        "version": first["version"],
        "seeds": len(group),
        "accuracy": accuracy(group),
        "knn": percent(knn(group)),
        "control": over,
        "raw": over_raw(group),
        "run": ", ".join(group["run"]),
        **(study.measure(group, inputs.store) if study.measure else {}),
    }


def _measured(group: DataFrame) -> dict[str, Any]:
    """The grid as it is, costs and schedule; empty unless every seed has the figure."""
    mean = group[_NUMBERS].mean(skipna=False)
    return {
        "tokens": group["tokens"].iloc[0],
        "gflops": mean["clip_gflops"],
        "step_gflops": BODIES * mean["step_gflops"],
        "batch_size": mean["batch_size"],
        "clips_seen": mean["clips_seen"],
        "train_minutes": mean["train_seconds"] / 60,
    }


def _paper(study: StudyTable, row: Row, inputs: TableInputs, dataset: str) -> dict[str, Cell]:
    """The published figures of ``row`` that the table has columns for: accuracies on ``dataset`` alone, and costs,
    which no data set decides."""
    if row.printed is None:
        return {}
    printed = published.load(inputs.host, row.printed.table, method=row.printed.method, variant=row.printed.variant)
    printed = [one for one in printed if one["metric"] != "accuracy" or one["dataset"] == dataset]
    cells = {PAPER.get((one["metric"], one["split"])): one for one in printed}
    return {
        column.key: Cell(one["value"], one["std"], published=True)
        for column in study.paper
        if (one := cells.get(column.key))
    }


def _columns(
    study: StudyTable, rows: Sequence[Mapping[str, Any]], varying: set[str], tested: bool = False
) -> tuple[Column, ...]:
    labels = {column.key for column in study.labels}

    def column(key: str, header: str, format: str = "", **more: Any) -> Column:
        return Column(key, header, format, shown=key in study.shown, **more)

    return (
        *(Column(key, header, shown=key in varying, leads=True) for key, header in BLOCK.items() if key not in labels),
        *study.labels,
        column("title", "Method"),
        Column("changed", "Changed settings", leads=True, shown=any(row.get("changed") for row in rows)),
        Column("seeds", "Seeds", "d"),
        Column("accuracy", "Linear", ".1f", best="max", beside=("pm", "interval")),
        *(significance.COLUMNS if tested else ()),
        Column("difference", study.against, "+.1f", beside=("pm", "interval")),
        Column("p_value", "p (Holm)", ".2g"),
        Column("knn", "1-NN", ".1f", best="max", beside=("pm",)),
        Column("control", "Over untrained", "+.1f", beside=("pm",)),
        Column(
            "raw",
            "Over raw",
            "+.1f",
            beside=("pm",),
            shown=any(row["raw"].value is not None for row in rows if "raw" in row),
        ),
        *study.extra,
        Column("gflops", f"GFLOPs, {BODIES} bodies", ",.2f"),
        Column("step_gflops", f"Step GFLOPs, {BODIES} bodies", ",.2f"),
        column("batch_size", "Batch", ",.0f"),
        column("clips_seen", "Clips seen", ",.0f"),
        column("train_minutes", "Training, minutes", ".1f"),
        *(replace(one, shown=one.shown and any(one.key in row for row in rows)) for one in study.paper),
        column("run", "Run"),
    )


def _table(
    study: StudyTable,
    inputs: TableInputs,
    rows: list[dict[str, Any]],
    missing: Sequence[str],
    older: Sequence[str],
    told: Sequence[str],
) -> Table:
    versions = [(row["title"], row.pop("version")) for row in rows if "version" in row]
    labels = {column.key for column in study.labels}
    keys = [key for key in BLOCK if key not in labels]
    varying, constant = alike(rows, keys)
    texts = FOOTNOTES | footnotes(inputs.frame) | dict(study.footnotes)
    printed = any(column.key in row for row in rows for column in study.paper)
    sizes = {row["preset"].removesuffix("+") for row in rows}
    smaller = printed and not sizes <= {*published.SIZES}
    paper = [replace(one, footnotes=("size",)) for one in study.paper] if smaller else study.paper
    used = ({"size": texts["size"]} if smaller else {}) | footnotes_of(rows, texts)
    notes = (*_notes(study, inputs, rows, constant, missing, older, printed), *_versions(versions))
    notes += (significance.HOW, *told) if inputs.significance else ()
    study = replace(study, paper=paper)
    table = Table(study.title, _columns(study, rows, varying, inputs.significance), tuple(rows), notes, used)
    return table.ranked(within=[*keys, "changed"])


def _probed(frame: DataFrame, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """The evaluations on the data sets and splits of the ``rows`` by the protocols that these show."""
    places = {(row["dataset"], row["split"]) for row in rows}
    probed = frame[frame["protocol"].astype(str).str.startswith(("linear", "knn"))]
    return probed[[place in places for place in zip(probed["dataset"], probed["split"], strict=True)]]


def _versions(rows: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Rows (title, version) of one method that were trained by different versions of it differ in more than they
    say."""
    by_method: dict[str, set[int]] = {}
    for title, version in rows:
        by_method.setdefault(title.partition(":")[0], set()).add(int(version))
    for method, versions in by_method.items():
        if len(versions) > 1:
            numbers = ", ".join(map(str, sorted(versions)))
            yield f"Rows of {method} come from its versions {numbers}; the study makes those of older ones again."


def _notes(
    study: StudyTable,
    inputs: TableInputs,
    rows: Sequence[Mapping[str, Any]],
    constant: Sequence[str],
    missing: Sequence[str],
    older: Sequence[str],
    printed: bool,
) -> Iterator[str]:
    yield from all_rows(constant)
    if missing:
        yield f"No run yet: {', '.join(missing)}. `skelbench study {study.name}` runs what is missing (see --dry-run)."
    if older:
        yield f"{OLDER[0].upper()}{OLDER[1:]} {', '.join(older)}."
    yield from study.notes
    yield from published.notes(inputs.host, study.name) if printed else ()
    yield (
        "Linear: after the probe's last step. Over untrained: minus the untrained encoder of the same shape, data and "
        "seed; over raw: minus the clip's coordinates, no network. "
        f"{INTERVALS} p: exact sign-flip test, the larger of that over test clips and that over subjects, "
        "Holm-adjusted over the rows beside it. Brackets and p speak of these trained encoders, not of other "
        "pre-training seeds."
    )
    yield from subjects_note(_probed(inputs.frame, rows))
    yield (
        f"GFLOPs: clips of {BODIES} bodies, matrix products, 2 per multiply-accumulate; step: all of a training step."
    )
