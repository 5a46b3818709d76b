"""``skelbench report``: everything in the results directory as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skelbench.cli.options import All, DataRoot, ReadResults, check_place, request_options
from skelbench.core.errors import SkelbenchError
from skelbench.reporting.filters import Filters


@request_options
def report(
    filters: Filters,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write the page.", show_default="report.html")
    ] = None,
    all_: All = False,
    table: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this table; repeatable. flops and flops-detail count models and are made only when named."
        ),
    ] = None,
    skeletons: Annotated[
        bool,
        typer.Option(
            "--skeletons/--no-skeletons",
            help="Test clips and their nearest training clips as skeletons; needs the data set.",
        ),
    ] = True,
    results: ReadResults = None,
    data_root: DataRoot = None,
) -> None:
    """Write all results as one HTML page in one file, which loads nothing from anywhere.

    It has a summary in sentences, tables to sort and filter, figures, nearest neighbors as skeletons, and the runs
    behind every row with their settings, commands and environments."""
    from skelbench.cli.tables import say_left_out
    from skelbench.core.console import out, progress
    from skelbench.plugin.host import get_host
    from skelbench.records.store import ResultStore
    from skelbench.reporting.inputs import read_inputs

    host = get_host()
    output = output or Path("report.html")
    if output.suffix.lower() not in (".html", ".htm"):
        raise SkelbenchError(f"-o {output}: a report is a page; end the name in .html")
    check_place(output)
    for name in table or ():
        host.get("tables", name)
    inputs = read_inputs(host, ResultStore(results), filters, all_, progress=progress, data_root=data_root)
    from skelbench.reporting.page.build import save

    size = save(output, inputs, skeletons, table or None)
    say_left_out(inputs)
    out.print(f"wrote {output}: {size / 1e6:.1f} MB; open it in a browser")
