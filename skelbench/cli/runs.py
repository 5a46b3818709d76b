"""``skelbench runs``: lists, shows, tags, removes and exchanges the runs of a results directory."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from skelbench.cli import runs_exchange, runs_list, runs_show
from skelbench.cli.options import RUN, ReadResults
from skelbench.core.errors import SkelbenchError

app = typer.Typer(no_args_is_help=True, help="List, show, tag, delete, export and add runs.")
app.command("list")(runs_list.list_runs)
app.command("show")(runs_show.show)


@app.command()
def tag(
    run: Annotated[str, typer.Argument(help=RUN)],
    tags: Annotated[list[str], typer.Argument(metavar="TAG", help="Words of your choice.")],
    remove: Annotated[bool, typer.Option("--remove", help="Remove these tags.")] = False,
    results: ReadResults = None,
) -> None:
    """Tag a run. Tables and figures can be limited to a tag with --tag."""
    from skelbench.core.console import out
    from skelbench.records import housekeeping
    from skelbench.records.store import ResultStore

    stored = ResultStore(results).whole(run)
    current = housekeeping.untag(stored, tags) if remove else housekeeping.tag(stored, tags)
    out.print(f"{stored.name}: {', '.join(current) or 'no tags'}")


@app.command("rm")
def remove(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help=RUN)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also delete runs that other runs start from.")] = False,
    results: ReadResults = None,
) -> None:
    """Delete runs with their encoders and evaluations. With --yes give names or ids, because numbers change."""
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
