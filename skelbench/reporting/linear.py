"""``compare --table linear``: evaluated runs side by side, with intervals and tests against their controls."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.data.store.splits import for_choosing, full_name
from skelbench.plugin import TableSpec, hookimpl
from skelbench.records.measures import Measure
from skelbench.reporting import pairwise as hold_against
from skelbench.reporting import published, study_rows
from skelbench.reporting import significance as telling_apart
from skelbench.reporting.controls import CONTROLS, controls_beside
from skelbench.reporting.seeds import (
    INTERVALS,
    accuracy,
    adjust,
    alike,
    all_rows,
    block_of,
    every_seed,
    footnotes,
    further,
    nearest,
    over_raw,
    percent,
    seeds_of,
    subjects_note,
)
from skelbench.reporting.table import Cell, Column, Table, footnotes_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.plugin.host import Host
    from skelbench.records.store import ResultStore
    from skelbench.reporting.inputs import TableInputs
    from skelbench.reporting.study_rows import Row

REQUIRED = (
    "run", "title", "setting", "dataset", "split", "tokens", "preset", "encoder", "hardware", "seed",
    "protocol", "trained_on", "stream", "checkpoint", "accuracy", "accuracy_selected", "accuracy_best_on_test",
    "n_test", "control_run", "control_accuracy", "p_value", "raw_evaluation", "raw_difference", "raw_p_value",
    "evaluation", "gflops", "clips_seen", "train_seconds",
)  # fmt: skip

_SETTING = [
    "title", "setting", "dataset", "split", "data", "tokens", "preset", "changed", "encoder", "hardware", "protocol",
    "trained_on", "stream", "checkpoint",
]  # fmt: skip
_PLACES = ["setting", "dataset", "split", "data", "encoder", "protocol", "stream", "checkpoint"]
BLOCK = [*_PLACES, "preset"]
"""What rows that compete have in common; of presets the name without its changes."""
_PLACE = ["stream", "dataset", "split"]
"""What a published figure and a row must have in common to stand beside each other."""
_SHARES = ["accuracy", "accuracy_selected", "accuracy_best_on_test", "control_accuracy"]
_NUMBERS = [*_SHARES, "n_test", "p_value", "raw_difference", "raw_p_value", "gflops", "clips_seen", "train_seconds"]

NAME = "linear"
GROUPS = (
    "Other skeleton SSL baselines", "Contrastive learning (CL)", "Masked / predictive modeling", "Unified MFP + CL",
)  # fmt: skip
"""Groups of methods in the order of the SLiM paper's Table 1. Rows that plugins announce (label ``group``) put a method
into one of them, or into another, which then follows; methods that nobody announces are in the first."""
CONTROL_GROUP = "Controls"

TITLE = "Linear evaluation: accuracy in percent"
BEST = "highest test accuracy over the probe's checkpoints: chosen on test data, an upper bound for reference"
NATIVE = "the method's own encoder form and bodies: ranked apart, not comparable with shared rows"
ADDED = "with runs that were not made here but added from a file (`skelbench runs add`)"
PRINTED = "not run here: the published figure only"
SIZE = "published at the full size, and mostly of the best epoch on test: the row is smaller, and of the last step"
TRAINED_ON = "Trained on: the streams that training looked at; stream: what the encoder looks at here."
CONTROL = (
    "no untrained run of the same shape, data and seed was evaluated alike: issue the row's `skelbench run` again, "
    "`skelbench import-checkpoint` with `--probe`, or `skelbench eval` on the untrained run with the same options"
)
HOW = (
    "nothing to compare yet: `skelbench run METHOD --tokens 8` trains and evaluates a method, "
    "`skelbench eval RUN --protocol linear` evaluates a finished run"
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "every evaluated run: accuracy with interval, paired test against the untrained encoder, cost"
    return [TableSpec(name=NAME, target=":table", summary=summary)]


class Papers:
    """What plugins say of methods for this table: rows with the label ``group``, and figures that papers print, whose
    ``variant`` is the title of a stream."""

    def __init__(self, rows: Sequence[Row] = (), host: Host | None = None) -> None:
        self.groups: dict[str, str] = {}
        self.figures: dict[tuple[str, ...], published.Figure] = {}
        """By title, stream, data set and full name of the split; of several the first."""
        self.expected: list[tuple[str, ...]] = []
        """Those that are shown also while no run is beside them."""
        for row in rows:
            self.groups.setdefault(row.method, row.labels.get("group", GROUPS[0]))
            if row.printed and host:
                found = published.load(
                    host, row.printed.table, method=row.printed.method, variant=row.printed.variant, metric="accuracy"
                )
                for one in found:
                    key = (row.title, row.printed.variant, one["dataset"], full_name(one["split"]))
                    self.figures.setdefault(key, one)
                    self.expected += [key] if row.expected else []
        self.order = [*dict.fromkeys([*GROUPS, *self.groups.values(), CONTROL_GROUP])]
        self.notes = [*published.notes(host, NAME)] if host else []

    def printed(self, title: str, stream: str, dataset: str, split: str) -> published.Figure | None:
        """The figure beside a row, which may call its split by a short name."""
        return self.figures.get((title, stream, dataset, full_name(split)))

    def group(self, title: str) -> str:
        method = title.partition(":")[0]
        return CONTROL_GROUP if method in CONTROLS else self.groups.get(method, GROUPS[0])

    def beside(self, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Rows of figures alone, of methods that have none of ``rows`` on the same data set and split, where others
        have one of the same stream."""
        places = {(row["stream"], row["dataset"], full_name(row["split"])): row["split"] for row in rows}
        there = {(row["method"].value.partition(":")[0], row["dataset"], full_name(row["split"])) for row in rows}
        for title, stream, dataset, split in self.expected:
            if (stream, dataset, split) in places and (title, dataset, split) not in there:
                one = self.figures[(title, stream, dataset, split)]
                shown = stream, dataset, places[(stream, dataset, split)]
                yield {
                    **{key: Cell(value, published=True) for key, value in zip(_PLACE, shown, strict=True)},
                    "method": Cell(one["method"], published=True, footnotes=("printed",)),
                    "group": self.group(title),
                    "paper": Cell(one["value"], one["std"], published=True, footnotes=published.told(one)),
                }


