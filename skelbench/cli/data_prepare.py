"""``skelbench data prepare ntu60|ntu120|pku1|pku2``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from skelbench.cli.data_info import print_remarks, print_skipped
from skelbench.cli.options import DataRoot, new_dataset_name
from skelbench.core.console import LEFT_OUT, late_progress, out
from skelbench.core.text import counted, plain

if TYPE_CHECKING:
    from skelbench.data.raw.report import Report

app = typer.Typer(no_args_is_help=True, help="Make a dataset from its raw files, as downloaded.")

_RAW = "Downloaded zip, or folder of raw files. Repeatable."
Raw = Annotated[list[Path], typer.Option("--raw", metavar="PATH", help=_RAW)]
Name = Annotated[str | None, typer.Option("--name", help="Name of the dataset.", show_default="the command's name")]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of processes.", show_default="one per usable core")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing dataset.")]


def _add(which: Literal["ntu60", "ntu120", "pku1", "pku2"], unit: str, about: str) -> None:
    @app.command(which, help=about)
    def command(
        raw: Raw, name: Name = None, workers: Workers = None, force: Force = False, data_root: DataRoot = None
    ) -> None:
        from skelbench.data.raw.ntu.prepare import prepare_ntu
        from skelbench.data.raw.pku.prepare import prepare_pku

        prepare: Callable[..., Report] = prepare_ntu if which.startswith("ntu") else prepare_pku
        _prepare(partial(prepare, which, raw, overwrite=force), name or which, unit, workers, data_root)


_add("ntu60", "files", "Make NTU RGB+D 60 from its .skeleton files.")
_add("ntu120", "files", "Make NTU RGB+D 120 from its .skeleton files: give both zips or folders.")
_add("pku1", "videos", "Make PKU-MMD phase I from its skeleton, label and split files.")
_add("pku2", "videos", "Make PKU-MMD phase II from its skeleton, label and split files.")


def _prepare(make: Callable[..., Report], name: str, unit: str, workers: int | None, root: Path | None) -> None:
    from skelbench.cli.summary import named_data
    from skelbench.core.threads import usable_cores
    from skelbench.data.store import roots
    from skelbench.data.store.clip_store import ClipStore

    name, place = new_dataset_name(name), root or roots.data_root()
    with late_progress(f"prepare {name}", unit) as progress:
        report = make(name, place, workers=workers or usable_cores(), progress=progress)
    print_skipped(report.unexpected)
    for note in report.notes:
        out.print(plain(note))
    out.print(f"{name}: {counted(report.clips, 'clip')} in {report.path}")
    print_remarks(ClipStore.open(report.path))
    out.print(f"next: skelbench data verify {name}{named_data(place)}", soft_wrap=True)
    if report.unexpected:
        raise typer.Exit(LEFT_OUT)
