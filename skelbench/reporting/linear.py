"""``compare --table linear``: evaluated runs side by side, with intervals and tests against their controls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.data.store.splits import full_name
from skelbench.plugin import TableSpec, hookimpl
from skelbench.reporting import builder, published
from skelbench.reporting.controls import CONTROLS, controls_beside
from skelbench.reporting.seeds import INTERVALS, block_of, metric, percent, seeds_of, with_other_protocols
from skelbench.reporting.study_rows import figures_of
from skelbench.reporting.table import Cell, Column, Table

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

NAME = "linear"
GROUPS = (
    "Other skeleton SSL baselines", "Contrastive learning (CL)", "Masked / predictive modeling", "Unified MFP + CL",
)  # fmt: skip
"""Groups of methods in the order of the SLiM paper's Table 1. Rows that plugins announce (label ``group``) put a method
into one of them, or into another, which then follows; methods that nobody announces are in the first."""
CONTROL_GROUP = "Controls"
BLOCK = ["setting", "dataset", "split", "data", "encoder", "protocol", "stream", "checkpoint", "preset", "budget"]
"""Columns in which competing rows agree; presets are compared without their changed settings."""
_PLACE = ("stream", "dataset", "split")
"""Columns that a published result and its row have in common."""
_FOOTNOTES = {
    "best": "highest test accuracy over the probe's checkpoints: chosen on test data, so it is an upper bound",
    "native": "the method's own encoder and bodies: ranked separately, not comparable with shared rows",
    "added": "with runs that were not made here but added from a file (`skelbench runs add`)",
    "control": "no untrained run of the same shape, data and seed was evaluated the same way: issue the row's "
    "`skelbench run` again, `skelbench import-checkpoint` with `--probe`, or `skelbench eval` on the untrained run "
    "with the same options",
    "printed": "not run here: the published result only",
    "size": "published at the full size, and mostly of the best epoch on test: the row is smaller, and of the last "
    "step",
}
TRAINED_ON = "Trained on: the streams of the training; stream: the input of the encoder in this evaluation."
NOTES = (
    INTERVALS,
    "p: against the untrained encoder, Holm-adjusted over the rows of a heading.",
    "Linear: after the probe's last step. p: exact paired test on the same clips, the larger of that over clips "
    "(McNemar's) and that over subjects, the largest over seeds (1 where they point in opposite directions); it says "
    "nothing about other pre-training seeds. raw: the clip's coordinates, no network.",
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "every evaluated run: accuracy with interval, paired test against the untrained encoder, cost"
    return [TableSpec(name=NAME, target=":table", summary=summary, probe="linear", reference=True)]


class Papers:
    """Groups of methods, and published results by stream: what plugins announce for this table."""

    def __init__(self, inputs: TableInputs) -> None:
        self.groups: dict[str, str] = {}
        self.figures: dict[tuple[str, ...], published.Figure] = {}
        """Published result by title, stream, dataset and full name of the split; the first of several."""
        self.expected: list[tuple[str, ...]] = []
        """Keys of the published results that are shown even without a run."""
        for row, figures in figures_of(inputs, NAME):
            self.groups.setdefault(row.method, row.labels.get("group", GROUPS[0]))
            for figure in figures:
                key = (row.title, figure["variant"], figure["dataset"], full_name(figure["split"]))
                self.figures.setdefault(key, figure)
                self.expected += [key] if row.expected else []
        self.order = [*dict.fromkeys([*GROUPS, *self.groups.values(), CONTROL_GROUP])]

    def printed(self, title: str, stream: str, dataset: str, split: str) -> published.Figure | None:
        """Return the published result for a row, which may have a short name of the split."""
        return self.figures.get((title, stream, dataset, full_name(split)))

    def group(self, title: str) -> str:
        method = title.partition(":")[0]
        return CONTROL_GROUP if method in CONTROLS else self.groups.get(method, GROUPS[0])

    def beside(self, row: dict[str, Any]) -> None:
        """Give a row of runs its group and its published result."""
        title = row["method"].value
        row |= {"group": self.group(title), "paper": Cell()}
        if printed := self.printed(title, *(row[key] for key in _PLACE)):
            size = () if row["preset"].removesuffix("+") in published.SIZES else ("size",)
            row["paper"] = published.cell(printed, *size)

    def alone(self, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Rows of published results only: of methods without a run on data, split and stream of other runs."""
        places = {(row["stream"], row["dataset"], full_name(row["split"])): row["split"] for row in rows}
        filled = {(row["method"].value.partition(":")[0], row["dataset"], full_name(row["split"])) for row in rows}
        for title, stream, dataset, split in self.expected:
            if (stream, dataset, split) in places and (title, dataset, split) not in filled:
                figure = self.figures[(title, stream, dataset, split)]
                place = stream, dataset, places[(stream, dataset, split)]
                yield {
                    **{key: Cell(value, published=True) for key, value in zip(_PLACE, place, strict=True)},
                    "method": Cell(figure["method"], published=True, footnotes=("printed",)),
                    "group": self.group(title),
                    "paper": published.cell(figure),
                }


