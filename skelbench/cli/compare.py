"""``skelbench compare``: tables over everything in the results directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skelbench.cli import complete
from skelbench.cli.options import (
    OfDataset,
    OfMethod,
    OfPreset,
    OfProtocol,
    OfTag,
    ReadResults,
    filters_of,
    names_of,
)


def compare(
    table: Annotated[
        str,
        typer.Option(help="Which table; `skelbench plugins list` shows all.", autocompletion=complete.names("tables")),
    ] = "linear",
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="terminal, md, csv, json, latex or html.",
            show_default="terminal; with -o by the file's name",
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Also runs whose settings were changed from their preset.")
    ] = False,
    significance: Annotated[
        bool,
        typer.Option(
            "--significance", help="Also ranks, significant differences, and the smallest significant difference."
        ),
    ] = False,
    against: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="Also the difference to this method (METHOD or METHOD:VARIANT), tested.",
            show_default=False,
            autocompletion=complete.methods,
        ),
    ] = "",
    best_on_test: Annotated[
        bool,
        typer.Option(
            "--best-on-test", help="Also the highest test accuracy of the probe's checkpoints: chosen on test data."
        ),
    ] = False,
    dataset: OfDataset = None,
    method: OfMethod = None,
    protocol: OfProtocol = None,
    preset: OfPreset = None,
    tag: OfTag = None,
    sort: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Order of the rows; `-COLUMN`: the highest first.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="These columns alone, comma separated, by key (as in CSV) or header; +map,+top5_accuracy: these too."
        ),
    ] = None,
    wide: Annotated[bool, typer.Option("--wide", help="On a terminal: every column, in long lines, paged.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write to a file instead.")] = None,
    results: ReadResults = None,
) -> None:
    """Show a table over the results: accuracy of all runs, a comparison, what methods cost.

    Tables: `linear` (accuracy of all runs), comparisons of any methods (`token-budget`, `target-control`), methods over
    many data sets (`pooled`), cost at three token budgets, which needs no run (`flops`, by module `flops-detail`),
    accuracy beside its cost (`efficiency`) and over the length of training (`scaling`), what `skelbench diagnose` kept
    (`diagnostics`), default and tuned settings (`tuned`), and those of plugins. `skelbench study` runs what a table of
    the same name shows."""
    from skelbench.plugin import TableSpec
    from skelbench.plugin.host import get_host

    host = get_host()
    descriptor = host.get("tables", table)
    assert isinstance(descriptor, TableSpec)
    from skelbench.cli.tables import format_of, put, say_left_out
    from skelbench.core.console import err, out, progress
    from skelbench.records.store import ResultStore
    from skelbench.reporting.inputs import TableInputs
    from skelbench.reporting.table import sorted_by, with_columns

    format_ = format_of(format_, output)
    store = ResultStore(results)
    store.check_readable()
    filters = filters_of(dataset=dataset, method=method, protocol=protocol, preset=preset, tag=tag)
    inputs = TableInputs(host, store, exact_only=not all_, progress=progress, filters=filters)
    inputs.check_filters()
    inputs.significance, inputs.best_on_test, inputs.against = significance, best_on_test, against
    if descriptor.needs_runs and not inputs.stored:
        studied = table != "linear" and table in host.names("studies")  # which is about any run
        start = f"study {table}" if studied else "run METHOD --tokens 8"
        reads = output is not None or format_ != "terminal"  # something else than a reader, which gets an empty table
        (err if reads else out).print(f"no runs in {store.root} yet; start with: skelbench {start}")
        if not reads:
            return
    built = inputs.table(table)
    if descriptor.needs_runs:
        say_left_out(inputs)
    built = sorted_by(built, sort) if sort else built
    built = with_columns(built, named) if (named := names_of(columns or "")) else built
    put(built, format_, output, "Show them with --wide or --columns.", paged=wide)
