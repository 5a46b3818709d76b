"""``compare --table token-budget``: methods at 8, 15 and 30 temporal tokens, with everything else equal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skelbench.report import study_rows
from skelbench.report.study_rows import BLOCK, PAPER_COLUMNS, Row, StudyTable, paper
from skelbench.report.table import Column, Table
from skelbench.results.store import ResultStore
from skelbench.skeleton.grid import BUDGETS
from skelbench.spec import titled

if TYPE_CHECKING:
    from pandas import DataFrame

PLANNED = ("skeletonmae", "mamp", "slim")
"""Methods of the study; the paper gives others at one budget for reference."""
DENSE = 30
"""Temporal tokens that other budgets of a method are compared with."""

_METHODS = (("skeletonmae", "SkeletonMAE"), ("mamp", "MAMP"), ("sjepa", "S-JEPA"), ("gfp", "GFP"), ("slim", "SLiM"))


def build(frame: DataFrame, store: ResultStore) -> Table:
    """A row per method and token grid; see :func:`skelbench.report.study_rows.build`.

    Beside the paper's rows: every other method that was run on more than one grid, and other grids of the paper's.
    """
    study = StudyTable(
        name="token-budget",
        title="Token budgets: linear accuracy in percent and cost",
        rows=rows_for,
        labels=(
            Column("method", "Method", leads=True),
            Column("tokens", "Tokens", leads=True),
            Column("frames", "T", "d"),
            Column("patch", "P_T", "d"),
        ),
        against=f"Over {DENSE} tokens",
        paper=(PAPER_COLUMNS["paper_gflops"], PAPER_COLUMNS["paper_mean"]),
        block=tuple(key for key in BLOCK if key not in ("tokens", "frames", "patch")),
        notes=(
            "T: clip length in frames; P_T: frames of a patch; tokens: T / P_T times joints, +1 for a class token. "
            f"Over {DENSE} tokens: minus the same method's row at {DENSE} temporal tokens.",
            "Paper: NTU-60, mean of X-Sub and X-View, 150 epochs. Its 28.32 GFLOPs follow from the convention used "
            "here, its 3.59 and 8.36 do not (`skelbench compare --table flops` says more). slim:half-batch, the "
            "paper's batch of 384: from `skelbench study batch` with the same preset.",
        ),
    )
    return study_rows.build(study, frame, store)


def rows_for(block: DataFrame) -> list[Row]:
    """The paper's rows, in its order, with those of other methods and grids of the runs in ``block``."""
    rows: list[Row] = []
    for method, printed in _METHODS:
        if method == "slim":
            rows.append(_row(method, BUDGETS[8], block, printed, "8x25, batch 384", variant="half-batch"))
        budgets = BUDGETS.values() if method in PLANNED else [BUDGETS[DENSE]]
        paper_rows = [_row(method, grid, block, printed, *_names(grid)) for grid in budgets]
        rows += _with_others(method, paper_rows, block)
    known = {method for method, _ in _METHODS} | {"untrained"}
    for method in sorted(set(block["method"]) - known):
        found = _with_others(method, [], block)
        rows += found if len(found) > 1 else []
    dense = {row.method: place for place, row in enumerate(rows) if row.grid == BUDGETS[DENSE]}
    compared = [row.grid != BUDGETS[DENSE] and not row.variant for row in rows]
    return [
        replace(row, against=dense.get(row.method) if yes else None) for row, yes in zip(rows, compared, strict=True)
    ]


def _names(grid: tuple[int, int]) -> tuple[str, ...]:
    """What the published table may call a grid: SLiM's row at 8 tokens is called after its batch."""
    tokens = f"{grid[0] // grid[1]}x25"
    return tokens, f"{tokens}, batch 768"


def _row(
    method: str, grid: tuple[int, int], block: DataFrame, printed: str = "", *names: str, variant: str = ""
) -> Row:
    frames, patch = grid
    joints = block["tokens"].iloc[0].split("x")[1]
    labels = {"method": titled(method, variant), "tokens": f"{frames // patch}x{joints}"}
    figures = next((found for name in names if (found := paper("token_budget", name, printed))), {})
    return Row(labels, method, variant, grid, paper=figures, planned=method in PLANNED and not variant)


def _with_others(method: str, rows: list[Row], block: DataFrame) -> list[Row]:
    """``rows``, and one for every other grid that ``method`` was run on, by tokens."""
    runs = block[(block["method"] == method) & (block["variant"] == "")]
    grids = {(int(frames), int(patch)) for frames, patch in zip(runs["frames"], runs["patch"], strict=True)}
    others = [replace(_row(method, grid, block), expected=False) for grid in grids - {row.grid for row in rows}]
    return sorted([*rows, *others], key=lambda row: (row.grid[0] // row.grid[1], row.grid[0]))
