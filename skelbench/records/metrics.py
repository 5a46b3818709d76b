"""What was logged while a run trained, as a pandas frame."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from skelbench.core.files import parsed, read_text
from skelbench.records.errors import Damaged
from skelbench.records.run_dir import RunDir

if TYPE_CHECKING:
    import pandas


def read_metrics(run: RunDir) -> pandas.DataFrame:
    """One row per logged step, in order; values that were not logged at a step are NaN. Empty for an untrained run.

    Raises :class:`Damaged`.
    """
    import pandas

    return pandas.DataFrame(logged_lines(run))


def logged_lines(run: RunDir, advice: str = "train that run again with --force") -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, in order; none where there is no such file."""
    try:
        lines = [parsed(json.loads, line) for line in read_text(run.metrics).splitlines()]
        if not all(isinstance(line, dict) and {"step", "epoch", "clips_seen"} <= line.keys() for line in lines):
            raise ValueError("a line without step, epoch or clips")
        if not all(is_figure(value) for line in lines for value in line.values()):
            raise ValueError("a value that is no number")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise Damaged.because(f"{run.metrics} is damaged; {advice}", error) from error
    return lines


def is_figure(value: Any) -> bool:
    """A number, whole ones such as fit into a column of them, or none."""
    return value is None or isinstance(value, float) or (type(value) is int and abs(value) < 2**63)
