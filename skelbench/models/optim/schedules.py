"""Learning rates as functions of the fraction of training done, so that a shorter schedule has the same shape."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from skelbench.core.component import Share
from skelbench.models.schedule import cosine
from skelbench.plugin.component import Component
from skelbench.plugin.plugin_errors import lacking


class Schedule(Component):
    """Base class of schedules: a linear warm-up, then :meth:`after`. Your own schedule is a subclass with a ``kind``.

    >>> class Halves(Schedule):
    ...     kind = "halves"
    ...
    ...     def after(self, peak, step, warm, total):
    ...         return peak / 2 if 2 * step >= total else peak
    >>> [Halves(warmup=0.2).lr(1.0, step, 10) for step in (0, 1, 4, 5)]
    [0.5, 1.0, 1.0, 0.5]
    """

    family: ClassVar[str] = "schedules"

    warmup: float = Field(20 / 150, ge=0, lt=1, description="linear warm-up, fraction of the schedule")

    def lr(self, peak: float, step: int, total: int) -> float:
        """Learning rate of ``step``, 0 to total - 1: linear warm-up to the peak, then :meth:`after`."""
        warm = round(self.warmup * total)
        return peak * (step + 1) / warm if step < warm else self.after(peak, step, warm, total)

    def after(self, peak: float, step: int, warm: int, total: int) -> float:
        """Learning rate of ``step`` once ``warm`` steps of warm-up are done."""
        raise lacking(self, "after(self, peak, step, warm, total)")


class Cosine(Schedule):
    """Half a cosine from the peak to ``min_lr``.

    >>> [round(Cosine(warmup=0, min_lr=0).lr(1.0, step, 100), 3) for step in (0, 50, 99)]
    [1.0, 0.5, 0.0]
    """

    kind = "cosine"
    min_lr: float = Field(1e-6, ge=0, description="learning rate at the end")

    def after(self, peak: float, step: int, warm: int, total: int) -> float:
        """Cosine over the steps after the warm-up."""
        return cosine(peak, self.min_lr, (step - warm) / max(1, total - warm))


class StepDecay(Schedule):
    """The peak, multiplied by ``gamma`` at each of the ``milestones``.

    >>> [StepDecay(milestones=(0.5,)).lr(1.0, step, 100) for step in (0, 49, 50)]
    [1.0, 1.0, 0.1]
    """

    kind = "step"
    warmup: float = Field(0.0, ge=0, lt=1, description="linear warm-up, fraction of the schedule")
    milestones: tuple[Share, ...] = Field((2 / 3,), description="fractions of the schedule at which the rate drops")
    gamma: float = Field(0.1, gt=0, le=1, description="factor of the rate at each milestone")

    def after(self, peak: float, step: int, warm: int, total: int) -> float:
        """Milestones are fractions of the whole schedule, warm-up included."""
        return peak * self.gamma ** sum(step >= round(milestone * total) for milestone in self.milestones)


class Exponential(Schedule):
    """The peak, multiplied by ``gamma`` after each of ``parts`` equal parts of the schedule: epochs, in most codes.

    >>> [round(Exponential(parts=4, gamma=0.5).lr(1.0, step, 100), 3) for step in (0, 24, 25, 99)]
    [1.0, 1.0, 0.5, 0.125]
    """

    kind = "exponential"
    warmup: float = Field(0.0, ge=0, lt=1, description="linear warm-up, fraction of the schedule")
    parts: int = Field(100, ge=1, description="number of equal parts of the schedule, each with one rate")
    gamma: float = Field(0.99, gt=0, le=1, description="rate of a part / rate of the part before")

    def after(self, peak: float, step: int, warm: int, total: int) -> float:
        """Parts divide the whole schedule, warm-up included."""
        return peak * self.gamma ** (step * self.parts // total)


class Constant(Schedule):
    """The peak throughout.

    >>> Constant().lr(0.1, 99, 100)
    0.1
    """

    kind = "constant"
    warmup: float = Field(0.0, ge=0, lt=1, description="linear warm-up, fraction of the schedule")

    def after(self, peak: float, step: int, warm: int, total: int) -> float:
        return peak
