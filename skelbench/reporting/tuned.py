"""``compare --table tuned``: tuned settings of each method next to its defaults, and the cost of tuning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from skelbench.core.spec import listed
from skelbench.evaluation.stats.paired import t_half_width
from skelbench.plugin import TableSpec, hookimpl
from skelbench.records.tuned import Compared, Retrained, TuningRecord, read_all
from skelbench.reporting import builder
from skelbench.reporting.seeds import INTERVALS, accuracy, adjust, points
from skelbench.reporting.table import Cell, Column, Table

if TYPE_CHECKING:
    from skelbench.reporting.inputs import TableInputs

BLOCK = (
    "dataset", "split", "chosen_on", "tokens", "setting", "preset", "changed", "probe", "hardware", "asked", "budget",
    "sampler", "data",
)  # fmt: skip
"""Columns in which competing rows agree."""
LAYOUT = builder.Layout(
    "Default and tuned: accuracy in percent",
    "nothing was tuned yet: `skelbench tune METHOD,METHOD --trials 20 --budget clips=N` fills this table",
    (
        Column("method", "Method", leads=True),
        *(builder.setting(key, leads=True) for key in BLOCK),
        Column("seed", "Seed of the search", "d", shown=False),
        Column("seeds", "Seeds", "d"),
        Column("default", "Default", ".1f", best="max"),
        Column("tuned", "Tuned", ".1f", best="max"),
        Column("difference", "Tuned - default", "+.1f", asked=True),
        Column("p_value", "p (Holm)", ".2g", asked=True),
        Column("trials", "Trials", "d"),
        Column("failed", "Failed", "d"),
        Column("hours", "Hours", ".2f"),
        Column("settings", "Tuned settings"),
    ),
    BLOCK,
    (
        "Chosen on held-out training subjects, from the stated number of trials (failed ones included) and clips. "
        "Default and tuned are then trained on all training clips with seeds that no trial had, and tested on the test "
        "split, which was not used for choosing.",
        f"{INTERVALS} p: exact sign-flip test, the larger one over test clips or over subjects, Holm-adjusted; it "
        "applies to these trained encoders, not to other pre-training seeds.",
        "Hours: training and probing of the trials, without the retraining of winner and defaults.",
    ),
    {
        "default": "no draw was better than the defaults on the held-out subjects, so tuning chose the defaults",
        "missing": "retraining is not complete: repeat the `skelbench tune` command",
        "diverged": "diverged when it was trained again: see the notes",
        "none": "every trial failed",
    },
    order=lambda row: tuple(str(row[key]) for key in BLOCK),
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "methods with default and tuned settings: accuracy, paired test, trials, hours"
    return [TableSpec(name="tuned", target=":table", summary=summary, needs_runs=False)]


def table(inputs: TableInputs) -> Table:
    """The table of the selected tuning records; p is adjusted over the shown rows."""
    takes, kinds = inputs.filters.takes, ("method", "dataset", "preset")
    records = [*read_all(inputs.store)]
    if records:
        inputs.filters.check_told("tuned", kinds)
    return build([record for record in records if takes(**{kind: getattr(record, kind) for kind in kinds})])


def build(records: Sequence[TuningRecord]) -> Table:
    """One row per record."""
    rows = [_row(record) for record in records]
    adjust(rows, within=lambda row: tuple(str(row[key]) for key in BLOCK))
    notes = [*chain.from_iterable(map(_reasons, records))]
    show = {"seed"} if len({record.seed for record in records}) > 1 else set()
    return builder.build(LAYOUT, [*map(builder.Filled, rows)], notes=notes, show=show)


def _row(record: TuningRecord) -> dict[str, Any]:
    compared = record.compared
    chosen = record.trials[record.winner].settings if record.winner is not None else {}
    why = "none" if record.winner is None else "default" if record.winner == 0 else ""
    return {
        **{key: getattr(record, key) for key in BLOCK if key not in ("asked", "budget")},
        "asked": f"{record.asked} trials",
        "budget": f"{record.budget_clips:,} clips",
        "changed": listed(record.changed),
        "data": record.data[:12],
        "method": Cell(record.method, footnotes=(why,) if why else ()),
        "seed": record.seed,
        "seeds": len(record.seeds),
        "default": _accuracy(record.default, "default" in record.diverged),
        "tuned": _accuracy(record.tuned, ("tuned" if record.winner else "default") in record.diverged),
        "difference": _difference(compared),
        "p_value": None if compared is None else compared.p_value,
        "trials": len(record.trials),
        "failed": record.failed,
        "hours": record.hours,
        "settings": listed(chosen),
    }


def _reasons(record: TuningRecord) -> Iterator[str]:
    """Notes on failed trials, each reason once, and on settings that diverged in the retraining."""
    for reason, several in Counter(trial.failure for trial in record.trials if trial.failure).items():
        yield f"{record.method}: {several} of {len(record.trials)} trials failed: {reason}"
    for side, reason in record.diverged.items():
        label = "the tuned settings" if side == "tuned" else "the defaults"
        yield f"{record.method}: {label} diverged over the whole schedule with {reason}"


def _difference(compared: Compared | None) -> Cell:
    if compared is None:
        return Cell()
    half = None if compared.spread is None else t_half_width(compared.spread, compared.seeds)
    return points(compared.difference, half, compared.interval, compared.seeds, compared.over)


def _accuracy(side: Retrained | None, diverged: bool) -> Cell:
    import pandas

    if side is None:
        return Cell(footnotes=("diverged" if diverged else "missing",))
    by_subject = [dict(enumerate(side.by_subject)) or None] * len(side.accuracy)
    return accuracy(pandas.DataFrame({"accuracy": side.accuracy, "n_test": side.n_test, "by_subject": by_subject}))
