"""Output of tables: to the terminal, a pipe or a file, in a format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skelbench.cli.options import check_place
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.text import counted

if TYPE_CHECKING:
    from skelbench.reporting.inputs import TableInputs
    from skelbench.reporting.table import Table

KINDS = {".csv": "csv", ".json": "json", ".tex": "latex", ".html": "html"}
"""Format by the suffix of a file name; other suffixes: Markdown."""


def format_of(asked: str | None, output: Path | None) -> str:
    """Return the requested format, or the format of ``output``; SkelbenchError if either cannot be used."""
    from skelbench.reporting.render import FORMATS

    if output is not None:
        check_place(output)
    chosen = asked or ("terminal" if output is None else KINDS.get(output.suffix.lower(), "md"))
    if chosen not in FORMATS:
        raise SkelbenchError(did_you_mean(chosen, FORMATS, "format"))
    return chosen


def say_left_out(inputs: TableInputs) -> None:
    """Print how many runs ``--all`` would add."""
    from skelbench.core.console import err

    if inputs.left_out:
        runs = counted(inputs.left_out, "run")
        err.print(f"note: not shown: {runs} with changed settings or intermediate checkpoints; add --all")


def put(table: Table, format_: str, output: Path | None, hint: str = "", paged: bool = False) -> None:
    """Print ``table`` or write it to ``output``. On a terminal ``hint`` says how to see hidden columns, and ``paged``
    shows all of them in a pager."""
    from skelbench.core.console import out
    from skelbench.reporting.render import render
    from skelbench.reporting.terminal import Terminal, in_lines

    if format_ == "terminal" and output is None:
        if paged and out.is_terminal:
            out.page(in_lines(table, out.width, whole=True, styled=True))
        else:
            out.print(Terminal(table, hint=hint))
        return
    text = render(table, "md" if format_ == "terminal" else format_)
    if output is None:
        out.print(text, soft_wrap=True, end="")
        return
    from skelbench.core.files import write_whole

    write_whole(output, lambda file: file.write(text.encode()))
    out.print(f"wrote {output}")