def table(inputs: TableInputs) -> Table:
    """The table of the evaluations in ``inputs``."""
    announced = Papers([*chain.from_iterable(study_rows.announced(inputs, NAME))], inputs.host)
    announced.expected = [key for key in announced.expected if inputs.filters.takes(method=key[0], dataset=key[2])]
    if inputs.against and inputs.against not in (titles := set(inputs.frame["title"])):
        unknown = did_you_mean(inputs.against, sorted(titles), "method with a row here")
        raise SkelbenchError(f"{unknown} A filter --method must name it too.")
    built = build(
        inputs.frame, announced, inputs.metrics, inputs.best_on_test, inputs.store, inputs.significance, inputs.against
    )
    return replace(built, notes=(*built.notes, *_without_probe(inputs), *_never_evaluated(inputs)))


def _without_probe(inputs: TableInputs) -> Iterator[str]:
    """That evaluated runs are no rows as no linear probe has looked at them, not even with changed settings."""
    probed = inputs.every["protocol"].astype(str).str.startswith("linear")
    if names := sorted({*inputs.frame["run"].astype(str)} - {*inputs.every.loc[probed, "run"].astype(str)}):
        yield f"Without a linear probe and left out: {', '.join(names)} (`skelbench eval RUN --protocol linear`)."


