"""``skelbench report``: everything in the results directory as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skelbench.cli.options import All, DataRoot, ReadResults, check_place, request_options
from skelbench.core.errors import SkelbenchError
from skelbench.reporting.filters import Filters

OUTPUT = "Page to write."
TABLE = "Only this table. Repeatable. flops and flops-detail take minutes and are included only if you name them."
SKELETONS = "Show test clips and their nearest training clips; needs the dataset. On by default."


@request_options
def report(
    filters: Filters,
    output: Annotated[Path | None, typer.Option("-o", "--output", help=OUTPUT, show_default="report.html")] = None,
    all_: All = False,
    table: Annotated[list[str] | None, typer.Option(help=TABLE)] = None,
    skeletons: Annotated[bool, typer.Option("--skeletons/--no-skeletons", help=SKELETONS)] = True,
    results: ReadResults = None,
    data_root: DataRoot = None,
) -> None:
    """Write all results as one self-contained HTML file.

    The page has a summary, tables to sort and filter, figures, nearest neighbors as skeletons, and the settings,
    command and environment of every run."""
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
