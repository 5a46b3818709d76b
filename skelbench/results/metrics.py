"""What was logged while a run trained, as a pandas frame."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from skelbench.files import parsed
from skelbench.results.store import Damaged, RunDir

if TYPE_CHECKING:
    import pandas


def read_metrics(run: RunDir) -> pandas.DataFrame:
    """One row per logged step, in order; values that were not logged at a step are NaN. Empty for an untrained run.

    Raises :class:`Damaged`.
    """
    import pandas

    if not run.metrics.exists():
        return pandas.DataFrame()
    return pandas.DataFrame(metric_lines(run))


def metric_lines(run: RunDir) -> list[dict[str, Any]]:
    """What was logged, step by step."""
    try:
        lines = [parsed(json.loads, line) for line in run.metrics.read_text().splitlines()]
        if not all(isinstance(line, dict) and {"step", "clips_seen"} <= line.keys() for line in lines):
            raise ValueError("a line without step or clips")
        if not all(isinstance(value, int | float | None) for line in lines for value in line.values()):
            raise ValueError("a value that is no number")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Damaged(f"{run.metrics} is damaged; train that run again with --force ({why})") from error
    return lines
