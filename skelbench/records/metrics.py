"""Logged values of a training run, as a pandas frame."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from skelbench.core.files import read_text
from skelbench.records.errors import damage
from skelbench.records.run_dir import RunDir

if TYPE_CHECKING:
    import pandas


def read_metrics(run: RunDir) -> pandas.DataFrame:
    """Return one row per logged step, in order, with NaN for absent values. Empty for an untrained run."""
    import pandas

    return pandas.DataFrame(logged_lines(run))


def logged_lines(run: RunDir, advice: str = "train that run again with --force") -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl; none if there is no such file, :class:`Damaged` if one is not valid."""
    with damage(f"{run.metrics} is damaged; {advice}"):
        if not run.metrics.exists():
            return []
        lines = [json.loads(line) for line in read_text(run.metrics).splitlines()]
        if not all(isinstance(line, dict) and {"step", "epoch", "clips_seen"} <= line.keys() for line in lines):
            raise ValueError("a line without step, epoch or clips")
    return lines


def is_figure(value: Any) -> bool:
    """Whether ``value`` is None, a float, or an integer that fits into a column of integers."""
    return value is None or isinstance(value, float) or (type(value) is int and abs(value) < 2**63)
