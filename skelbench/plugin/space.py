"""Search space that a method declares for ``skelbench tune``: at most four settings and their ranges (torch-free)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KNOBS = 4
"""Most settings of a space: a few tens of trials cannot cover more."""
_SECTIONS = ("method.", "train.", "optimizer.", "schedule.")
_COST = ("train.epochs", "train.iters_per_epoch", "train.batch_size")
_FACTOR = re.compile(r"x(\d+\.?\d*|\.\d+)")

Bound = float | str  # a multiple of the preset's value: "x0.125"


@dataclass(frozen=True)
class Linear:
    """A setting drawn uniformly from ``low`` to ``high``."""

    low: Bound
    high: Bound

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


@dataclass(frozen=True)
class Log:
    """A setting drawn with uniform logarithm; ``from_one``: the logarithm of its distance from 1 (EMA momenta)."""

    low: Bound
    high: Bound
    from_one: bool = False

    def __str__(self) -> str:
        return f"{'1 - ' if self.from_one else ''}({self.low} to {self.high}), logarithmic"


Knob = Linear | Log


def factor(value: Any) -> float | None:
    """Return 0.5 for ``"x0.5"``, None for anything else."""
    match = _FACTOR.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) if match else None


def space_problem(space: Mapping[str, Knob]) -> str:
    """Return the problem of a declared space, to follow its name; "" = none."""
    if len(space) > KNOBS:
        return f"has {len(space)} settings, at most {KNOBS} can be tuned; leave out those that matter least"
    for key, knob in space.items():
        if not key.startswith(_SECTIONS) or key in _COST:
            tuned = ", ".join(f"{section}*" for section in _SECTIONS)
            return f"names {key!r}; {tuned} can be tuned, except {', '.join(_COST)}, which decide what a trial costs"
        low, high = (factor(x) if isinstance(x, str) else x for x in (knob.low, knob.high))
        ordered = low is not None and high is not None and -math.inf < low < high < math.inf
        alike = isinstance(knob.low, str) == isinstance(knob.high, str)
        if not ordered or not alike or (isinstance(knob, Log) and (low or 0) <= 0):
            return (
                f'gives {key} {knob!r}: write two numbers, or two multiples such as "x0.125" and "x8", the lower one '
                "first, and above 0 for Log"
            )
    return ""