def _never_evaluated(inputs: TableInputs) -> Iterator[str]:
    """That finished runs are no rows as no probe has looked at them (``--probe none``)."""
    evaluated = set(inputs.every["run"])
    names = [
        run.name
        for run in inputs.runs
        if run.name not in evaluated  # first, as it leaves few of many to be looked at
        and run.about["outcome"] == "done"
        and inputs.admits(run)
        and (run.name in inputs.only if inputs.only is not None else not for_choosing(run.about["split"]))
        and not run.evaluations  # by no filtered protocol and on no other data either
    ]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"Never evaluated and left out: {', '.join(names[:3])}{more} (`skelbench eval RUN`)."


def build(
    frame: DataFrame,
    announced: Papers | None = None,
    metrics: Collection[str] = (),
    best_on_test: bool = False,
    store: ResultStore | None = None,
    significance: bool = False,
    against: str = "",
) -> Table:
    """One row per setting, averaged over its seeds; an empty ``frame`` gives an empty table that says what to run.

    ``frame`` has one row per evaluation of a run (:func:`skelbench.reporting.frame.frame`) with the columns of
    :data:`REQUIRED`, accuracies as shares in [0, 1]; ``control_accuracy`` and ``p_value`` are missing where there is no
    untrained encoder to compare with. ``announced`` says which methods stand together, as in a paper's table, and which
    figures stand beside them. ``metrics``: further figures, of the optional column ``measures``, that readers see; the
    others are in CSV and JSON alone. An optional column ``group`` keeps apart what the other columns do not show;
    ``changed``, ``probe``, ``data``, ``tags``, ``draws``, ``drawn``,
    ``accuracy_sd``, ``subjects`` and ``by_subject`` are optional too. ``best_on_test`` adds that
    column. With ``store``, where the predictions are, ``significance`` says which rows can be told apart, and
    ``against`` how far each is from the method of this title.
    Seeds make rows as in :func:`~skelbench.reporting.seeds.seeds_of`. A row's p-value is the largest of its seeds
    (every
    seed must differ from its control, and in one direction), Holm-adjusted over the rows of its block.

    Raises:
        SkelbenchError: a column is missing, or accuracies are not shares.
    """
    import pandas

    if missing := [name for name in REQUIRED if name not in frame.columns]:
        raise SkelbenchError(f"the frame of evaluated runs lacks the columns {', '.join(missing)}; fill them")
    linear = frame[frame["protocol"].astype(str).str.startswith("linear")]
    if linear.empty:
        return Table(TITLE, _columns(set()), notes=(HOW,))
    frame = frame.assign(**{name: pandas.to_numeric(frame[name]) for name in _NUMBERS})
    frame = frame.assign(**{key: frame[key].fillna("") if key in frame else "" for key in ("changed", "data")})
    linear = controls_beside(frame.loc[linear.index])
    for name in _SHARES:
        if not frame[name].dropna().between(0, 1).all():
            raise SkelbenchError(f"column {name} of the evaluated runs must hold shares in [0, 1], not percent")
    knn = nearest(frame)
    measures = {name: how for each in frame.get("measures", ()) for name, (_, how) in each.items()}
    own = {name: further(frame, name) for name in measures}
    columns = [*_further_columns(measures, metrics)]
    groups = list(seeds_of(linear, _SETTING))
    rows = [
        _row(group, knn, best_on_test) | {_key(name): cell(group) for name, cell in own.items()} for group in groups
    ]
    block = partial(block_of, BLOCK)
    adjust(rows, within=block)
    told = [*_told_apart(rows, groups, store)] if store and significance else []
    if store and against:
        for members in _blocks(rows):
            hold_against.mark([rows[i] for i in members], [groups[i] for i in members], against, store)
        told.append(hold_against.how(against))
    announced = announced or Papers()
    for row in rows:
        title = row["method"].value
        one = announced.printed(title, *(row[key] for key in _PLACE))
        row |= {"group": announced.group(title), "paper": beside_paper(one, row["preset"])}
    varying, constant = alike(rows, [*BLOCK, "changed", "hardware"])
    if any(row["trained_on"] not in ("", row["stream"]) for row in rows):
        varying |= {"trained_on", "stream"}
    varying |= {"raw"} if any(row["raw"].value is not None for row in rows) else set()
    rows = _in_order(rows, [*announced.beside(rows)], announced.order)
    varying |= {"group"} if len({row["group"] for row in rows} - {CONTROL_GROUP}) > 1 else set()
    varying |= {"paper"} if any(row["paper"].value is not None for row in rows) else set()
    varying |= {"accuracy_best_on_test"} if best_on_test else set()
    varying |= {"letters"} if significance else set()
    varying |= {"tags"} if any(row.get("tags") for row in rows) else set()
    notes = [*_notes(frame, constant), *([TRAINED_ON] if "trained_on" in varying else [])]
    notes += announced.notes if "paper" in varying else []
    used = {"native": NATIVE, "added": ADDED, "control": CONTROL, "printed": PRINTED, **footnotes(frame)}
    used |= {"size": SIZE} | published.footnotes(rows)
    used = ({"best": BEST} if best_on_test else {}) | footnotes_of(rows, used)
    notes += [*subjects_note(linear), *told]
    return Table(TITLE, (*_columns(varying, against), *columns), tuple(rows), tuple(notes), used).ranked(within=block)


