"""``skelbench plugins check``."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from skelbench.core.console import out, styled
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.text import plain

if TYPE_CHECKING:
    from skelbench.testing import CheckResult

STYLES = {"passed": "green", "skipped": "dim", "expected failure": "yellow"}
MEND = 2
"""Exit code if something has to be fixed."""


def check(
    what: Annotated[str, typer.Argument(metavar="FILE.py|NAME", help="Plugin file, or name of a method, encoder, ...")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CHECK", help="Run only this check. Repeatable.")
    ] = None,
) -> int:
    """Run the conformance checks on a plugin. Exit code 2 if a check fails."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # checks run on the CPU, and fork
    from skelbench.testing import find
    from skelbench.testing.thing import KITS

    subjects = [subject for subject in find(what) if subject.checks]
    if not subjects:
        raise SkelbenchError(f"{what} announces nothing of a kind that has checks ({', '.join(KITS)})")
    if only:
        every = sorted({check.name for subject in subjects for check in subject.checks})
        for name in only:
            if name not in every:
                raise SkelbenchError(did_you_mean(name, every, "check"))
        subjects = [subject for subject in subjects if {check.name for check in subject.checks} & {*only}] or subjects
    results: list[dict[str, object]] = []
    bad = 0
    for checked in subjects:
        if not as_json:
            out.print(styled((checked.title, "bold")))
        names = {check.name for check in checked.checks}
        own = [name for name in only or () if name in names]
        for result in checked.results(only=own):
            bad += result.bad
            if as_json:
                results.append({"kind": checked.kind, "thing": checked.name, **asdict(result)})
            else:
                _show(result)
    if as_json:
        out.print(json.dumps(results, indent=1), soft_wrap=True)
    else:
        out.print("nothing to fix" if not bad else f"{bad} to fix")
    return MEND if bad else 0


def _show(result: CheckResult) -> None:
    style = STYLES.get(result.state, "bold red")
    about = f"  {result.message if result.message and not result.bad else result.about}"
    out.print(styled("  ", (f"{result.state:<16}", style), f" {result.name:<20} {result.seconds:5.1f} s", plain(about)))
    if result.bad:
        out.print(f"      {plain(result.message)}")
