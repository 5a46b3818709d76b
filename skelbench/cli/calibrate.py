"""``skelbench calibrate DATASET``: do public checkpoints have the published accuracy here?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skelbench.cli.import_checkpoint import UNRECORDED
from skelbench.cli.options import DataRoot, Device, Force, Results, option
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import RunRequest
from skelbench.pipeline.session import open_session

if TYPE_CHECKING:
    from skelbench.api.calibration import Calibration

FAILED = 1
"""Exit code: the accuracy of a checkpoint is outside of its interval."""


def calibrate(
    dataset: Annotated[str, typer.Argument(help="Data set.")],
    split: Annotated[str | None, option(RunRequest, "split", show_default="every split with imports")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="RUN|FILE",
            help="An imported run; or a published checkpoint, which is imported first (with --method).",
            show_default="all imported runs",
        ),
    ] = None,
    method: Annotated[str | None, typer.Option(help="Method that the FILE is of: mamp, ...")] = None,
    set_: Annotated[list[str] | None, option(RunRequest, "sets", help=UNRECORDED)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> int:
    """Measure imported public checkpoints by their authors' own linear probe, and say pass or fail.

    Pass: our accuracy is in the Wilson 95 % interval of the published one on as many test clips, which is wider by 1.96
    standard deviations on both sides where the source states one. Where the authors print the best epoch on test, that
    of ours is compared. Exit code: 0 all pass, 1 one or more fail, 2 nothing to compare.
    """
    from skelbench.core.console import err, out
    from skelbench.plugin.host import get_host

    file = Path(checkpoint) if checkpoint and Path(checkpoint).is_file() else None
    if file and not method:
        raise SkelbenchError(f"--checkpoint {checkpoint} is a file: say what it is of, --method mamp")
    if method and not file:
        raise SkelbenchError("--method says what a file is of; give the file as well: --checkpoint FILE")
    if set_ and not file:
        raise SkelbenchError("--set says what a file does not; give the file as well: --checkpoint FILE --method mamp")
    if method:
        get_host().method(method)  # a misspelt one fails before torch is imported
    from skelbench.api.calibration import calibrate as measured
    from skelbench.api.calibration import failed
    from skelbench.api.checkpoints import assumed, import_file
    from skelbench.core.spec import listed
    from skelbench.pipeline.request import parse_sets

    session = open_session(results, data_root, device)
    run = session.results.find(checkpoint) if checkpoint and not file else None
    if file and method:
        made = import_file(session, method, file, dataset, split, sets=parse_sets(set_ or []))
        run = made.run, "last"
        if unsaid := assumed(made.resolved.spec, made.run, made.answers):
            err.print(f"note: assumed {listed(unsaid)}, which the file does not say; another: --set", soft_wrap=True)
    found, skipped = measured(session, dataset, split, run, force)
    for why in skipped:
        err.print(f"note: {why}", soft_wrap=True)
    if as_json:
        out.print(json.dumps([one.record for one in found], indent=1, ensure_ascii=False), soft_wrap=True)
    else:
        _show(found)
    return FAILED if failed(found) else 0


def _show(found: list[Calibration]) -> None:
    from skelbench.core.console import make_table, out

    columns = ("method", "data", "probe", "published", "expected", "ours", "last epoch", "verdict")
    rows = [
        (
            one.method,
            f"{one.dataset}/{one.split}",
            one.protocol + (f" ({one.settings})" if one.settings else ""),
            f"{one.published:.1%}" + (f" ± {one.published_sd:.1%}" if one.published_sd is not None else ""),
            f"{one.low:.1%} to {one.high:.1%}",
            f"{one.ours:.1%}" + (" (best on test)" if one.figure == "accuracy_best_on_test" else ""),
            f"{one.last_epoch:.1%}",
            "pass" if one.passed else "fail",
        )
        for one in found
    ]
    out.print(make_table(columns, rows, title="Public checkpoints by their authors' own probe"))
    for one in found:
        note = f" ({one.note})" if one.note else ""
        changed = f"; imported with {one.changed}" if one.changed else ""
        out.print(f"{one.method}, {one.split}: published in {one.source}{note}; {one.n_test:,} test clips{changed}")
    out.print(
        "Expected: Wilson 95 % interval of the published accuracy, wider by 1.96 times the ± that its source has."
    )
