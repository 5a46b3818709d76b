"""``skelbench plot``: figures of everything in the results directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skelbench.cli.options import All, DataRoot, ReadResults, kind_of_picture, request_options
from skelbench.cli.plugins import list_plugins
from skelbench.core.errors import SkelbenchError
from skelbench.reporting.filters import Filters

OUTPUT = "Picture to write: png, svg or pdf."
RUNS = "Only this run. Repeatable. Figures confusion, map and retrieval also accept a checkpoint: RUN@50."
SETTING = "Change a setting of the figure (see `skelbench plugins info FIGURE`). Repeatable."


@request_options
def plot(
    filters: Filters,
    figure: Annotated[str | None, typer.Argument(help="Name of the figure; without it, list all figures.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help=OUTPUT, show_default="FIGURE.png")] = None,
    all_: All = False,
    run: Annotated[list[str] | None, typer.Option(metavar="RUN", help=RUNS)] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=SETTING)] = None,
    dpi: Annotated[int, typer.Option(min=50, max=1200, help="Resolution of a png in dots per inch.")] = 200,
    results: ReadResults = None,
    data_root: DataRoot = None,
) -> None:
    """Draw a figure of finished runs, or of a method's masks and views.

    `coverage` and `gallery` show a method (`--method NAME`) and need no run. All other figures show runs."""
    from skelbench.pipeline.request import parse_sets
    from skelbench.plugin import FigureSpec
    from skelbench.plugin.host import get_host

    if figure is None:
        return list_plugins("figures")
    host = get_host()
    descriptor = host.get("figures", figure)
    assert isinstance(descriptor, FigureSpec)
    output = output or Path(f"{figure.replace(':', '-')}.png")
    kind = kind_of_picture(output)
    from skelbench.cli.tables import say_left_out
    from skelbench.core.console import out, progress
    from skelbench.records.store import ResultStore
    from skelbench.reporting.figures.base import save
    from skelbench.reporting.figures.settings import draw
    from skelbench.reporting.inputs import read_inputs

    store = ResultStore(results)
    pairs = [(stored.name, checkpoint) for stored, checkpoint in map(store.find, run or ())]
    snapshot = next((f"{name}@{epoch}" for name, epoch in pairs if epoch != "last"), "")
    if snapshot and not descriptor.snapshots:
        raise SkelbenchError(f"figure {figure} shows whole runs, not the snapshot {snapshot}; leave out @...")
    chosen = {"only": [name for name, _ in pairs], "checkpoints": pairs} if pairs else {}
    inputs = read_inputs(host, store, filters, bool(all_ or run), progress=progress, data_root=data_root, **chosen)
    try:
        drawn = draw(inputs, descriptor, parse_sets(set_ or []))
    finally:
        if descriptor.needs_runs:
            say_left_out(inputs)
    save(drawn, output, kind, dpi)
    out.print(f"written to {output}")
