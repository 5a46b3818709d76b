"""``compare --table flops``: what encoders and training steps cost, counted one way, beside what papers print.

Needs no training: rows come from counting (:mod:`skelbench.cost`), not from runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any

from skelbench.cost import BODIES
from skelbench.plugin import TableSpec, hookimpl
from skelbench.plugin.host import Host
from skelbench.report import published
from skelbench.report.inputs import TableInputs
from skelbench.report.table import Cell, Column, Table

if TYPE_CHECKING:
    from skelbench.cost.rows import CostRow

DENSE = "30x25"

SCOPE = (
    f"Pre-training: GFLOPs of a clip with {BODIES} bodies; train encoder and decoder: one forward pass of one view; "
    "whole step: all views, teacher, heads, forward and backward."
)
_FOOTNOTES = {
    "published": "not counted here: published figures only",
    "one-body": "the published method trains on one body of a clip: half of the pre-training figures",
}

_PRINTED = {
    ("inference", "encoder_gflops"): "published_inference",
    ("pretraining", "encoder_gflops"): "published_encoder",
    ("pretraining", "decoder_gflops"): "published_decoder",
    ("pretraining", "target_gflops"): "published_target",
}
"""(protocol, metric) of published tables -> column."""

_COLUMNS = (
    Column("method", "Method"),
    Column("tokens", "Tokens"),
    Column("gmacs_body", "GMAC per body", ".3f"),
    Column("gflops_1", "GFLOPs, 1 body", ".2f"),
    Column("gflops_2", "GFLOPs, 2 bodies", ".2f"),
    Column("ratio", "30×25 / row", ".2f"),
    Column("pretrain_encoder", "Train encoder", ".2f"),
    Column("pretrain_decoder", "Train decoder", ".2f"),
    Column("step", "Whole step per clip", ".1f"),
    Column("published_inference", "Paper: encoder", ".2f", published=True),
    Column("published_encoder", "Paper: train encoder", ".2f", published=True),
    Column("published_decoder", "Paper: decoder", ".2f", published=True),
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    return [
        TableSpec(
            name="flops",
            target=":table",
            summary="MACs and GFLOPs of encoder, decoder and whole training step at the paper's token grids",
            needs_runs=False,
        )
    ]


def table(inputs: TableInputs) -> Table:
    """The table of every installed method."""
    return build(counted(inputs), inputs.host)


def counted(inputs: TableInputs) -> Iterator[CostRow]:
    """Every method counted on every grid, with progress."""
    from skelbench.cost.rows import flops_grids, flops_rows

    grids = flops_grids(inputs.host)
    progress = inputs.progress or (lambda **_: nullcontext(lambda advance: None))
    with progress(total=len(grids), label="counting cost", unit="rows") as report:
        yield from flops_rows(inputs.host, (report(1) or one for one in grids))


def build(costs: Iterable[CostRow], host: Host) -> Table:
    """The rows of ``costs`` in their order, then methods that only papers give figures for; ``host`` knows these."""
    costs = list(costs)
    printed = Published(_COLUMNS, host)
    dense = _dense(costs)
    rows: list[dict[str, Any]] = []
    for cost in costs:
        macs = cost.encoder.macs
        rows.append(
            {
                "method": method_cell(cost, printed),
                "tokens": shown_tokens(cost),
                "gmacs_body": macs / 1e9,
                "gflops_1": cost.encoder.flops() / 1e9,
                "gflops_2": cost.encoder.flops(BODIES) / 1e9,
                "ratio": dense.encoder.macs / macs if dense else None,
                "pretrain_encoder": gflops(cost.visible_macs),
                "pretrain_decoder": gflops(cost.decoder_macs),
                "step": None if cost.step_flops is None else cost.step_flops / 1e9,
                **printed.cells(cost.method, cost.tokens),
            }
        )
    rows += printed.uncounted(costs)
    return Table(
        title="Cost of encoders and of pre-training",
        columns=_COLUMNS,
        rows=tuple(rows),
        notes=(*how_counted(costs, SCOPE), *published.notes(host, "flops")),
        footnotes=footnotes_of(rows),
    )


def how_counted(costs: list[CostRow], scope: str) -> Iterable[str]:
    """Notes on the convention, on what the figures speak of (``scope``), and on the counters."""
    if not costs:
        yield "Nothing was counted: no method could be loaded; see `skelbench plugins list`."
        return
    first = costs[0].encoder
    yield f"{first.convention} Tokens +1: class token."
    yield scope
    ops = sorted({op for cost in costs for op in cost.encoder.uncounted_ops})
    yield (
        f"Counted by fvcore {first.versions.get('fvcore', '')} and agreeing within 1 % with "
        f"torch.utils.flop_counter (torch {first.versions.get('torch', '')}) and, where there is one, the closed "
        f"form. Operators not counted: {', '.join(ops) or 'none'}."
    )


def _dense(costs: list[CostRow]) -> CostRow | None:
    """The row that others are compared with: the dense grid, without class token."""
    return next((cost for cost in costs if cost.tokens == DENSE and not cost.class_token), None)


class Published:
    """Published costs by method and token grid, for those of ``columns`` that papers have; of several figures for one
    cell the first."""

    def __init__(self, columns: Iterable[Column], host: Host) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[tuple[str, str], dict[str, float]] = {}
        shown = {column.key for column in columns}
        for row in chain.from_iterable(published.tables(host).values()):
            name = self._names.setdefault(_key(row["method"]), row["method"])
            column = _PRINTED.get((row["protocol"], row["metric"]))
            if column in shown:
                self._values.setdefault((name, row["variant"].split(",")[0]), {}).setdefault(column, row["value"])

    def spelling(self, method: str) -> str:
        return self._names.get(_key(method), method)

    def cells(self, method: str, tokens: str) -> dict[str, float]:
        return self._values.get((self.spelling(method), tokens), {})

    def uncounted(self, costs: list[CostRow]) -> Iterable[dict[str, Any]]:
        """Rows of methods as their papers run them (their pre-training costs are printed) that are not in ``costs``."""
        counted = {_key(cost.method) for cost in costs}
        for (method, tokens), values in self._values.items():
            if "published_encoder" in values and _key(method) not in counted:
                yield {
                    "method": Cell(method, published=True, footnotes=("published",)),
                    "tokens": Cell(_cross(tokens), published=True),
                    **values,
                }


def method_cell(cost: CostRow, printed: Published) -> Cell:
    """The method as papers spell it."""
    return Cell(printed.spelling(cost.method), footnotes=("one-body",) if cost.one_body else ())


def footnotes_of(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The footnotes that ``rows`` have."""
    used = {note for row in rows for note in row["method"].footnotes}
    return {note: text for note, text in _FOOTNOTES.items() if note in used}


def shown_tokens(cost: CostRow) -> str:
    """``30×25``, with ``+1`` for a class token."""
    return _cross(cost.tokens) + ("+1" if cost.class_token else "")


def gflops(macs_body: int | None) -> float | None:
    """GFLOPs of a clip with :data:`BODIES` bodies."""
    return None if macs_body is None else 2 * BODIES * macs_body / 1e9


def _cross(tokens: str) -> str:
    return tokens.replace("x", "×")


def _key(method: str) -> str:
    return re.sub(r"[^a-z0-9]", "", method.lower())
