"""Draw the settings of the trials of ``skelbench tune`` from the space of a method. Trial 0 is the default."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.spec import RunSpec
from skelbench.plugin.space import Knob, Log, factor


@dataclass(frozen=True)
class Axis:
    """One setting of a search space, with its bounds as numbers."""

    key: str
    low: float
    high: float
    log: bool = False
    from_one: bool = False
    default: float | None = None

    def at(self, share: float) -> float:
        """Value at fraction ``share`` between the bounds, to 4 digits."""
        if self.log:
            drawn = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            drawn = self.low + share * (self.high - self.low)
        drawn = min(max(float(f"{drawn:.4g}"), self.low), self.high)
        return float(f"{1 - drawn:.12g}") if self.from_one else drawn


def axes_of(space: Mapping[str, Knob], spec: RunSpec, who: str) -> tuple[Axis, ...]:
    """Return ``space`` with its bounds as numbers, next to the defaults of ``spec``."""
    fixed = {
        f"{section}.{name}": value
        for section, values in (
            ("method", spec.method_config),
            ("train", spec.train.model_dump()),
            ("optimizer", spec.optimizer_config),
            ("schedule", spec.schedule_config),
        )
        for name, value in values.items()
    }
    return tuple(_axis(key, knob, fixed, f"the search space of {who}") for key, knob in space.items())


def _axis(key: str, knob: Knob, fixed: Mapping[str, Any], whose: str) -> Axis:
    if key not in fixed:
        raise SkelbenchError(f"{whose}: {did_you_mean(key, list(fixed), 'setting')}")
    value = fixed[key]
    from_one = isinstance(knob, Log) and knob.from_one
    if isinstance(value, bool) or not isinstance(value, float | None):
        raise SkelbenchError(f"{whose} draws {key}, which is {value!r} here and not a real number; leave it out")
    by = [factor(bound) for bound in (knob.low, knob.high)]
    if by[0] is None or by[1] is None:
        low, high = float(knob.low), float(knob.high)
    elif value is None or (distance := 1 - value if from_one else value) <= 0:
        raise SkelbenchError(f"{whose} draws {key} as a multiple of the preset's value, which is {value}; give numbers")
    else:
        low, high = by[0] * distance, by[1] * distance
    if from_one:
        high = min(high, 1.0)
    return Axis(key, low, high, isinstance(knob, Log), from_one, value)


def sobol(axes: Sequence[Axis], trials: int, seed: int) -> list[dict[str, float]]:
    """Settings of each trial: none, then a scrambled Sobol sequence; a longer sequence has the same beginning."""
    from scipy.stats import qmc

    power = math.ceil(math.log2(max(1, trials - 1)))
    points = qmc.Sobol(len(axes), scramble=True, rng=seed).random_base2(power)
    return [{}, *({axis.key: axis.at(float(share)) for axis, share in zip(axes, row)} for row in points)][:trials]