def beside_paper(one: published.Figure | None, preset: str) -> Cell:
    """A published figure beside a row of ``preset``."""
    if one is None:
        return Cell()
    size = () if preset.removesuffix("+") in published.SIZES else ("size",)
    return Cell(one["value"], one["std"], footnotes=(*size, *published.told(one)))


def _told_apart(rows: list[dict[str, Any]], groups: list[DataFrame], store: ResultStore) -> Iterator[str]:
    """Rank and letters of the rows of each block, and what is to be said of them."""
    yield telling_apart.HOW
    varying, _ = alike(rows, BLOCK)
    for members in _blocks(rows):
        first = rows[members[0]] | {"preset": rows[members[0]]["preset"].removesuffix("+")}
        where = telling_apart.place(first, ["dataset", "split", *(key for key in BLOCK if key in varying)])
        yield from telling_apart.mark([rows[i] for i in members], [groups[i] for i in members], store, where)


def _blocks(rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Places of the rows of each block."""
    blocks: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(rows):
        blocks.setdefault(block_of(BLOCK, row), []).append(number)
    return [*blocks.values()]


def _in_order(
    rows: list[dict[str, Any]], printed: Sequence[dict[str, Any]], groups: Sequence[str]
) -> list[dict[str, Any]]:
    """``rows`` by place, group and accuracy; those of figures alone in the first block of their stream, data set and
    split, after the rows of their group."""

    def block(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["setting"] != "shared", *(row[key] for key in _PLACES[1:]))

    keyed = [((block(row), groups.index(row["group"]), False, -row["accuracy"].value), row) for row in rows]
    for row in printed:
        first = min(block(one) for one in rows if all(one[key] == row[key].value for key in _PLACE))
        keyed.append(((first, groups.index(row["group"]), True, -row["paper"].value), row))
    return [row for _, row in sorted(keyed, key=lambda pair: pair[0])]


def _columns(varying: set[str], against: str = "") -> tuple[Column, ...]:
    def shared(*keys: str) -> Iterator[Column]:
        """Columns that are shown only where rows differ in them."""
        headers = {"dataset": "Data set", "data": "Data version", "protocol": "Probe", "trained_on": "Trained on"}
        headers |= {"changed": "Changed settings"}
        for key in keys:
            yield Column(
                key,
                headers.get(key, key.capitalize()),
                shown=key in varying,
                leads=key != "hardware",
                minor=key == "hardware",
                beside=("published",) if key in _PLACE else (),
            )

    seeds: tuple[Any, ...] = ("pm",)
    best = Column("accuracy_best_on_test", "Best on test", ".1f", footnotes=("best",), beside=seeds, asked=True)
    return (
        Column("group", "Group", shown="group" in varying, heads=True),
        Column("method", "Method", leads=True, beside=("published",)),
        *shared("setting", "dataset", "split", "data"),
        Column("tokens", "Tokens", leads=True),
        *shared("preset", "changed", "encoder", "hardware", "protocol", "trained_on", "stream", "checkpoint"),
        Column("seeds", "Seeds", "d"),
        Column("accuracy", "Linear", ".1f", best="max", beside=("pm", "interval")),
        *(hold_against.columns(against) if against else ()),
        *(telling_apart.COLUMNS if "letters" in varying else ()),
        Column("accuracy_selected", "Selected on train", ".1f", best="max", beside=seeds, minor=True),
        *([best] if best.key in varying else []),
        Column("knn", "1-NN", ".1f", best="max", beside=seeds),
        Column("difference", "Over untrained", "+.1f", beside=seeds),
        Column("p_value", "p (Holm)", ".2g"),
        Column("raw", "Over raw", "+.1f", shown="raw" in varying, beside=seeds),
        Column("paper", "Paper", ".1f", published=True, shown="paper" in varying, beside=seeds),
        Column("gflops", "GFLOPs, 1 body", ".2f"),
        Column("clips_seen", "Clips seen", ",d", minor=True),
        Column("train_minutes", "Training, minutes", ".1f", minor=True),
        Column("tags", "Tags", shown="tags" in varying, minor=True),
        Column("run", "Run", minor=True),
    )


def _key(metric: str) -> str:
    """Of the column of a further figure."""
    return metric if metric not in {column.key for column in _columns(set())} else f"metric {metric}"


def _further_columns(measures: Mapping[str, Measure], metrics: Collection[str]) -> Iterator[Column]:
    names = [*metrics, *(name for name in measures if name not in metrics)]
    for name in filter(measures.get, names):
        how = measures[name]
        shown = name in metrics
        yield Column(_key(name), how.label, ".1f" if how.share else ".4g", shown=shown, asked=shown)


def _row(group: DataFrame, knn: Callable[[DataFrame], list[float]], best_on_test: bool) -> dict[str, Any]:
    first = group.iloc[0]
    best = {"accuracy_best_on_test": percent(group["accuracy_best_on_test"])} if best_on_test else {}
    setting = {key: str(first[key]) for key in _SETTING}
    title = setting.pop("title")
    difference = percent(group["accuracy"] - group["control_accuracy"])
    if difference.value is None and title not in CONTROLS:
        difference = Cell(footnotes=("control",))
    clips = group["clips_seen"].mean()
    return {
        **setting,
        **best,
        "method": Cell(title, footnotes=("native",) * (setting["setting"] == "native") + ("added",) * _added(group)),
        "seeds": len(group),
        "accuracy": accuracy(group),
        "accuracy_selected": percent(group["accuracy_selected"]),
        "knn": percent(knn(group)),
        "difference": difference,
        "p_value": every_seed(group),
        "raw": over_raw(group),
        "gflops": float(group["gflops"].mean()),
        "clips_seen": None if math.isnan(clips) else round(clips),
        "train_minutes": float(group["train_seconds"].mean()) / 60,
        "tags": _tags(group),
        "run": ", ".join(map(str, group["run"])),
    }


def _tags(group: DataFrame) -> str:
    """Those of any of the runs, each once."""
    every = (tag for each in group.get("tags", ()) for tag in str(each).split(", ") if tag)
    return ", ".join(dict.fromkeys(every))


def _added(group: DataFrame) -> bool:
    return "added" in group and bool(group["added"].notna().any())


def _notes(frame: DataFrame, constant: list[str]) -> Iterator[str]:
    yield from all_rows(constant)
    yield (
        f"Linear: after the probe's last step. {INTERVALS} p: exact paired test against the untrained encoder on the "
        "same clips, the larger of that over clips (McNemar's) and that over subjects, the largest over seeds "
        "(1 where they point in opposite directions), Holm-adjusted over the rows of a block (data set, split, "
        "setting, preset, encoder, stream, checkpoint and probe); it says nothing about other pre-training seeds. "
        "raw: the clip's coordinates, no network."
    )
