"""What the trials of ``skelbench tune`` change: draws from the space that a method declares. Trial 0 is the default."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.hashing import derive_seed
from skelbench.core.spec import RunSpec
from skelbench.plugin.space import Knob, Log, factor

SAMPLERS = ("sobol", "tpe")


@dataclass(frozen=True)
class Axis:
    """One setting of a space with its bounds as numbers."""

    key: str
    low: float
    high: float
    log: bool = False
    from_one: bool = False
    default: float | None = None

    def at(self, share: float) -> float:
        """The setting at ``share`` of the way from the lower to the upper bound, to 4 digits."""
        if self.log:
            drawn = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            drawn = self.low + share * (self.high - self.low)
        drawn = min(max(float(f"{drawn:.4g}"), self.low), self.high)
        return float(f"{1 - drawn:.12g}") if self.from_one else drawn

    def share(self, value: float) -> float:
        """The way from the lower to the upper bound at which ``value`` is, 0..1."""
        drawn = 1 - value if self.from_one else value
        if not self.log:
            share = (drawn - self.low) / (self.high - self.low)
        else:
            share = math.log(max(drawn, self.low) / self.low) / math.log(self.high / self.low)
        return min(max(share, 0.0), 1.0)

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {**vars(self)}


def axes_of(space: Mapping[str, Knob], spec: RunSpec, who: str) -> tuple[Axis, ...]:
    """``space`` with its bounds as numbers, beside the defaults that ``spec`` is made of."""
    held = {
        f"{section}.{name}": value
        for section, values in (
            ("method", spec.method_config),
            ("train", spec.train.model_dump()),
            ("optimizer", spec.optimizer_config),
            ("schedule", spec.schedule_config),
        )
        for name, value in values.items()
    }
    return tuple(_axis(key, knob, held, f"the search space of {who}") for key, knob in space.items())


def _axis(key: str, knob: Knob, held: Mapping[str, Any], whose: str) -> Axis:
    if key not in held:
        raise SkelbenchError(f"{whose}: {did_you_mean(key, list(held), 'setting')}")
    value = held[key]
    from_one = isinstance(knob, Log) and knob.from_one
    if isinstance(value, bool) or not isinstance(value, float | None):
        raise SkelbenchError(f"{whose} draws {key}, which is {value!r} here and no real number; leave it out")
    by = [factor(bound) for bound in (knob.low, knob.high)]
    if by[0] is None or by[1] is None:
        low, high = float(knob.low), float(knob.high)
    elif value is None or (distance := 1 - value if from_one else value) <= 0:
        raise SkelbenchError(f"{whose} draws {key} as times what the preset says, which is {value}; give numbers")
    else:
        low, high = by[0] * distance, by[1] * distance
    if from_one:
        high = min(high, 1.0)
    return Axis(key, low, high, isinstance(knob, Log), from_one, value)


def sobol(axes: Sequence[Axis], trials: int, seed: int) -> list[dict[str, float]]:
    """What ``trials`` trials change: nothing, then a scrambled Sobol sequence; more trials begin with the same ones."""
    from scipy.stats import qmc

    power = math.ceil(math.log2(max(1, trials - 1)))
    points = qmc.Sobol(len(axes), scramble=True, rng=seed).random_base2(power)
    return [{}, *({axis.key: axis.at(float(share)) for axis, share in zip(axes, row)} for row in points)][:trials]


def tpe(
    axes: Sequence[Axis], scored: Sequence[tuple[Mapping[str, float], float | None]], seed: int
) -> dict[str, float]:
    """What the trial after ``scored`` changes, (settings, accuracy; None = failed) each, by a tree-structured Parzen
    estimator; the first is the default. The same history gives the same settings."""
    if not scored:
        return {}
    optuna = need_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=derive_seed(seed, "tpe", len(scored)) % 2**32)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    unit = {axis.key: optuna.distributions.FloatDistribution(0, 1) for axis in axes}
    for settings, accuracy in scored:
        values = [(axis, settings.get(axis.key, axis.default)) for axis in axes]
        shares = {axis.key: axis.share(value) for axis, value in values if value is not None}
        if len(shares) < len(axes):
            continue  # a default of none is nowhere between bounds
        value = accuracy or 0.0  # to fail is the worst there is
        study.add_trial(optuna.trial.create_trial(params=shares, distributions=unit, value=value))
    asked = study.ask(unit)
    return {axis.key: axis.at(asked.params[axis.key]) for axis in axes}


def need_optuna() -> Any:
    """The module, which is not installed unless asked for."""
    try:
        import optuna
    except ImportError as error:
        raise SkelbenchError(
            "--sampler tpe needs optuna, which is not installed; `pip install 'skelbench[tune]'`, or leave it out for "
            "the Sobol sequence"
        ) from error
    return optuna
