"""``compare --table linear``: evaluated runs side by side, with intervals and tests against an untrained encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skelbench.errors import SkelbenchError
from skelbench.evaluate.statistics import holm
from skelbench.plugin import TableSpec, hookimpl
from skelbench.report.seeds import accuracy, alike, nearest, percent, seeds_of
from skelbench.report.table import Cell, Column, Table

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from skelbench.report.inputs import TableInputs

REQUIRED = (
    "run", "title", "setting", "dataset", "split", "tokens", "preset", "encoder", "hardware", "seed", "protocol",
    "stream", "checkpoint", "accuracy", "accuracy_selected", "accuracy_best_on_test", "n_test", "control_run",
    "control_accuracy", "p_value", "gflops", "clips_seen", "train_seconds",
)  # fmt: skip

_SETTING = [
    "title", "setting", "dataset", "split", "tokens", "preset", "encoder", "hardware", "protocol", "stream",
    "checkpoint",
]  # fmt: skip
_BLOCK = ["setting", "dataset", "split", "encoder", "protocol", "stream", "checkpoint"]
"""What rows that compete have in common."""
_SHARES = ["accuracy", "accuracy_selected", "accuracy_best_on_test", "control_accuracy"]
_NUMBERS = [*_SHARES, "n_test", "p_value", "gflops", "clips_seen", "train_seconds"]

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
    return [
        TableSpec(
            name="linear",
            target=":table",
            summary="every evaluated run: accuracy with interval, paired test against the untrained encoder, cost",
        )
    ]


def table(inputs: TableInputs) -> Table:
    """The table of the evaluations in ``inputs``."""
    return build(inputs.frame)


def build(frame: DataFrame) -> Table:
    """One row per setting, averaged over its seeds; an empty ``frame`` gives an empty table that says what to run.

    ``frame`` has one row per evaluation of a run, with the columns of :data:`REQUIRED`:

    ``run`` (id shown to the reader), ``title`` (method and variant, ``"slim:glcl-only"``), ``setting`` (``shared`` or
    ``native``), ``dataset``, ``split``, ``tokens`` (e.g. ``"8x25"``), ``preset``, ``encoder``, ``hardware``, ``seed``;
    ``protocol`` (``linear``, ``linear@...`` or ``knn``); ``stream`` (``joint``); ``checkpoint`` (``"last"``, or the
    epoch); ``accuracy`` (after the last step), ``accuracy_selected`` (at the checkpoint chosen on a part of train),
    ``accuracy_best_on_test`` (NaN for knn), all as shares in [0, 1]; ``n_test`` clips; ``control_run``,
    ``control_accuracy`` and ``p_value`` (exact McNemar) of the untrained encoder of the same shape, data and seed under
    the same protocol (missing for the control itself and where there is none); ``gflops`` of the inference encoder for
    one body; ``clips_seen`` and ``train_seconds`` of pre-training.

    An optional column ``group`` (a digest of everything but the seed) keeps apart what the other columns do not show.
    Runs of one setting are one row with mean and standard deviation over seeds; a seed that occurs twice means that
    something else differs, and every evaluation gets a row of its own. The interval is Wilson's 95 % for the mean
    accuracy on ``n_test`` clips. A row's p-value is the largest of its seeds (every seed must differ from its control),
    Holm-adjusted over the rows.

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
    linear = frame.loc[linear.index]
    for name in _SHARES:
        if not frame[name].dropna().between(0, 1).all():
            raise SkelbenchError(f"column {name} of the evaluated runs must hold shares in [0, 1], not percent")
    knn = nearest(frame)
    rows = [_row(group, knn) for group in seeds_of(linear, _SETTING)]
    tested = [row for row in rows if row["p_value"] is not None]
    for row, p in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
        row["p_value"] = float(p)
    rows.sort(
        key=lambda row: (
            row["setting"] != "shared",
            *(row[key] for key in _BLOCK[1:]),
            -row["accuracy"].value,
        )
    )
    varying, constant = alike(rows, [*_BLOCK, "preset", "hardware"])
    used = {note for row in rows for cell in row.values() if isinstance(cell, Cell) for note in cell.footnotes}
    footnotes = {"best": BEST, "native": NATIVE, "control": CONTROL}
    footnotes = {note: text for note, text in footnotes.items() if note == "best" or note in used}
    table = Table(
        title=TITLE,
        columns=_columns(varying),
        rows=tuple(rows),
        notes=tuple(_notes(frame, constant)),
        footnotes=footnotes,
    )
    return table.ranked(within=_BLOCK)


