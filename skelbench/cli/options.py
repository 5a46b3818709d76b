"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skelbench.errors import SkelbenchError

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


def new_dataset_name(name: str) -> str:
    """``name`` for a data set that is about to be made; those that are built in are taken."""
    from skelbench.plugin.host import get_host

    if name in get_host().names("datasets"):
        raise SkelbenchError(f"{name!r} is the name of a built-in data set; choose another --name")
    return name
