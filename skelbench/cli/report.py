"""``skelbench report``: everything in the results directory as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skelbench.cli import complete
from skelbench.cli.options import (
    DataRoot,
    OfDataset,
    OfMethod,
    OfPreset,
    OfProtocol,
    OfTag,
    ReadResults,
    check_place,
    filters_of,
)
from skelbench.core.errors import SkelbenchError


def report(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write the page.", show_default="report.html")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Also runs whose settings were changed from their preset.")
    ] = False,
    table: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this table; repeatable. flops and flops-detail count models and are made only when named.",
            autocompletion=complete.names("tables"),
        ),
    ] = None,
    dataset: OfDataset = None,
    method: OfMethod = None,
    protocol: OfProtocol = None,
    preset: OfPreset = None,
    tag: OfTag = None,
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
    from skelbench.reporting.inputs import TableInputs

    host, store = get_host(), ResultStore(results)
    store.check_readable()
    filters = filters_of(dataset=dataset, method=method, protocol=protocol, preset=preset, tag=tag)
    output = output or Path("report.html")
    if output.suffix.lower() not in (".html", ".htm"):
        raise SkelbenchError(f"-o {output}: a report is a page; end the name in .html")
    check_place(output)
    for name in table or ():
        host.get("tables", name)
    inputs = TableInputs(host, store, exact_only=not all_, progress=progress, filters=filters)
    inputs.check_filters()
    inputs.data_root = data_root
    from skelbench.reporting.page.build import save

    size = save(output, inputs, skeletons, table or None)
    say_left_out(inputs)
    out.print(f"wrote {output}: {size / 1e6:.1f} MB; open it in a browser")