def table(inputs: TableInputs) -> Table:
    """One row per setting of the evaluations in ``inputs``, averaged over its seeds. A row's p-value is the largest of
    its seeds, Holm-adjusted over the rows of its block."""
    frame = inputs.compared
    if inputs.against and inputs.against not in (titles := set(frame["title"])):
        unknown = did_you_mean(inputs.against, sorted(titles), "method with a row here")
        changed = inputs.against in set(inputs.every["title"])
        hint = "Its runs have changed settings: add --all." if changed else "A filter --method must name it too."
        raise SkelbenchError(f"{unknown} {hint}")
    linear = controls_beside(builder.probed(with_other_protocols(frame)))
    layout = _layout(inputs)
    keys = ["title", *(column.key for column in layout.columns if isinstance(column, Column) and column.key in linear)]
    rows = builder.over_seeds(layout.columns, seeds_of(linear, keys))
    papers, show, own = Papers(inputs), set[str](), [row for row, _ in rows]
    every_added = all(runs is not None and runs["added"].notna().all() for _, runs in rows)
    for row in own:
        papers.beside(row)
        if every_added:  # a note mentions this
            row["method"] = replace(row["method"], footnotes=tuple({*row["method"].footnotes} - {"added"}))
    unmatched = [builder.Filled(row) for row in papers.alone(own)]
    printed = bool(unmatched) or any(row["paper"].value is not None for row in own)
    grouped = printed or len({block_of(BLOCK, row) for row in own}) == 1
    if grouped and len({row["group"] for row in (*own, *(row for row, _ in unmatched))} - {CONTROL_GROUP}) > 1:
        show.add("group")
    if any(row["trained_on"] not in ("", row["stream"]) for row in own):
        show.add("trained_on")
    notes = [TRAINED_ON] if "trained_on" in show else []
    if printed:
        notes += published.notes(inputs.host, NAME)
    layout = replace(layout, order=partial(_order, own, papers.order if grouped else ()))
    return builder.build(layout, [*rows, *unmatched], inputs, notes=notes, show=show)


