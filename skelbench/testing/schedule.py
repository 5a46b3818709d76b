"""Checks of learning-rate schedules, for training of any length."""

from __future__ import annotations

import math

from skelbench.models.optim.schedules import Schedule
from skelbench.testing.check import Check, Failed
from skelbench.testing.component import ComponentSubject, component_checks, component_kit

PEAK = 0.1
TOTALS = (1, 2, 3, 7, 50, 400)
"""Steps of whole schedules."""
ALIKE = 0.9
"""Share of the points at which a longer schedule must be as high; at the others it may jump."""


def rates(schedule: Schedule, total: int) -> list[float]:
    """The learning rate of every step."""
    return [schedule.lr(PEAK, step, total) for step in range(total)]


def within(subject: ComponentSubject) -> None:
    for total in TOTALS:
        for step, rate in enumerate(rates(subject.make(), total)):
            if not (isinstance(rate, int | float) and math.isfinite(rate) and 0 <= rate <= PEAK * (1 + 1e-9)):
                look = "after, near the first and the last step"
                raise Failed(f"a learning rate from 0 to the peak, {PEAK}", f"{rate!r} in step {step} of {total}", look)
        if not any(rates(subject.make(), total)):
            raise Failed("a learning rate above 0", f"0 in all of {total} steps", "after")


def warmup(subject: ComponentSubject) -> None:
    share, total = 0.25, 400
    warm = rates(subject.make(warmup=share), total)[: round(share * total)]
    for step, rate in enumerate(warm):
        expected = PEAK * (step + 1) / len(warm)
        if abs(rate - expected) > 1e-9:
            look = "lr: leave it to Schedule and write after"
            raise Failed(f"{expected:.4g}, linear warm-up, in step {step}", f"{rate:.4g}", look)
    first = rates(subject.make(warmup=0.0), total)[0]
    if first < 0.5 * PEAK:
        seen = f"{first:.4g} of {PEAK}"
        raise Failed("a schedule without warm-up that begins near the peak", seen, "after, which begins at warm")


def scaled(subject: ComponentSubject) -> None:
    short, long = rates(subject.make(), 100), rates(subject.make(), 1000)
    alike = [abs(rate - long[10 * step + 5]) <= 0.05 * PEAK for step, rate in enumerate(short)]
    if sum(alike) < ALIKE * len(alike):
        look = "numbers of steps in after: durations are shares, step / total"
        seen = f"{sum(alike)} of 100 points agree"
        raise Failed("the same shape whether the schedule has 100 steps or 1000", seen, look)


def by_step(subject: ComponentSubject) -> None:
    schedule = subject.make()
    forwards = rates(schedule, 50)
    backwards = [schedule.lr(PEAK, step, 50) for step in reversed(range(50))][::-1]
    if forwards != backwards:
        look = "what after remembers from call to call: a run that is continued begins in the middle"
        raise Failed("a rate that is a function of the step", "it hangs on which was asked before", look)


def proportional(subject: ComponentSubject) -> None:
    low, high = subject.make().lr(PEAK, 20, 100), subject.make().lr(2 * PEAK, 20, 100)
    if not low < high:
        seen = f"{high:.4g} at a peak of {2 * PEAK}, {low:.4g} at {PEAK}"
        raise Failed("a higher rate with a higher peak", seen, "peak in after")


CHECKS = component_checks(
    Schedule,
    Check("within", "rates lie between 0 and the peak, in schedules of any length", within),
    Check("warmup", "it begins with the linear warm-up that is set", warmup),
    Check("scaled", "a longer schedule has the same shape", scaled),
    Check("by-step", "the rate of a step does not depend on what was asked before", by_step),
    Check("peak", "a higher peak gives higher rates", proportional),
)
kit = component_kit(Schedule, CHECKS)
