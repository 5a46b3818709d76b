"""``skelbench plugins doctor``."""

from __future__ import annotations

from typing import Annotated

import typer

from skelbench.cli import complete
from skelbench.core.console import out, print_facts, styled
from skelbench.core.text import plain
from skelbench.plugin.status import SINGULAR


def doctor(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE",
            help="A plugin, what it announces, or a file, which need not be on the path.",
            autocompletion=complete.plugins,
        ),
    ],
) -> None:
    """What is wrong with a plugin and what to do; imports all its code, so that what fails does not fail in a run.

    Exit code 2 if something is wrong.
    """
    from skelbench.plugin.doctor import diagnose, find, host_for

    host, path = host_for(name)
    wrong = 0
    for plugin in find(host, name, path):
        findings = diagnose(host, plugin)
        offers = [f"{SINGULAR[entry.kind]} {entry.name}" for entry in host.entries if entry.plugin is plugin]
        wrong += len(findings)
        print_facts(
            [
                ("state", plugin.state),
                ("from", plugin.source),
                ("file", plugin.path if plugin.path != plugin.source else ""),
                ("distribution", f"{plugin.dist} {plugin.version}".strip()),
                ("offers", ", ".join(offers)),
            ],
            title=f"plugin {plugin.name}",
        )
        for number, finding in enumerate(findings, 1):
            out.print()
            out.print(styled((f"{number}. ", "bold red"), plain(finding.message)))
            if finding.own:
                out.print(finding.own)
            if finding.todo:
                out.print(styled(("what to do: ", "bold"), plain(finding.todo)))
        out.print()
    if wrong:
        out.print(f"`skelbench plugins info {name}` prints whole tracebacks, `skelbench env` the versions for a report")
        raise typer.Exit(2)
    out.print(f"nothing is wrong with {name}: it is announced, and all its code can be imported")
