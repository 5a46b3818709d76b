"""What was logged while a run trained, as a pandas frame."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from skelbench.errors import SkelbenchError
from skelbench.files import read_text
from skelbench.results.store import RunDir

if TYPE_CHECKING:
    import pandas


def read_metrics(run: RunDir) -> pandas.DataFrame:
    """One row per logged step, in order; values that were not logged at a step are NaN. Empty for an untrained run."""
    import pandas

    return pandas.DataFrame(logged(run))


def logged(run: RunDir, advice: str = "train that run again with --force") -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, in order; none where there is no such file."""
    try:
        lines = [json.loads(line) for line in read_text(run.metrics).splitlines()]
        if not all(isinstance(line, dict) and {"step", "epoch", "clips_seen"} <= line.keys() for line in lines):
            raise ValueError("a line without step, epoch or clips")
        if not all(isinstance(value, float) or _whole(value) for line in lines for value in line.values()):
            raise ValueError("a figure that is no number")
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise SkelbenchError(f"{run.metrics} is damaged; {advice}") from error
    return lines


def _whole(value: Any) -> bool:
    """A whole number that fits into a column of them."""
    return type(value) is int and abs(value) < 2**63
