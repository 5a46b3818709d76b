"""Completion of names with TAB, without torch: typer calls a completer with the command line parsed so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_type_hints

import typer

from skelbench.plugin.host import get_host

Completer = Callable[[typer.Context, str], list[str]]


def _completer(values: Callable[[typer.Context], Iterable[str]]) -> Completer:
    """Complete the last name of a comma-separated list; a plugin or file that raises completes nothing."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",")
        try:
            return [before + comma + value for value in values(ctx)]
        except (Exception, SystemExit):
            return []

    return complete


def _names(kind: str) -> Completer:
    return _completer(lambda ctx: get_host().names(kind))


def _datasets(ctx: typer.Context) -> list[str]:
    from skelbench.data.store import roots

    root = Path(ctx.params.get("data_root") or ctx.params.get("data") or roots.data_root())
    return [*get_host().names("datasets"), *roots.named_stores(root)]


def _runs(ctx: typer.Context) -> list[str]:
    from skelbench.records.store import default_root

    root = Path(ctx.params.get("results") or default_root())
    return sorted(path.parent.name for path in root.glob("[!.]*/run.json"))


COMPLETERS = {
    **dict.fromkeys(("method", "methods", "view", "against"), _names("methods")),
    **dict.fromkeys(("protocol", "probe", "probes"), _names("protocols")),
    **dict.fromkeys(("run", "runs", "first", "second", "init_from"), _completer(_runs)),
    "dataset": _completer(_datasets),
    "encoder": _names("encoders"),
    "figure": _names("figures"),
    "observe": _names("observers"),
    "on": _names("engines"),
    "study": _names("studies"),
    "suite": _names("suites"),
    "table": _names("tables"),
}
"""Completers by the name of a parameter."""


def add_completion(app: typer.Typer) -> None:
    """Give the parameters of all commands of ``app`` their completers."""
    for command in app.registered_commands:
        hints = get_type_hints(command.callback, include_extras=True)
        command.callback.__annotations__ = hints  # typer would evaluate text again, into other options
        for name, hint in hints.items():
            for option in getattr(hint, "__metadata__", ()) if name in COMPLETERS else ():
                option.autocompletion = COMPLETERS[name]
    for group in app.registered_groups:
        if group.typer_instance:
            add_completion(group.typer_instance)
