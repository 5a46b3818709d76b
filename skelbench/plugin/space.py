"""The search space that a method declares for ``skelbench tune``: at most four settings, and where each is drawn
(torch-free)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KNOBS = 4
"""Most settings of a space: a few tens of trials see little of more."""
_SECTIONS = ("method", "train", "optimizer", "schedule")
_COST = ("train.epochs", "train.iters_per_epoch", "train.batch_size")
_FACTOR = re.compile(r"x(\d+\.?\d*|\.\d+)")

Bound = float | str
"""A number, or ``"x0.125"``: so many times what the preset says."""


@dataclass(frozen=True)
class Linear:
    """Drawn evenly from ``low`` to ``high``.

    >>> str(Linear(0.8, 0.95))
    '0.8 to 0.95'
    """

    low: Bound
    high: Bound

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


@dataclass(frozen=True)
class Log:
    """Drawn evenly in its logarithm from ``low`` to ``high``; ``from_one``: not the setting but its distance from 1, as
    suits an EMA momentum.

    >>> str(Log("x0.25", "x4", from_one=True))
    '1 - (x0.25 to x4), logarithmic'
    """

    low: Bound
    high: Bound
    from_one: bool = False

    def __str__(self) -> str:
        return f"{'1 - ' if self.from_one else ''}({self.low} to {self.high}), logarithmic"


Knob = Linear | Log


def factor(value: Any) -> float | None:
    """0.5 of ``"x0.5"``; None of anything else."""
    found = _FACTOR.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) if found else None


def space_problem(space: Any) -> str:
    """What is wrong with a declared space, to follow its name; "" = nothing."""
    if not isinstance(space, Mapping) or not all(isinstance(key, str) for key in space):
        return 'must be a mapping such as {"train.lr": Log("x0.125", "x8")}'
    if len(space) > KNOBS:
        return f"has {len(space)} settings, at most {KNOBS} can be tuned; leave out those that matter least"
    for key, knob in space.items():
        section, _, name = key.partition(".")
        if section not in _SECTIONS or not name:
            return f"names {key!r}; what can be tuned is called {', '.join(f'{s}.*' for s in _SECTIONS)}"
        if key in _COST:
            return f"names {key!r}, which decides what a trial costs; all trials cost the same"
        if not isinstance(knob, Linear | Log):
            return f"gives {key} {knob!r}; write Log(low, high) or Linear(low, high)"
        if problem := _bounds_problem(knob):
            return f"gives {key} {knob!r}: {problem}"
    return ""


def _bounds_problem(knob: Knob) -> str:
    bounds = (knob.low, knob.high)
    factors = [factor(bound) for bound in bounds]
    numbers = [bound for bound in bounds if isinstance(bound, int | float) and not isinstance(bound, bool)]
    if None in factors and len(numbers) < 2:
        return 'both bounds are numbers, or both are times what the preset says, such as "x0.125" and "x8"'
    low, high = numbers or (f for f in factors if f is not None)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return "the lower bound is not below the upper one"
    return "a logarithm needs bounds above 0" if isinstance(knob, Log) and low <= 0 else ""
