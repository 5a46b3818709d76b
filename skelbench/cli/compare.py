"""``skelbench compare``: tables over everything in the results directory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from skelbench.cli.options import All, BestOnTest, Columns, Format, Results, Sort, ToFile, is_there, request_options
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import comma_separated
from skelbench.reporting.filters import Filters

_SIGNIFICANCE = "Add ranks, groups of rows that do not differ significantly, and the smallest detectable difference."


@request_options
def compare(
    filters: Filters,
    table: Annotated[str, typer.Option(help="Name of the table (see `skelbench plugins list tables`).")] = "linear",
    format_: Format = None,
    all_: All = False,
    significance: Annotated[bool, typer.Option("--significance", help=_SIGNIFICANCE)] = False,
    against: Annotated[str, typer.Option(metavar="METHOD", help="Add the tested difference to this method.")] = "",
    best_on_test: BestOnTest = False,
    recount: Annotated[bool, typer.Option("--recount", help="Count FLOPs again; takes minutes.")] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Add shipped runs of the same data and preset.")
    ] = False,
    sort: Sort = None,
    columns: Columns = None,
    wide: Annotated[bool, typer.Option("--wide", help="Show every column, in long lines.")] = False,
    notes: Annotated[bool, typer.Option("--notes", help="Show every note below the table.")] = False,
    output: ToFile = None,
    results: Results = None,
) -> None:
    """Show a table of results or costs.

    Tables: `linear` (all runs), `pooled` (all datasets), `flops` (cost of all methods; needs no run), `efficiency`
    (accuracy and cost), `scaling` (accuracy and training length), `tuned`, `diagnostics`, and one for each study:
    `skelbench study NAME` makes the runs of `skelbench compare --table NAME`."""
    from skelbench.plugin import TableSpec
    from skelbench.plugin.host import get_host

    host = get_host()
    descriptor = host.get("tables", table)
    assert isinstance(descriptor, TableSpec)
    if reference and not descriptor.reference:
        raise SkelbenchError(f"table {table} cannot show reference runs; leave --reference out")
    results = is_there(results) if descriptor.needs_runs else results
    from skelbench.cli.tables import format_of, put, say_left_out
    from skelbench.core.console import err, out, progress
    from skelbench.records.store import ResultStore
    from skelbench.reporting.inputs import read_inputs
    from skelbench.reporting.reference import with_reference
    from skelbench.reporting.table import sorted_by, with_columns

    format_ = format_of(format_, output)
    store = ResultStore(results)
    options = {"significance": significance, "against": against, "best_on_test": best_on_test, "recount": recount}
    with with_reference(store) if reference else nullcontext(store) as shown:
        inputs = read_inputs(host, shown, filters, all_, progress=progress, **options)
        if descriptor.needs_runs and not inputs.stored:
            studied = table != "linear" and table in host.names("studies")  # linear shows any run
            start = f"study {table}" if studied else "run METHOD --tokens 8"
            reads = output is not None or format_ != "terminal"  # not a person: a program gets an empty table
            (err if reads else out).print(f"no runs in {store.root} yet; start with: skelbench {start}")
            if not reads:
                return
        built = inputs.table(table)
    if descriptor.needs_runs:
        say_left_out(inputs)
    built = sorted_by(built, sort) if sort else built
    built = with_columns(built, named) if (named := comma_separated(columns or "")) else built
    put(built, format_, output, wide, notes)
