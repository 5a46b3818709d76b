"""``compare --table linear``: evaluated runs side by side, with intervals and tests against their controls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skelbench.errors import SkelbenchError
from skelbench.evaluate.statistics import holm
from skelbench.plugin import TableSpec, hookimpl
from skelbench.report.frame import CONTROLS
from skelbench.report.seeds import RAW, accuracy, alike, nearest, over_raw, percent, seeds_of
from skelbench.report.table import Cell, Column, Table, footnotes_of

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from skelbench.report.inputs import TableInputs

REQUIRED = (
    "run", "title", "setting", "dataset", "split", "tokens", "preset", "encoder", "hardware", "seed", "protocol",
    "stream", "checkpoint", "accuracy", "accuracy_selected", "accuracy_best_on_test", "n_test", "control_run",
    "control_accuracy", "p_value", "raw_evaluation", "raw_difference", "raw_p_value", "evaluation",
    "gflops", "clips_seen", "train_seconds",
)  # fmt: skip

_SETTING = [
    "title", "setting", "dataset", "split", "tokens", "preset", "encoder", "hardware", "protocol", "stream",
    "checkpoint",
]  # fmt: skip
_BLOCK = ["setting", "dataset", "split", "encoder", "protocol", "stream", "checkpoint"]
"""What rows that compete have in common."""
_SHARES = ["accuracy", "accuracy_selected", "accuracy_best_on_test", "control_accuracy"]
_NUMBERS = [*_SHARES, "n_test", "p_value", "raw_difference", "raw_p_value", "gflops", "clips_seen", "train_seconds"]

TITLE = "Linear evaluation: accuracy in percent"
BEST = "highest test accuracy over the probe's checkpoints: chosen on test data, an upper bound for reference"
NATIVE = "the method's own encoder form and bodies: ranked apart, not comparable with shared rows"
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
    return [TableSpec(name="linear", target=":table", summary=summary)]


def table(inputs: TableInputs) -> Table:
    """The table of the evaluations in ``inputs``."""
    return build(inputs.frame)


def build(frame: DataFrame) -> Table:
    """One row per setting, averaged over its seeds; an empty ``frame`` gives an empty table that says what to run.

    ``frame`` has one row per evaluation of a run (:func:`skelbench.report.frame.frame`) with the columns of
    :data:`REQUIRED`, accuracies as shares in [0, 1]; ``control_accuracy`` and ``p_value`` are missing where there is no
    untrained encoder to compare with. An optional column ``group`` keeps apart what the other columns do not show.
    Seeds make rows as in :func:`~skelbench.report.seeds.seeds_of`. A row's p-value is the largest of its seeds (every
    seed must differ from its control), Holm-adjusted over the rows.

    Raises:
        SkelbenchError: a column is missing, or accuracies are not shares.
    """
    import pandas

    if missing := [name for name in REQUIRED if name not in frame.columns]:
        raise SkelbenchError(f"the frame of evaluated runs lacks the columns {', '.join(missing)}; fill them")
    linear = frame[frame["protocol"].astype(str).str.startswith("linear")]
    if linear.empty:
        return Table(TITLE, _columns(set()), notes=(HOW,), footnotes={"best": BEST})
    frame = frame.assign(**{name: pandas.to_numeric(frame[name]) for name in _NUMBERS})
    linear = _raw_beside(frame.loc[linear.index])
    for name in _SHARES:
        if not frame[name].dropna().between(0, 1).all():
            raise SkelbenchError(f"column {name} of the evaluated runs must hold shares in [0, 1], not percent")
    knn = nearest(frame)
    rows = [_row(group, knn) for group in seeds_of(linear, _SETTING)]
    tested = [row for row in rows if row["p_value"] is not None]
    for row, p in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
        row["p_value"] = float(p)
    rows.sort(key=lambda row: (row["setting"] != "shared", *(row[key] for key in _BLOCK[1:]), -row["accuracy"].value))
    varying, constant = alike(rows, [*_BLOCK, "preset", "hardware"])
    varying |= {"raw"} if any(row["raw"].value is not None for row in rows) else set()
    footnotes = {"best": BEST} | footnotes_of(rows, {"native": NATIVE, "control": CONTROL, "raw": RAW})
    return Table(TITLE, _columns(varying), tuple(rows), tuple(_notes(frame, constant)), footnotes).ranked(within=_BLOCK)


def _raw_beside(linear: DataFrame) -> DataFrame:
    """The control ``raw`` has neither encoder nor preset: it stands once in every block of rows that are tested against
    it, and for all their presets."""
    places, tested = ["raw_evaluation", "setting", "encoder"], linear[linear["checkpoint"] == "last"]
    presets = tested["preset"].astype(str).str.removesuffix("+").groupby([tested[key] for key in places])
    found = presets.agg(lambda some: ", ".join(sorted(set(some)))).reset_index()
    raw = linear[linear["evaluation"].isin(found["raw_evaluation"])]
    if raw.empty:
        return linear
    import pandas

    apart = raw.drop(columns=["raw_evaluation", "setting", "encoder", "preset"])
    beside = apart.merge(found.rename(columns={"raw_evaluation": "evaluation"}), on="evaluation")
    return pandas.concat([linear.drop(raw.index), beside])


def _columns(varying: set[str]) -> tuple[Column, ...]:
    def shared(*keys: str) -> Iterator[Column]:
        """Columns that are shown only where rows differ in them."""
        headers = {"dataset": "Data set", "protocol": "Probe"}
        return (Column(key, headers.get(key, key.capitalize()), shown=key in varying) for key in keys)

    return (
        Column("method", "Method"),
        *shared("setting", "dataset", "split"),
        Column("tokens", "Tokens"),
        *shared("preset", "encoder", "hardware", "protocol", "stream", "checkpoint"),
        Column("seeds", "Seeds", "d"),
        Column("accuracy", "Linear", ".1f", best="max"),
        Column("accuracy_selected", "Selected on train", ".1f", best="max"),
        Column("accuracy_best_on_test", "Best on test", ".1f", footnotes=("best",)),
        Column("knn", "1-NN", ".1f", best="max"),
        Column("difference", "Over untrained", "+.1f"),
        Column("p_value", "p (Holm)", ".2g"),
        Column("raw", "Over raw", "+.1f", shown="raw" in varying),
        Column("gflops", "GFLOPs, 1 body", ".2f"),
        Column("clips_seen", "Clips seen", ",d"),
        Column("train_minutes", "Training, minutes", ".1f"),
        Column("run", "Run"),
    )


def _row(group: DataFrame, knn: Callable[[DataFrame], Series]) -> dict[str, Any]:
    first = group.iloc[0]
    setting = {key: str(first[key]) for key in _SETTING}
    title = setting.pop("title")
    difference = percent(group["accuracy"] - group["control_accuracy"])
    if difference.value is None and title not in CONTROLS:
        difference = Cell(footnotes=("control",))
    clips = group["clips_seen"].mean()
    return setting | {
        "method": Cell(title, footnotes=("native",) if setting["setting"] == "native" else ()),
        "seeds": len(group),
        "accuracy": accuracy(group),
        "accuracy_selected": percent(group["accuracy_selected"]),
        "accuracy_best_on_test": percent(group["accuracy_best_on_test"]),
        "knn": percent(knn(group)),
        "difference": difference,
        "p_value": float(group["p_value"].max()) if group["p_value"].notna().all() else None,
        "raw": over_raw(group),
        "gflops": float(group["gflops"].mean()),
        "clips_seen": None if math.isnan(clips) else round(clips),
        "train_minutes": float(group["train_seconds"].mean()) / 60,
        "run": ", ".join(map(str, group["run"])),
    }


def _notes(frame: DataFrame, constant: list[str]) -> Iterator[str]:
    if constant:
        yield f"All rows: {', '.join(constant)}."
    yield (
        "Linear: after the probe's last step. Brackets: Wilson 95 % interval over test clips. ±: standard deviation "
        "over seeds, where there are several. p: exact McNemar test against the untrained encoder on the same clips "
        "(the largest over seeds), Holm-adjusted over rows; it says nothing about other pre-training seeds. raw: the "
        "clip's coordinates, no network."
    )
    probed = frame["protocol"].astype(str).str.startswith("linear")
    if left_out := sorted(set(frame["run"].astype(str)) - set(frame.loc[probed, "run"].astype(str))):
        yield f"Without a linear probe and left out: {', '.join(left_out)} (`skelbench eval RUN --protocol linear`)."
