"""Learning rates as functions of the share of training that is done, so that a shorter schedule keeps its shape."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from skelbench.component import Component
from skelbench.nn.schedule import cosine

Share = Annotated[float, Field(gt=0, lt=1)]


class Schedule(Component):
    """Base class of schedules: a linear warm-up, then :meth:`after`. One of your own is a subclass with a ``kind``."""

    family: ClassVar[str] = "schedules"

    warmup: float = Field(20 / 150, ge=0, lt=1, description="linear warm-up, share of the schedule")

    def lr(self, peak: float, step: int, total: int) -> float:
        """Learning rate of ``step``, 0 to total - 1: linear from peak / warm-up steps to the peak, then on."""
        warm = round(self.warmup * total)
        return peak * (step + 1) / warm if step < warm else self.after(peak, step, warm, total)

    def after(self, peak: float, step: int, warm: int, total: int) -> float:
        """Learning rate of ``step`` once ``warm`` steps of warm-up are done."""
        raise NotImplementedError


class Cosine(Schedule):
    """Half a cosine from the peak to ``min_lr``."""

    kind = "cosine"
    min_lr: float = Field(1e-6, ge=0, description="learning rate at the end")

    def after(self, peak: float, step: int, warm: int, total: int) -> float:
        """Over the steps that are left after the warm-up."""
        return cosine(peak, self.min_lr, (step - warm) / max(1, total - warm))


class StepDecay(Schedule):
    """The peak, multiplied by ``gamma`` at each of the ``milestones``."""

    kind = "step"
    warmup: float = Field(0.0, ge=0, lt=1, description="linear warm-up, share of the schedule")
    milestones: tuple[Share, ...] = Field((2 / 3,), description="when the rate drops, shares of the schedule")
    gamma: float = Field(0.1, gt=0, le=1, description="what it is multiplied by")

    def after(self, peak: float, step: int, warm: int, total: int) -> float:
        """Milestones are shares of the whole schedule, warm-up included."""
        return peak * self.gamma ** sum(step >= round(milestone * total) for milestone in self.milestones)


class Constant(Schedule):
    """The peak throughout."""

    kind = "constant"
    warmup: float = Field(0.0, ge=0, lt=1, description="linear warm-up, share of the schedule")

    def after(self, peak: float, step: int, warm: int, total: int) -> float:
        return peak