def _order(own: Sequence[dict[str, Any]], groups: Sequence[str], row: dict[str, Any]) -> tuple[Any, ...]:
    """Sort key: block, group (or controls last), accuracy. Published results without runs follow their group in the
    first block of their data."""

    def block(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["setting"] != "shared", *block_of(BLOCK[1:], row)

    if row["method"].published:
        first = min(block(row_own) for row_own in own if all(row_own[key] == row[key].value for key in _PLACE))
        return first, groups.index(row["group"]), True, -row["paper"].value
    group = groups.index(row["group"]) if groups else row["group"] == CONTROL_GROUP
    return block(row), group, False, -row["accuracy"].value


def _layout(inputs: TableInputs) -> builder.Layout:
    """The columns: settings, measures, and the metrics of protocols (shown if ``--columns`` names them)."""

    def setting(key: str, **more: Any) -> Column:
        beside = ("published",) if key in _PLACE else ()
        return builder.setting(key, **{"leads": True, "beside": beside, "heads": key in BLOCK, **more})

    best = Column("accuracy_best_on_test", "Best on test", ".1f", footnotes=("best",), beside=("pm",), asked=True)
    selected = Column(
        "accuracy_selected", "Selected on train", ".1f", best="max", beside=("pm",), minor=True, bare=True
    )
    over = replace(builder.OVER_UNTRAINED.column, beside=("pm", "interval"))
    columns: list[Column | builder.Measure] = [
        Column("group", "Group", shown=False, heads=True),
        builder.Measure(Column("method", "Method", leads=True, beside=("published",)), _method),
        *map(setting, ("setting", "dataset", "split", "data")),
        *map(setting, ("tokens", "preset", "budget", "changed", "encoder")),
        builder.HARDWARE,
        setting("protocol"),
        *map(setting, ("stream", "checkpoint")),
        builder.LINEAR,
        *([builder.Measure(best, lambda group: percent(group[best.key]))] if inputs.best_on_test else []),
        builder.Measure(over, _over_untrained),
        builder.P_VALUE,
        builder.KNN,
        builder.OVER_RAW,
        Column("paper", "Paper", ".1f", published=True, shown="filled", beside=("pm",)),
        setting("trained_on", leads=False, shown=False),
        builder.SEEDS,
        builder.Measure(selected, lambda group: percent(group["accuracy_selected"])),
        builder.mean_of(Column("gflops", "GFLOPs, 1 body", ".2f"), "gflops"),
        builder.Measure(Column("clips_seen", "Clips seen", ",d", minor=True), _clips),
        builder.mean_of(Column("train_minutes", "Training, minutes", ".1f", minor=True), "train_seconds", per=60),
        builder.Measure(Column("tags", "Tags", shown="filled", minor=True), _tags),
        replace(builder.RUN, column=replace(builder.RUN.column, minor=True)),
    ]
    keys = {column.key for column in columns}
    for name, how in inputs.measures.items():
        key = f"metric {name}" if name in keys else name
        column = Column(key, how.label, ".1f" if how.share else ".4g", shown=False)
        columns.append(builder.Measure(column, partial(metric, name=name)))
    empty = (
        "nothing to compare yet: `skelbench run METHOD --tokens 8` trains and evaluates a method, "
        "`skelbench eval RUN --protocol linear` evaluates a finished run"
    )
    return builder.Layout(
        "Linear evaluation: accuracy in percent", empty, columns, BLOCK, NOTES, _FOOTNOTES, against=True
    )


def _method(group: DataFrame) -> Cell:
    native, added = group["setting"].iloc[0] == "native", group["added"].notna().any()
    return Cell(group["title"].iloc[0], footnotes=("native",) * bool(native) + ("added",) * bool(added))


def _over_untrained(group: DataFrame) -> Cell:
    cell, interval = builder.OVER_UNTRAINED.cell(group), group["interval"].iloc[0]
    if cell.value is None:
        return Cell(footnotes=("control",) * (group["title"].iloc[0] not in CONTROLS))
    if len(group) > 1 or not isinstance(interval, tuple):
        return cell
    (low, high), over = interval
    return replace(cell, interval=(100 * low, 100 * high), interval_over=over)


def _clips(group: DataFrame) -> int | None:
    return None if group["clips_seen"].isna().all() else round(group["clips_seen"].mean())


def _tags(group: DataFrame) -> str:
    """Tags of any of the runs, each once."""
    return ", ".join(dict.fromkeys(tag for tags in group["tags"] for tag in tags.split(", ") if tag))
