"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Results = Annotated[
    Path | None,
    typer.Option("--results", help="Results directory.", envvar="SKELBENCH_RESULTS", show_default="results"),
]
DataRoot = Annotated[
    Path | None,
    typer.Option("--data-root", help="Where data sets are kept.", envvar="SKELBENCH_DATA", show_default="per user"),
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or cuda:N.", show_default="cuda when there is one, else cpu")
]
Force = Annotated[bool, typer.Option("--force", help="Do the work again even when its result exists.")]
