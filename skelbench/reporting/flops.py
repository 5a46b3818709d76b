"""``compare --table flops`` and ``flops-detail``: what encoders and training steps cost, counted one way, beside what
papers print.

Needs no training: rows come from counting (:mod:`skelbench.evaluation.cost`), not from runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from skelbench.evaluation.cost import BODIES
from skelbench.plugin import TableSpec, hookimpl
from skelbench.plugin.host import Host
from skelbench.reporting import published
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.published import slug
from skelbench.reporting.table import Cell, Column, Table, footnotes_of

if TYPE_CHECKING:
    from skelbench.evaluation.cost.count import CostRow

DENSE = "30x25"
SCOPE = (
    f"Pre-training: GFLOPs of a clip with {BODIES} bodies; train encoder: one forward pass of one view; "
    "train decoder: forward, all views; whole step: all views, teacher, heads, forward and backward."
)
SCOPE_DETAIL = (
    f"All columns: GFLOPs of a clip with {BODIES} bodies. Inference: the encoder on all tokens. Student encoder: "
    "forward, one view, masked (visible: tokens that it sees). Decoder, target / auxiliary (EMA teachers among them) "
    "and heads of student and teacher: forward, all views of a step. Whole step: all views and modules, forward and "
    "backward, mean over the phases of a training, with full queues of keys. Published figures are of one view."
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

_LEADING = (
    Column("method", "Method"),
    Column("tokens", "Tokens"),
    Column("plugin", "Plugin", shown=False),  # the method as it is called here; "method" spells it as papers do
)
_COLUMNS = (
    *_LEADING,
    Column("gmacs_body", "GMAC per body", ".3f"),
    Column("gflops_1", "GFLOPs, 1 body", ".2f"),
    Column("gflops_2", "GFLOPs, 2 bodies", ".2f"),
    Column("ratio", "30x25 / row", ".2f"),
    Column("pretrain_encoder", "Train encoder", ".2f"),
    Column("pretrain_decoder", "Train decoder", ".2f"),
    Column("step", "Whole step per clip", ".1f"),
    Column("published_inference", "Paper: encoder", ".2f", published=True),
    Column("published_encoder", "Paper: train encoder", ".2f", published=True),
    Column("published_decoder", "Paper: decoder", ".2f", published=True),
)
_COLUMNS_DETAIL = (
    *_LEADING,
    Column("grid", "Grid"),
    Column("visible", "Visible", "d"),
    Column("inference", "Inference", ".2f"),
    Column("student", "Student encoder", ".2f"),
    Column("decoder", "Decoder", ".2f"),
    Column("target", "Target / auxiliary", ".2f"),
    Column("heads", "Heads", ".2f"),
    Column("step", "Whole step", ".1f"),
    Column("published_inference", "Paper: inference", ".2f", published=True),
    Column("published_encoder", "Paper: student", ".2f", published=True),
    Column("published_decoder", "Paper: decoder", ".2f", published=True),
    Column("published_target", "Paper: target", ".2f", published=True),
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "MACs and GFLOPs of encoder, decoder and whole training step at the paper's token grids"
    detail = "GFLOPs of student encoder, decoder, targets and heads, on native token grids and the paper's"
    return [
        TableSpec(name="flops", target=":table", summary=summary, needs_runs=False, counts=True),
        TableSpec(name="flops-detail", target=":table_detail", summary=detail, needs_runs=False, counts=True),
    ]


def table(inputs: TableInputs) -> Table:
    """The cost of every method."""
    return build(_counted(inputs, "flops", shares=True), inputs.host)


def table_detail(inputs: TableInputs) -> Table:
    """The cost of every method by module."""
    return build_detail(_counted(inputs, "flops-detail"), inputs.host)


def _counted(inputs: TableInputs, table: str, shares: bool = False) -> Iterator[CostRow]:
    """Every wanted method on every grid, counted with progress or as it was counted before; with ``shares`` the dense
    grid too, whatever is wanted."""
    inputs.filters.check_told(table, ("method",))  # before counting takes minutes
    from skelbench.evaluation.cost.cache import kept_rows
    from skelbench.evaluation.cost.count import flops_grids, with_reference

    every = flops_grids(inputs.host)
    grids = [pair for pair in every if inputs.filters.takes(method=pair[0].name)]
    grids = with_reference(every, grids) if shares else grids
    with inputs.track(total=len(grids), label="counting cost", unit="rows") as report:
        yield from kept_rows(inputs.host, (report(1) or one for one in grids))


def build(costs: Iterable[CostRow], host: Host) -> Table:
    """The rows of ``costs`` in their order, then methods that only papers give figures for; ``host`` knows these."""
    return _build("flops", "Cost of encoders and of pre-training", _COLUMNS, SCOPE, [*costs], host)


def build_detail(costs: Iterable[CostRow], host: Host) -> Table:
    """Methods on their native grids, then on the other budgets, then those only papers give figures for."""
    costs, title = sorted(costs, key=lambda cost: not cost.native), "Cost of the modules of a pre-training step"
    return _build("flops-detail", title, _COLUMNS_DETAIL, SCOPE_DETAIL, costs, host)


def _gflops(macs_body: float | None) -> float | None:
    """GFLOPs of a clip with :data:`BODIES` bodies."""
    return None if macs_body is None else 2 * BODIES * macs_body / 1e9


_COUNTED: Mapping[str, Callable[[CostRow], Any]] = {
    "gmacs_body": lambda cost: cost.encoder.body_macs / 1e9,
    "gflops_1": lambda cost: cost.encoder.flops() / 1e9,
    "gflops_2": lambda cost: cost.encoder.flops(BODIES) / 1e9,
    "pretrain_encoder": lambda cost: _gflops(cost.visible_macs),
    "pretrain_decoder": lambda cost: _gflops(cost.decoder_macs),
    "grid": lambda cost: "native" if cost.native else "budget",
    "visible": lambda cost: cost.visible or cost.encoder.tokens,
    "inference": lambda cost: _gflops(cost.encoder.body_macs),
    "student": lambda cost: _gflops(cost.visible_macs),
    "decoder": lambda cost: _gflops(cost.decoder_macs),
    "target": lambda cost: _gflops(cost.target_macs),
    "heads": lambda cost: _gflops(cost.head_macs),
    "step": lambda cost: None if cost.step_flops is None else cost.step_flops / 1e9,
}
"""Value of a counted column by its key."""


def _build(table: str, title: str, columns: tuple[Column, ...], scope: str, costs: list[CostRow], host: Host) -> Table:
    """A row per cost beside its published figures, and the notes that both tables share."""
    figures = _published(columns, host)
    names = {slug(row["method"]): row["method"] for row in reversed([*chain(*published.tables(host).values())])}
    dense = next((cost.encoder.body_macs for cost in costs if cost.tokens == DENSE and not cost.class_token), None)
    shown = {column.key for column in columns}
    rows: list[dict[str, Any]] = []
    for cost in costs:
        name = names.get(slug(cost.method), cost.method)
        row = {
            "method": Cell(name, footnotes=("one-body",) if cost.one_body else ()),
            "plugin": cost.method,
            "tokens": cost.tokens + ("+1" if cost.class_token else ""),
            **{key: value(cost) for key, value in _COUNTED.items() if key in shown},
        }
        row |= {"ratio": dense / cost.encoder.body_macs} if dense and "ratio" in shown else {}
        rows.append(row | figures.get((name, cost.tokens), {}))
    counted = {slug(cost.method) for cost in costs}
    for (method, tokens), values in figures.items():  # as their papers run them, with their cost of pre-training
        if "published_encoder" in values and slug(method) not in counted:
            alone = Cell(method, published=True, footnotes=("published",))
            rows.append({"method": alone, "tokens": Cell(tokens, published=True), **values})
    notes = (*_notes(costs, scope), *published.notes(host, table))
    return Table(title, columns, tuple(rows), notes, footnotes_of(rows, _FOOTNOTES))


def _notes(costs: list[CostRow], scope: str) -> Iterator[str]:
    """The convention, what the figures speak of (``scope``), and the counters."""
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


def _published(columns: Iterable[Column], host: Host) -> dict[tuple[str, str], dict[str, float]]:
    """Published costs by method, as papers spell it, and token grid; of several for one cell the first."""
    values: dict[tuple[str, str], dict[str, float]] = {}
    shown, names = {column.key for column in columns}, dict[str, str]()
    for row in chain.from_iterable(published.tables(host).values()):
        name = names.setdefault(slug(row["method"]), row["method"])
        column = _PRINTED.get((row["protocol"], row["metric"]))
        if column in shown:
            values.setdefault((name, row["variant"].split(",")[0]), {}).setdefault(column, row["value"])
    return values
