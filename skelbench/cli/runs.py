"""``skelbench runs``: what is in the results directory."""

from __future__ import annotations

import typer

from skelbench.cli import runs_change, runs_exchange, runs_list, runs_show

app = typer.Typer(no_args_is_help=True, help="What is in the results directory.")
app.command("list")(runs_list.list_runs)
app.command("show")(runs_show.show)
app.command("tag")(runs_change.tag)
app.command("note")(runs_change.note)
app.command("rm")(runs_change.remove)
app.command("export")(runs_exchange.export)
app.command("verify")(runs_exchange.verify)
app.command("add")(runs_exchange.add)
