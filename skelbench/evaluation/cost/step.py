"""Cost of one whole training step: all views, teacher, decoder, heads and the backward pass, split by role.

Counted by running the real step once under PyTorch's FLOP counter. B clips, M body slots, R rows (present bodies).
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from skelbench.core.distributed import alone
from skelbench.evaluation.cost.meta import countable, meta_result
from skelbench.methods.contract import Method, Step
from skelbench.models import ahead
from skelbench.models.batch_norm import on_any_device
from skelbench.views.view import View

CONVENTION = (
    "FLOPs = 2 x MACs of the matrix products executed in one training step (all views of a clip, every role, forward "
    "and backward), divided by clips; the optimizer, the teacher's moving average and element-wise operations are not "
    "counted."
)
OTHER = "other"
"""Role of operations outside every module with a role, mostly losses."""


@dataclass(frozen=True)
class StepCost:
    """Cost of one training step per clip. ``by_role``: role -> ``{"forward": MACs, "backward": MACs}`` per clip."""

    forward_macs: float
    backward_macs: float
    by_role: dict[str, dict[str, float]]
    clips: int
    """B of the counted step; products between clips make the cost per clip depend on it."""
    bodies_per_clip: float
    """Present bodies per clip in that step."""
    visible: int | None
    """Tokens of a row in the first pass of a student that drops masked ones (``keep_RK``); ``None`` = it drops none."""
    device: str
    """``"meta"``: counted on shapes alone; ``"cpu"``: the step reads values and was run."""
    convention: str = CONVENTION

    @property
    def total_macs(self) -> float:
        """MACs per clip, forward and backward."""
        return self.forward_macs + self.backward_macs

    @property
    def total_flops_per_clip(self) -> float:
        """FLOPs per clip, forward and backward."""
        return 2 * self.total_macs


def count_step(method: Method, views: Mapping[str, View], step: Step) -> StepCost:
    """Count forward and backward of every turn of ``method.training_step(views, step)`` on the device of ``views``.

    The method is copied and not changed. On the meta device nothing is computed; a step that reads values
    (``.item()``, data-dependent shapes) needs the CPU.
    """
    step, method = replace(step, generator=torch.Generator().manual_seed(0)), copy.deepcopy(method)
    on_any_device(method).train()
    with alone(), countable() as counter, _RoleMode(counter.flop_registry) as roles, roles.watching(method):
        for turn in method.turns:
            method(views, replace(step, turn=turn))["loss"].backward()
    first = next(iter(views.values()))
    by_role = {
        role: {direction: flops / 2 / first.clips for direction, flops in ways.items()}
        for role, ways in roles.flops.items()
    }
    return StepCost(
        forward_macs=_total(by_role, "forward"),
        backward_macs=_total(by_role, "backward"),
        by_role=by_role,
        clips=first.clips,
        bodies_per_clip=first.rows / (first.count * first.clips),
        visible=roles.visible,
        device=first.x_RTJC.device.type,
    )


def mean(costs: Sequence[tuple[float, StepCost]]) -> StepCost:
    """Mean step of a schedule from (fraction of the schedule, cost) of its phases."""
    by_role: dict[str, dict[str, float]] = defaultdict(lambda: {"forward": 0.0, "backward": 0.0})
    for share, cost in costs:
        for role, macs in cost.by_role.items():
            for direction, spent in macs.items():
                by_role[role][direction] += share * spent
    first = costs[0][1]
    visible = next((cost.visible for _, cost in costs if cost.visible is not None), None)
    forward, backward = _total(by_role, "forward"), _total(by_role, "backward")
    return replace(first, forward_macs=forward, backward_macs=backward, by_role=dict(by_role), visible=visible)


def _total(by_role: Mapping[str, Mapping[str, float]], direction: str) -> float:
    return sum(macs[direction] for macs in by_role.values())


def _called(module: nn.Module) -> Iterator[nn.Module]:
    """The module itself, or the modules inside a ``ModuleList`` or ``ModuleDict``, which cannot be called."""
    if type(module).forward is not nn.Module.forward:
        yield module
        return
    for child in module.children():
        yield from _called(child)


class _RoleMode(TorchDispatchMode):
    """Counts FLOPs by the ``formulas`` of PyTorch's FLOP counter, split over roles, forward and backward.

    Forward: the innermost running module that has a role. Backward: gradients made ahead of the backward pass
    (:mod:`skelbench.models.ahead`), and autograd nodes, whose sequence number tells in which module they were made.
    (FlopCounterMode's own split by module loses the backward pass of modules that receive a View.)
    """

    def __init__(self, formulas: Mapping[Any, Callable[..., int]]) -> None:
        super().__init__()
        self.formulas = formulas
        self.flops: dict[str, dict[str, int]] = defaultdict(lambda: {"forward": 0, "backward": 0})
        self.visible: int | None = None
        self._student_seen = False
        self._stack: list[str] = [OTHER]
        self._starts: list[int] = [0]
        self._roles: list[str] = [OTHER]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else PyTorch loads its compiler, for seconds

    @contextmanager
    def watching(self, method: Method) -> Iterator[_RoleMode]:
        """Follow the modules named in ``method.roles`` (dotted names reach into submodules)."""
        handles = []
        for name, role in method.roles.items():
            for module in _called(method.get_submodule(name)):
                handles.append(module.register_forward_pre_hook(self._enter(role), with_kwargs=True))
                handles.append(module.register_forward_hook(self._leave, always_call=True))
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()

    def _mark(self) -> None:
        self._starts.append(torch.autograd._get_sequence_nr())
        self._roles.append(self._stack[-1])

    def _enter(self, role: str) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if role == "student" and not self._student_seen:
                self._student_seen = True
                keep_RK = kwargs.get("keep_RK", args[2] if len(args) > 2 else None)
                self.visible = None if keep_RK is None else keep_RK[0].numel()
            self._stack.append(role)
            self._mark()

        return hook

    def _leave(self, module: nn.Module, args: tuple, output: object) -> None:
        self._stack.pop()
        self._mark()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, formula = kwargs or {}, self.formulas.get(func._overloadpacket)
        if torch.is_inference_mode_enabled() and formula is None:  # products may be inside a composite operator
            with self:
                if (result := func.decompose(*args, **kwargs)) is not NotImplemented:
                    return result
        if (result := meta_result(func, args, kwargs)) is None:
            result = func(*args, **kwargs)
        if formula and (spent := formula(*args, **kwargs, out_val=result)):
            node = torch._C._current_autograd_node()
            if node is None:
                self.flops[self._stack[-1]]["backward" if ahead.active() else "forward"] += spent
            else:
                role = self._roles[bisect_right(self._starts, node._sequence_nr()) - 1]
                self.flops[role]["backward"] += spent
        return result
