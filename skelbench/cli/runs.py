"""``skelbench runs``: lists, shows, tags, removes and exchanges the runs of a results directory."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from skelbench.cli import runs_diff, runs_exchange, runs_list, runs_show
from skelbench.cli.options import ReadResults
from skelbench.core.errors import SkelbenchError

app = typer.Typer(no_args_is_help=True, help="What is in the results directory.")
app.command("list")(runs_list.list_runs)
app.command("show")(runs_show.show)
app.command("diff")(runs_diff.diff)
_RUN = "Run: name, id, number, or an unambiguous part of name or id."
Run = Annotated[str, typer.Argument(help=_RUN)]


@app.command()
def tag(
    run: Run,
    tags: Annotated[list[str], typer.Argument(metavar="TAG...", help="Words.")],
    remove: Annotated[bool, typer.Option("--remove", help="Take these tags away.")] = False,
    results: ReadResults = None,
) -> None:
    """Give a run tags, by which lists, tables and figures can be chosen (`--tag`); its id stays."""
    from skelbench.core.console import out
    from skelbench.records import housekeeping
    from skelbench.records.store import ResultStore

    stored = ResultStore(results).whole(run)
    current = housekeeping.untag(stored, tags) if remove else housekeeping.tag(stored, tags)
    out.print(f"{stored.name}: {', '.join(current) or 'no tags'}")


@app.command("rm")
def remove(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help=_RUN)],
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
    words = {word: store.whole(word) for word in runs}
    chosen = {run.name: run for run in words.values()}
    if yes:
        if word := next((word for word, run in words.items() if word not in (run.name, run.spec.id)), ""):
            raise SkelbenchError(
                f"{word} is neither name nor id, and may mean another run once one is removed; with --yes name the "
                f"run: {words[word].name}"
            )
    elif not sys.stdin.isatty():
        raise SkelbenchError("runs rm deletes for good, and there is no terminal to ask at; give --yes")
    else:
        for run in chosen.values():
            size = sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file()) / 2**20
            out.print(f"{run.name}: {run.outcome}, {len(run.records())} evaluations, {size:,.1f} MiB")
        if not typer.confirm(f"Delete {'this run' if len(chosen) == 1 else f'these {len(chosen)} runs'} for good?"):
            out.print("nothing was removed")
            return
    housekeeping.remove(store, list(chosen.values()), force)
    for name in chosen:
        out.print(f"removed {name}")


app.command("export")(runs_exchange.export)
app.command("verify")(runs_exchange.verify)
app.command("add")(runs_exchange.add)
