"""``compare --table token-budget``: methods at 8, 15 and 30 temporal tokens, with everything else equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from skelbench.plugin import TableSpec, hookimpl
from skelbench.reporting import study_rows
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.published import SIZES
from skelbench.reporting.study_rows import BLOCK, PAPER_COLUMNS, Row, StudyTable
from skelbench.reporting.table import Column, Table
from skelbench.views.skeleton.grid import BUDGETS

if TYPE_CHECKING:
    from pandas import DataFrame

NAME = "token-budget"
DENSE = 30
"""Temporal tokens of the budget with which other budgets of a method are compared."""


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "methods at 8, 15 and 30 temporal tokens: accuracy, cost, drop against 30; published results"
    return [TableSpec(name="token-budget", target=":table", summary=summary, probe="linear")]


def table(inputs: TableInputs) -> Table:
    """A row per method and token grid: what plugins announce (method, variant, grid, published results), other grids of
    these, and every other method that was run on more than one grid."""
    announced = [row for row in chain.from_iterable(study_rows.announced(inputs, NAME)) if row.grid]
    study = StudyTable(
        name=NAME,
        title="Token budgets: linear accuracy in percent and cost",
        rows=lambda block: rows_for(block, announced, inputs.exact_only),
        labels=(
            Column("method", "Method", leads=True),
            Column("tokens", "Tokens", leads=True),
            Column("frames", "T", "d", minor=True),
            Column("patch", "P_T", "d", minor=True),
        ),
        against=f"Over {DENSE} tokens",
        paper=(PAPER_COLUMNS["paper_gflops"], PAPER_COLUMNS["paper_mean"]),
        block=tuple(key for key in BLOCK if key not in ("tokens", "frames", "patch")),
        notes=(
            "T: clip length in frames; P_T: frames of a patch; tokens: T / P_T times joints, +1 for a class token. "
            f"Over {DENSE} tokens: minus the same method's row at {DENSE} temporal tokens.",
        ),
    )
    return study(inputs)


def rows_for(block: DataFrame, announced: Sequence[Row], fewer: bool = False) -> list[Row]:
    """The ``announced`` rows, method by method, and rows for other methods and grids of the runs in ``block``; with
    ``fewer`` there are no rows of methods without a run, and no published results next to a reduced size."""
    if fewer:
        full, here = block["preset"].iloc[0].removesuffix("+") in SIZES, set(block["method"])
        own = [row for row in announced if row.method in here]
        announced = own if full else [replace(row, printed=None, expected=False) for row in own]
    rows: list[Row] = []
    for method in dict.fromkeys([*(row.method for row in announced), *sorted(set(block["method"]) - {*CONTROLS})]):
        own = list({(row.variant, row.grid): row for row in announced if row.method == method}.values())
        plain = _with_other_grids(method, [row for row in own if not row.variant], block)
        rows += [row for row in own if row.variant] + plain if own or len(plain) > 1 else []
    joints = block["tokens"].iloc[0].partition("x")[2]  # empty without a counted cost
    dense = {row.method: place for place, row in enumerate(rows) if row.grid == BUDGETS[DENSE] and not row.variant}
    return [
        replace(
            row,
            labels={"method": row.title, "tokens": f"{row.tokens}x{joints}" if joints else str(row.tokens)},
            against=None if row.variant or row.grid == BUDGETS[DENSE] else dense.get(row.method),
        )
        for row in rows
    ]


def _with_other_grids(method: str, rows: list[Row], block: DataFrame) -> list[Row]:
    """``rows``, and one for every other grid that ``method`` was run on, by tokens."""
    runs = block[(block["method"] == method) & (block["variant"] == "")]
    grids = {(int(frames), int(patch)) for frames, patch in zip(runs["frames"], runs["patch"], strict=True)}
    missing = [Row(method=method, grid=grid, expected=False) for grid in grids - {row.grid for row in rows}]
    return sorted([*rows, *missing], key=lambda row: (row.tokens, row.grid))
