"""``compare --table flops-detail``: what each module of a pre-training step costs, beside what the paper prints.

Needs no training: rows come from counting (:mod:`skelbench.cost`), not from runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from skelbench.cost import BODIES
from skelbench.plugin import TableSpec, hookimpl
from skelbench.plugin.host import Host
from skelbench.report import published
from skelbench.report.flops import (
    Published,
    counted,
    footnotes_of,
    gflops,
    how_counted,
    method_cell,
    shown_tokens,
)
from skelbench.report.inputs import TableInputs
from skelbench.report.table import Column, Table

if TYPE_CHECKING:
    from skelbench.cost.rows import CostRow

_COLUMNS = (
    Column("method", "Method"),
    Column("tokens", "Tokens"),
    Column("grid", "Grid"),
    Column("visible", "Visible", "d"),
    Column("inference", "Inference", ".2f"),
    Column("student", "Student encoder", ".2f"),
    Column("decoder", "Decoder", ".2f"),
    Column("target", "Target / auxiliary", ".2f"),
    Column("heads", "Heads, all views", ".2f"),
    Column("step", "Whole step", ".1f"),
    Column("published_inference", "Paper: inference", ".2f", published=True),
    Column("published_encoder", "Paper: student", ".2f", published=True),
    Column("published_decoder", "Paper: decoder", ".2f", published=True),
    Column("published_target", "Paper: target", ".2f", published=True),
)

SCOPE = (
    f"All columns: GFLOPs of a clip with {BODIES} bodies. Inference: the encoder on all tokens. Student encoder, "
    "decoder, target / auxiliary: forward, one view, masked for the student (visible: tokens that it sees) and whole "
    "for an EMA teacher. Heads: projection heads of student and teacher, forward, all views of a step. Whole "
    "step: all views and modules, forward and backward."
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    return [
        TableSpec(
            name="flops-detail",
            target=":table",
            summary="GFLOPs of student encoder, decoder, targets and heads, on native token grids and the paper's",
            needs_runs=False,
        )
    ]


def table(inputs: TableInputs) -> Table:
    """The table of every installed method."""
    return build(counted(inputs), inputs.host)


def build(costs: Iterable[CostRow], host: Host) -> Table:
    """Methods on their native grids, then on the other budgets, then those only papers give figures for."""
    costs = sorted(costs, key=lambda cost: not cost.native)
    printed = Published(_COLUMNS, host)
    rows: list[dict[str, Any]] = [
        {
            "method": method_cell(cost, printed),
            "tokens": shown_tokens(cost),
            "grid": "native" if cost.native else "budget",
            "visible": cost.visible or cost.encoder.tokens,
            "inference": gflops(cost.encoder.macs),
            "student": gflops(cost.visible_macs),
            "decoder": gflops(cost.decoder_macs),
            "target": gflops(cost.target_macs),
            "heads": gflops(cost.head_macs),
            "step": None if cost.step_flops is None else cost.step_flops / 1e9,
            **printed.cells(cost.method, cost.tokens),
        }
        for cost in costs
    ]
    rows += printed.uncounted(costs)
    return Table(
        title="Cost of the modules of a pre-training step",
        columns=_COLUMNS,
        rows=tuple(rows),
        notes=(*how_counted(costs, SCOPE), *published.notes(host, "flops-detail")),
        footnotes=footnotes_of(rows),
    )
