"""``skelbench plugins new``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from skelbench.core.console import out, print_facts
from skelbench.core.user_config import SETTINGS


def new(
    kind: Annotated[
        str,
        typer.Argument(
            help="method, encoder, dataset, protocol, target, table, figure, observer, crop, augmentation, mask, "
            "degradation, optimizer, schedule or topology."
        ),
    ],
    name: Annotated[str, typer.Argument(help="Name on the command line: lower case letters, digits and -.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder to write to.", show_default="the current folder")
    ] = None,
    package: Annotated[bool, typer.Option("--package", help="Write an installable project with a test.")] = False,
) -> None:
    """Write a small plugin that runs, as a start for your own. Existing files are never overwritten."""
    from skelbench.plugin.host import get_host
    from skelbench.testing.scaffold.plan import Plan, write_new

    plan = Plan.of(kind, name, get_host())
    place = (output or Path()) / (name if package else f"{plan.module}.py")
    write_new(place, plan.package() if package else {"": plan.file()})
    written = shlex.quote(str(place))
    if package:
        step = ("install it", f'cd {written} && pip install --editable ".[test]" && pytest')
        facts = [step, *plan.commands()]
    else:
        path = shlex.quote(str(place.parent.absolute()))
        variable = SETTINGS["plugins"].variable
        on_path = ("find it without --plugin", f"export {variable}={path}${{{variable}:+:${variable}}}")
        facts = [*plan.commands(f"--plugin {written}"), on_path]
    out.print(f"wrote {place}: {plan.kind} {name}")
    print_facts(facts)
