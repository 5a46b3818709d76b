"""``compare --table flops`` and ``flops-detail``: cost of encoders and training steps, counted with one convention,
next to published costs.

Needs no training: rows come from counting (:mod:`skelbench.evaluation.cost`), not from runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from skelbench.evaluation.cost import BODIES
from skelbench.plugin import TableSpec, hookimpl
from skelbench.plugin.host import Host
from skelbench.reporting import published
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.published import slug
from skelbench.reporting.table import Cell, Column, Table, footnotes_of
from skelbench.views.skeleton.grid import BUDGETS

if TYPE_CHECKING:
    from skelbench.evaluation.cost.count import CostRow

DENSE = "30x25"
SCOPE = (
    f"GFLOPs of a clip with {BODIES} bodies. Vs 30x25: cost of 30x25 / cost of the row. Train encoder: forward, one "
    "view; train decoder: forward, all views; whole step: all modules and views, forward and backward."
)
MORE = "Shown: methods with published costs, at 30, 15 and 8 temporal tokens. All methods and grids: --all."
SCOPE_DETAIL = (
    f"GFLOPs of a clip with {BODIES} bodies. Inference: the encoder on all tokens. Student encoder: forward, one view, "
    "visible tokens. Decoder, target / auxiliary and heads: forward, all views. Whole step: all modules and views, "
    "forward and backward. Published results are of one view."
)
_FOOTNOTES = {
    "published": "not counted here: published results only",
    "one-body": "the published method trains on one body of a clip: half of the pre-training costs",
}
_PRINTED = {
    ("inference", "encoder_gflops"): "published_inference",
    ("pretraining", "encoder_gflops"): "published_encoder",
    ("pretraining", "decoder_gflops"): "published_decoder",
    ("pretraining", "target_gflops"): "published_target",
}
"""(protocol, metric) of published tables -> column."""

_NEXT_TO = {
    "gflops_2": "published_inference",
    "pretrain_encoder": "published_encoder",
    "pretrain_decoder": "published_decoder",
    "inference": "published_inference",
    "student": "published_encoder",
    "decoder": "published_decoder",
    "target": "published_target",
}
"""Counted column -> published column that stands next to it."""

Counted = tuple[Column, Callable[["CostRow"], Any]]
"""A column and its value for a counted method."""


def _gflops(name: str) -> Callable[[CostRow], float | None]:
    """GFLOPs of a clip with :data:`BODIES` bodies, from the MACs of one body ``name``."""
    return lambda cost: None if (macs := getattr(cost, name)) is None else 2 * BODIES * macs / 1e9


def _step(cost: CostRow) -> float | None:
    return None if cost.step_flops is None else cost.step_flops / 1e9


def _paper(**headers: str) -> tuple[Column, ...]:
    return tuple(Column(f"published_{key}", f"Paper: {name}", ".2f", published=True) for key, name in headers.items())


_COLUMNS: tuple[Counted, ...] = (
    (Column("gflops_2", "GFLOPs", ".2f"), lambda cost: cost.encoder.flops(BODIES) / 1e9),
    (Column("ratio", "Vs 30x25", ".2f"), lambda cost: None),
    (Column("pretrain_encoder", "Train encoder", ".2f"), _gflops("visible_macs")),
    (Column("pretrain_decoder", "Train decoder", ".2f"), _gflops("decoder_macs")),
    (Column("step", "Whole step", ".1f"), _step),
    (Column("gmacs_body", "GMAC per body", ".3f", shown=False), lambda cost: cost.encoder.body_macs / 1e9),
    (Column("gflops_1", "GFLOPs, 1 body", ".2f", shown=False), lambda cost: cost.encoder.flops() / 1e9),
)
_PAPER = _paper(inference="GFLOPs", encoder="train encoder", decoder="decoder")
_COLUMNS_DETAIL: tuple[Counted, ...] = (
    (Column("grid", "Grid"), lambda cost: "native" if cost.native else "budget"),
    (Column("visible", "Visible", "d"), lambda cost: cost.visible or cost.encoder.tokens),
    (Column("inference", "Inference", ".2f"), lambda cost: cost.encoder.flops(BODIES) / 1e9),
    (Column("student", "Student encoder", ".2f"), _gflops("visible_macs")),
    (Column("decoder", "Decoder", ".2f"), _gflops("decoder_macs")),
    (Column("target", "Target / auxiliary", ".2f"), _gflops("target_macs")),
    (Column("heads", "Heads", ".2f"), _gflops("head_macs")),
    (Column("step", "Whole step", ".1f"), _step),
)
_PAPER_DETAIL = _paper(inference="inference", encoder="student", decoder="decoder", target="target")


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "MACs and GFLOPs of encoder, decoder and whole training step at the paper's token grids"
    detail = "GFLOPs of encoder, decoder, targets and heads, on published token grids and the paper's"
    return [
        TableSpec(name="flops", target=":table", summary=summary, needs_runs=False, counts=True),
        TableSpec(name="flops-detail", target=":table_detail", summary=detail, needs_runs=False, counts=True),
    ]


def table(inputs: TableInputs) -> Table:
    """The cost of methods."""
    return _wanted(build(_counted(inputs, "flops", shares=True), inputs.host), inputs)


def table_detail(inputs: TableInputs) -> Table:
    """The cost of every method by module."""
    return _wanted(build_detail(_counted(inputs, "flops-detail"), inputs.host), inputs)


def _wanted(table: Table, inputs: TableInputs) -> Table:
    """Return the rows of the wanted methods."""
    takes = inputs.filters.takes
    rows = tuple(row for row in table.rows if takes(method=str(row["plugin"].value)))
    return replace(table, rows=rows, notes=((MORE,) if _only_published(inputs) else ()) + table.notes)


def _counted(inputs: TableInputs, table: str, shares: bool = False) -> Iterator[CostRow]:
    """Count every wanted method on every grid, with progress, or read earlier counts; with ``shares`` the dense grid
    is always included."""
    inputs.filters.check_told(table, ("method",))  # an error comes before minutes of counting
    from skelbench.evaluation.cost.cache import kept_rows
    from skelbench.evaluation.cost.count import flops_grids, with_reference

    every = flops_grids(inputs.host)
    grids = [pair for pair in every if inputs.filters.takes(method=pair[0].name)]
    if _only_published(inputs):
        every_figure = chain(*published.tables(inputs.host).values())
        printed = {slug(row["method"]) for row in every_figure if row["metric"] == "encoder_gflops"}
        budgets = [*BUDGETS.values()]
        grids = [(method, grid) for method, grid in grids if slug(method.name) in printed]
        grids = [pair for pair in grids if not shares or (pair[1].frames, pair[1].patch) in budgets]
    elif shares:
        grids = with_reference(every, grids)
    with inputs.track(total=len(grids), label="counting cost", unit="rows") as report:
        yield from kept_rows(inputs.host, grids, again=inputs.recount, report=report)


def _only_published(inputs: TableInputs) -> bool:
    """Whether only methods with published costs are shown: neither ``--method`` nor ``--all`` is given."""
    return inputs.exact_only and not inputs.filters.method


def build(costs: Iterable[CostRow], host: Host) -> Table:
    """Rows of ``costs`` in their order, then methods with published costs only; ``host`` knows these."""
    title, notes = "Cost of encoders and of pre-training", published.notes(host, "flops")
    return _build(title, _COLUMNS, _PAPER, (SCOPE, *notes), [*costs], host)


def build_detail(costs: Iterable[CostRow], host: Host) -> Table:
    """Rows of methods on their native grids, then on other grids, then of methods with published costs only."""
    title, notes = "Cost of the modules of a pre-training step", published.notes(host, "flops-detail")
    ordered = sorted(costs, key=lambda cost: not cost.native)
    return _build(title, _COLUMNS_DETAIL, _PAPER_DETAIL, (SCOPE_DETAIL, *notes), ordered, host)


def _build(
    title: str, counted: Sequence[Counted], paper: tuple[Column, ...], texts: Sequence[str], costs: list[CostRow],
    host: Host,
) -> Table:  # fmt: skip
    """Return a row per cost next to its published costs, and the notes that both tables share."""
    every = [*chain(*published.tables(host).values())]
    names = {slug(row["method"]): row["method"] for row in reversed(every)}
    figures = _published({column.key for column in paper}, every, names)
    dense = next((cost.encoder.body_macs for cost in costs if cost.tokens == DENSE and not cost.class_token), None)
    keys = {column.key for column, _ in counted}
    rows: list[dict[str, Any]] = []
    for cost in costs:
        name = names.get(slug(cost.method), cost.method)
        row = {column.key: value(cost) for column, value in counted} | {
            "method": Cell(name, footnotes=("one-body",) if cost.one_body else ()),
            "tokens": cost.tokens + ("+1" if cost.class_token else ""),
            "plugin": cost.method,
        }
        row |= {"ratio": dense / cost.encoder.body_macs} if dense and "ratio" in keys else {}
        rows.append(row | figures.get((name, cost.tokens), {}))
    counted_here = {slug(cost.method) for cost in costs}
    for (method, tokens), values in figures.items():  # as in their papers, with their cost of pre-training
        if "published_encoder" in values and slug(method) not in counted_here:
            only_published = Cell(method, published=True, footnotes=("published",))
            rows.append({"method": only_published, "tokens": Cell(tokens, published=True), **values})
    # "plugin" is the method as it is called here; "method" has the spelling of papers.
    leading = Column("method", "Method"), Column("tokens", "Tokens"), Column("plugin", "Plugin", shown=False)
    printed_as = {column.key: column for column in paper}
    pairs = ((column, printed_as.get(_NEXT_TO.get(column.key, ""))) for column, _ in counted)
    own = [column for pair in pairs for column in pair if column]
    compact = next(
        (row.get("ratio") for row in rows if row.get("plugin") == "slim" and row["tokens"] == "8x25+1"), None
    )
    if "ratio" in keys and compact:
        printed = next((row["value"] for row in every if row["metric"] == "reduction"), None)
        title += f": 30x25 costs {compact:.2f} times 8x25 of SLiM" + (f" (paper: {printed})" if printed else "")
    return Table(title, (*leading, *own), tuple(rows), (*_notes(costs, texts),), footnotes_of(rows, _FOOTNOTES))


def _notes(costs: list[CostRow], texts: Sequence[str]) -> Iterator[str]:
    """The convention and the counters, and ``texts``."""
    if not costs:
        yield "Nothing was counted: no method could be loaded; see `skelbench plugins list`."
    else:
        first, ops = costs[0].encoder, sorted({op for cost in costs for op in cost.encoder.uncounted_ops})
        yield f"{first.convention} Tokens +1: class token."
        yield (
            f"Counted by fvcore {first.versions.get('fvcore', '')} and agreeing within 1 % with "
            f"torch.utils.flop_counter (torch {first.versions.get('torch', '')}) and, where there is one, the closed "
            f"form. Operators not counted: {', '.join(ops) or 'none'}."
        )
    yield from texts


def _published(
    columns: Collection[str], every: Iterable[published.Figure], names: Mapping[str, str]
) -> dict[tuple[str, str], dict[str, float]]:
    """Published costs by method, as papers spell it, and token grid; the first if there are several."""
    values: dict[tuple[str, str], dict[str, float]] = {}
    for row in every:
        column = _PRINTED.get((row["protocol"], row["metric"]), "")
        if column in columns:
            place = names[slug(row["method"])], row["variant"].split(",")[0]
            values.setdefault(place, {}).setdefault(column, row["value"])
    return values