def _columns(varying: set[str]) -> tuple[Column, ...]:
    return (
        Column("method", "Method"),
        Column("setting", "Setting", shown="setting" in varying),
        Column("dataset", "Data set", shown="dataset" in varying),
        Column("split", "Split", shown="split" in varying),
        Column("tokens", "Tokens"),
        Column("preset", "Preset", shown="preset" in varying),
        Column("encoder", "Encoder", shown="encoder" in varying),
        Column("hardware", "Hardware", shown="hardware" in varying),
        Column("protocol", "Probe", shown="protocol" in varying),
        Column("stream", "Stream", shown="stream" in varying),
        Column("checkpoint", "Checkpoint", shown="checkpoint" in varying),
        Column("seeds", "Seeds", "d"),
        Column("accuracy", "Linear", ".1f", best="max"),
        Column("accuracy_selected", "Selected on train", ".1f", best="max"),
        Column("accuracy_best_on_test", "Best on test", ".1f", footnotes=("best",)),
        Column("knn", "1-NN", ".1f", best="max"),
        Column("difference", "Over untrained", "+.1f"),
        Column("p_value", "p (Holm)", ".2g"),
        Column("gflops", "GFLOPs, 1 body", ".2f"),
        Column("clips_seen", "Clips seen", ",d"),
        Column("train_minutes", "Training, minutes", ".1f"),
        Column("run", "Run"),
    )


def _row(group: DataFrame, knn: Callable[[DataFrame], Series]) -> dict[str, Any]:
    first = group.iloc[0]
    row: dict[str, Any] = {key: str(first[key]) for key in _SETTING}
    title = row.pop("title")
    row["method"] = Cell(title, footnotes=("native",) if row["setting"] == "native" else ())
    row["seeds"] = len(group)
    row["accuracy"] = accuracy(group)
    row["accuracy_selected"] = percent(group["accuracy_selected"])
    row["accuracy_best_on_test"] = percent(group["accuracy_best_on_test"])
    row["knn"] = percent(knn(group))
    difference = group["accuracy"] - group["control_accuracy"]
    if difference.notna().all():
        row["difference"] = percent(difference)
    else:
        row["difference"] = Cell(footnotes=() if title == "untrained" else ("control",))
    row["p_value"] = float(group["p_value"].max()) if group["p_value"].notna().all() else None
    row["gflops"] = float(group["gflops"].mean())
    row["clips_seen"] = _whole(group["clips_seen"].mean())
    row["train_minutes"] = float(group["train_seconds"].mean()) / 60
    row["run"] = ", ".join(map(str, group["run"]))
    return row


def _whole(value: float) -> int | None:
    return None if value != value else round(value)


def _notes(frame: DataFrame, constant: list[str]) -> Iterator[str]:
    if constant:
        yield f"All rows: {', '.join(constant)}."
    yield (
        "Linear: after the probe's last step. Brackets: Wilson 95 % interval over test clips. ±: standard deviation "
        "over seeds, where there are several. p: exact McNemar test against the untrained encoder on the same clips "
        "(the largest over seeds), Holm-adjusted over rows; it says nothing about other pre-training seeds."
    )
    probed = frame["protocol"].astype(str).str.startswith("linear")
    if left_out := sorted(set(frame["run"].astype(str)) - set(frame.loc[probed, "run"].astype(str))):
        yield f"Without a linear probe and left out: {', '.join(left_out)} (`skelbench eval RUN --protocol linear`)."
