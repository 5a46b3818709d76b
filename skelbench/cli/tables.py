"""Output of tables: to the terminal, a pipe or a file, in a format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skelbench.cli.options import check_place
from skelbench.core.errors import SkelbenchError, did_you_mean

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
    """Print what ``--all`` would add."""
    from skelbench.core.console import err

    if left_out := inputs.left_out:
        err.print(f"note: not shown: {left_out}; add --all")


def put(table: Table, format_: str, output: Path | None, wide: bool = False, notes: bool = True) -> None:
    """Print ``table`` or write it to ``output``. ``wide``: every column; ``notes``: every note."""
    from skelbench.core.console import out
    from skelbench.reporting.render import render
    from skelbench.reporting.terminal import Terminal, in_lines

    if format_ == "terminal" and output is None:
        if wide:
            out.print(in_lines(table, out.width, whole=True), end="", soft_wrap=True)
        else:
            out.print(Terminal(table, notes=notes, hint="--wide"))
        return
    text = render(table, "md" if format_ == "terminal" else format_)
    if output is None:
        out.print(text, soft_wrap=True, end="")
        return
    from skelbench.core.files import write_whole

    write_whole(output, lambda file: file.write(text.encode()))
    out.print(f"wrote {output}")
