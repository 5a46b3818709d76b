"""``skelbench data verify``: is a stored dataset what it should be?"""

from __future__ import annotations

from typing import Annotated

import typer

from skelbench.cli.data_info import Name, open_store
from skelbench.cli.options import DataRoot
from skelbench.core.console import LEFT_OUT

STYLES = {"ok": "green", "look": "yellow", "wrong": "bold red"}


_KNOWN = "Published counts to compare with: ntu60, ntu120, pku1, pku2 or other (none)."
Known = Annotated[str | None, typer.Option("--as", metavar="NAME", help=_KNOWN, show_default="by clip names")]


def verify_data(dataset: Name, known: Known = None, data_root: DataRoot = None) -> None:
    """Check a dataset: counts, splits, checksums, values, bone lengths, and which way is up and left.

    Exit code: 0 nothing is wrong, 3 a check failed.
    """
    from skelbench.core.console import make_table, out, progress, styled
    from skelbench.core.text import plain
    from skelbench.data.anatomy import measure
    from skelbench.data.verify import recognize, verify

    store = open_store(dataset, data_root)
    kind = recognize(store, known)
    body, checks = measure(store), []
    table = make_table(("check", "", "found", "expected"))
    with progress(label=f"verify {dataset}", unit="checks") as report:
        for check in verify(store, kind, body):
            checks.append(check)
            mark = styled((check.state, STYLES[check.state]))
            table.add_row(check.name, mark, plain(check.value), plain(check.expected))
            report(1)
    against = f"compared with the published counts of {kind}" if kind else "no published counts are known for it"
    out.print(styled((f"dataset {dataset}", "bold"), f", {against}"))
    out.print(table)
    together: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        if check.state != "ok":
            together.setdefault((check.state, check.advice), []).append(check.name)
    for (state, advice), problems in together.items():
        out.print(styled((state, STYLES[state]), f" {plain('; '.join(problems))}: {plain(advice)}"))
    wrong, looks = (sum(check.state == state for check in checks) for state in ("wrong", "look"))
    if wrong:
        out.print(f"{wrong} of {len(checks)} checks failed", style="bold red")
        raise typer.Exit(LEFT_OUT)
    out.print(styled(("nothing is wrong", "green"), f"; {looks} to look at" if looks else ""))
