"""Number of steps of one run that a budget allows."""

from __future__ import annotations

from collections.abc import Callable

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import RunSpec, TrainSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.cost import BODIES
from skelbench.pipeline.budget import Budget, Length, Pace
from skelbench.plugin.host import Host
from skelbench.plugin.status import one_line
from skelbench.training.loop import total_steps

Timer = Callable[[RunSpec, ClipStore], Pace]
"""Speed of the steps of a spec on this machine."""

_counted: dict[str, float] = {}
"""Cache of FLOPs per clip by :func:`lengthless` setting: all seeds and lengths of a study need one count."""


def lengthless(spec: RunSpec) -> RunSpec:
    """``spec`` with a thousand steps and seed 0, the same for all its lengths and seeds."""
    train = spec.train.model_copy(update={"epochs": 1.0, "iters_per_epoch": 1000})
    return spec.model_copy(update={"train": train, "seed": 0})


def length_of(budget: Budget, spec: RunSpec, host: Host, store: ClipStore, timer: Timer | None) -> Length:
    """Number of steps of ``spec`` that the ``budget`` allows, rounded.

    Raises:
        SkelbenchError: the budget is less than one step, FLOPs cannot be counted, or minutes have no ``timer``.
    """
    batch, flops, pace, step = spec.train.batch_size, None, None, 1.0
    if budget.kind == "clips":
        step = float(batch)
    elif budget.kind == "flops":
        flops = BODIES * _flops_per_clip(spec, host, store)
        step = batch * flops
    elif budget.kind == "minutes":
        if timer is None:
            raise SkelbenchError(f"--budget {budget} needs timed steps, not made here; give clips, steps or flops")
        pace = timer(spec, store)
        step = pace.seconds_per_step / 60
    if budget.amount < step:
        raise SkelbenchError(
            f"--budget {budget} is less than one step of {batch} clips of method {spec.method}, which takes "
            f"{step:.3g} {budget.kind}; give more"
        )
    return Length(budget, round(budget.amount / step), batch, flops, pace)


def of_steps(spec: RunSpec, clips: int, steps: int) -> TrainSpec:
    """Training settings of ``spec`` with ``steps`` steps of ``clips`` training clips; unchanged if already equal."""
    if total_steps(spec, clips) == steps:
        return spec.train
    per_epoch = spec.train.iters_per_epoch or clips / spec.train.batch_size
    return spec.train.model_copy(update={"epochs": steps / per_epoch})


def _flops_per_clip(spec: RunSpec, host: Host, store: ClipStore) -> float:
    """FLOPs of a whole training step per body."""
    from skelbench.evaluation.cost.report import step_cost

    key, problem = lengthless(spec).id, "it holds no matrix product"
    if key not in _counted:
        try:
            _counted[key] = step_cost(spec, host, store.topology)["flops_per_clip"]
        except Exception as error:
            problem = one_line(error)
    if not _counted.get(key):
        raise SkelbenchError(
            f"the FLOPs of a training step of method {spec.method} cannot be counted ({problem}); give a budget of "
            "clips, steps or minutes"
        )
    return _counted[key]
