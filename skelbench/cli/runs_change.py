"""``skelbench runs tag|note|rm``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from skelbench.cli import complete
from skelbench.cli.options import ReadResults
from skelbench.core.errors import SkelbenchError

if TYPE_CHECKING:
    from skelbench.records.run_dir import RunDir

_RUN = "Run: name, id, number, or an unambiguous part of name or id."
Run = Annotated[str, typer.Argument(help=_RUN, autocompletion=complete.runs)]


def tag(
    run: Run,
    tags: Annotated[list[str], typer.Argument(metavar="TAG...", help="Words.", autocompletion=complete.tags)],
    remove: Annotated[bool, typer.Option("--remove", help="Take these tags away.")] = False,
    results: ReadResults = None,
) -> None:
    """Give a run tags, by which lists, tables and figures can be chosen (`--tag`); its id stays."""
    from skelbench.core.console import out
    from skelbench.records import housekeeping
    from skelbench.records.store import ResultStore

    found = ResultStore(results).whole(run)
    kept = housekeeping.untag(found, tags) if remove else housekeeping.tag(found, tags)
    out.print(f"{found.name}: {', '.join(kept) or 'no tags'}")


def note(
    run: Run,
    text: Annotated[str, typer.Argument(help="One line; an empty one takes the note away.")],
    results: ReadResults = None,
) -> None:
    """Keep a note with a run: what it was for, what to make of it. It replaces an earlier one; the run's id stays."""
    from skelbench.core.console import out
    from skelbench.records import housekeeping
    from skelbench.records.store import ResultStore

    found = ResultStore(results).whole(run)
    housekeeping.note(found, text)
    out.print(f"{found.name}: {found.info.get('note') or 'no note'}")


def remove(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help=_RUN, autocompletion=complete.runs)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also runs that others start from (--init-from).")] = False,
    results: ReadResults = None,
) -> None:
    """Delete runs with their encoders and evaluations, all of those named or none. A run that a process works on, or
    that another one starts from, is refused. With --yes runs are given by name or id: a removal moves numbers."""
    from skelbench.core.console import out
    from skelbench.records import housekeeping
    from skelbench.records.store import ResultStore

    store = ResultStore(results)
    found: dict[str, RunDir] = {}
    for word in runs:
        run = store.whole(word)
        if yes and word not in (run.name, run.spec.id):
            raise SkelbenchError(
                f"{word} is neither name nor id, and may mean another run once one is removed; with --yes name the "
                f"run: {run.name}"
            )
        found[run.name] = run
    if not yes:
        if not sys.stdin.isatty():
            raise SkelbenchError("runs rm deletes for good, and there is no terminal to ask at; give --yes")
        for run in found.values():
            out.print(f"{run.name}: {run.outcome}, {len(run.records())} evaluations, {_size(run):,.1f} MiB")
        if not typer.confirm(f"Delete {'this run' if len(found) == 1 else f'these {len(found)} runs'} for good?"):
            out.print("nothing was removed")
            return
    housekeeping.remove(store, list(found.values()), force)
    for name in found:
        out.print(f"removed {name}")


def _size(run: RunDir) -> float:
    return sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file()) / 2**20
