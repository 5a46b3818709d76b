"""``skelbench plot``: figures of everything in the results directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skelbench.cli.options import (
    DataRoot,
    OfDataset,
    OfMethod,
    OfPreset,
    OfTag,
    ReadResults,
    filters_of,
    kind_of_picture,
)
from skelbench.core.errors import SkelbenchError


def plot(
    figure: Annotated[str, typer.Argument(help="Which figure, see `skelbench plugins list`.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write it.", show_default="FIGURE.png")
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="png, svg or pdf.", show_default="by the name of the output")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Also runs whose settings were changed from their preset.")
    ] = False,
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this run (name, id, or a part of either); repeatable. Of `confusion`, `map` and "
            "`retrieval` also RUN@50, a snapshot."
        ),
    ] = None,
    dataset: OfDataset = None,
    method: OfMethod = None,
    protocol: Annotated[
        str | None, typer.Option(help="Only what this protocol measured; of `confusion` whose predictions (linear).")
    ] = None,
    preset: OfPreset = None,
    tag: OfTag = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the figure, see `skelbench plugins info FIGURE`; repeatable.",
        ),
    ] = None,
    dpi: Annotated[int, typer.Option(min=50, max=1200, help="Dots per inch of a png.")] = 200,
    results: ReadResults = None,
    data_root: DataRoot = None,
) -> None:
    """Draw a figure of finished runs, or of a method's masks and views.

    Of finished runs: `token-budget`, `trade-off`, `scaling`, `target-control`, `curves`, `robustness`, `confusion`,
    `map` and `retrieval`; of a method, without a run: `coverage` and `gallery` (`--method NAME`)."""
    from skelbench.pipeline.request import parse_sets
    from skelbench.plugin import FigureSpec
    from skelbench.plugin.host import get_host
    from skelbench.records.store import ResultStore
    from skelbench.reporting.figures.settings import settings_of

    host = get_host()
    descriptor = host.get("figures", figure)
    assert isinstance(descriptor, FigureSpec)
    filters = filters_of(dataset=dataset, method=method, protocol=[protocol or ""], preset=preset, tag=tag)
    settings = settings_of(host, descriptor, parse_sets(set_ or []), filters)
    output = output or Path(f"{figure.replace(':', '-')}.{format_ or 'png'}")
    kind = kind_of_picture(output, format_)
    store = ResultStore(results)
    store.check_readable()
    from skelbench.cli.tables import say_left_out
    from skelbench.core.console import out, progress
    from skelbench.reporting.figures import NothingToDraw
    from skelbench.reporting.inputs import TableInputs

    if protocol is not None:
        host.get("protocols", protocol)
    asked = [(found.name, checkpoint) for found, checkpoint in map(store.find, run or ())]
    snapshot = next((f"{name}@{epoch}" for name, epoch in asked if epoch != "last"), "")
    if snapshot and not descriptor.snapshots:
        raise SkelbenchError(f"figure {figure} shows whole runs, not the snapshot {snapshot}; leave out @...")
    only = [name for name, _ in asked] or None
    inputs = TableInputs(host, store, exact_only=not (all_ or run), only=only, progress=progress, filters=filters)
    inputs.check_filters()
    inputs.protocol, inputs.data_root = protocol or inputs.protocol, data_root
    inputs.settings = settings
    inputs.checkpoints = asked or None
    from matplotlib.figure import Figure

    from skelbench.reporting.figures.base import save

    try:
        drawn = host.load(descriptor)(inputs)
    except NothingToDraw as nothing:
        raise SkelbenchError(f"of {filters}: {nothing}" if filters else str(nothing)) from nothing
    finally:
        if descriptor.needs_runs:
            say_left_out(inputs)
    save(host.checked(descriptor, drawn, Figure, "matplotlib Figure"), output, kind, dpi)
    out.print(f"written to {output}")
