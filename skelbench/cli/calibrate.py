"""``skelbench calibrate DATASET``: compares imported public checkpoints with their published accuracies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from skelbench.cli.options import DataRoot, Device, Force, Results, option
from skelbench.pipeline.request import RunRequest
from skelbench.pipeline.session import open_session

FAILED = 1
"""Exit code: the accuracy of a checkpoint is outside of its interval."""


def calibrate(
    dataset: Annotated[str, typer.Argument(help="Dataset of the published results, for example ntu60.")],
    split: Annotated[str | None, option(RunRequest, "split", show_default="every split with imports")] = None,
    run: Annotated[str | None, typer.Option(help="Imported run.", show_default="all imported runs")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> int:
    """Compare imported checkpoints (`import-checkpoint`) with their published accuracies, by the authors' own probe.

    A checkpoint passes if its accuracy is in the 95 % interval of the published accuracy. If the authors report the
    best epoch on test, so does this command. Exit code: 0 all pass, 1 one or more fail, 2 nothing to compare.
    """
    from skelbench.api.calibration import calibrate as measure
    from skelbench.core.console import err, out

    session = open_session(results, data_root, device)
    records, skipped = measure(session, dataset, split, session.results.find(run) if run else None, force)
    for reason in skipped:
        err.print(f"note: {reason}", soft_wrap=True)
    if as_json:
        out.print(json.dumps(records, indent=1, ensure_ascii=False), soft_wrap=True)
    else:
        _show(records)
    return 0 if all(record["passed"] for record in records) else FAILED


def _show(records: Sequence[Mapping[str, Any]]) -> None:
    from skelbench.core.console import make_table, out

    columns = ("method", "data", "probe", "published", "expected", "ours", "last epoch", "verdict")
    rows = [
        (
            record["method"],
            f"{record['dataset']}/{record['split']}",
            record["protocol"] + (f" ({record['settings']})" if record["settings"] else ""),
            f"{record['published']:.1%}"
            + (f" ± {record['published_sd']:.1%}" if record["published_sd"] is not None else ""),
            f"{record['low']:.1%} to {record['high']:.1%}",
            f"{record['ours']:.1%}" + (" (best on test)" if record["figure"] == "accuracy_best_on_test" else ""),
            f"{record['last_epoch']:.1%}",
            "pass" if record["passed"] else "fail",
        )
        for record in records
    ]
    out.print(make_table(columns, rows, title="Public checkpoints by their authors' own probe"))
    for case in records:
        note = f" ({case['note']})" if case["note"] else ""
        changed = f"; imported with {case['changed']}" if case["changed"] else ""
        out.print(f"{case['method']}, {case['split']}: {case['source']}{note}; {case['n_test']:,} test clips{changed}")
    out.print("Expected: Wilson 95 % interval of the published accuracy, widened by 1.96 times the ± of its source.")
