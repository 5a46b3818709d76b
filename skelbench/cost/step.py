"""What one whole training step costs: all views, teacher, decoder, heads and the backward pass, split by role.

Counted by running the real step once under PyTorch's FLOP counter. B clips, M body slots, R rows (present bodies).
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from skelbench.cost.meta import flop_counter, on_meta
from skelbench.distributed import alone
from skelbench.methods.contract import Method, Step
from skelbench.nn.batch_norm import on_any_device
from skelbench.views.view import View

CONVENTION = (
    "FLOPs = 2 x MACs of the matrix products executed in one training step (all views of a clip, every role, forward "
    "and backward), divided by clips; the optimiser, the teacher's moving average and element-wise operations are not "
    "counted."
)
OTHER = "other"
"""Role of what runs outside every module that the method gave a role: losses, mostly."""


@dataclass(frozen=True)
class StepCost:
    """Cost of one training step per clip. ``by_role``: role -> ``{"forward": MACs, "backward": MACs}`` per clip."""

    forward_macs: float
    backward_macs: float
    by_role: dict[str, dict[str, float]]
    clips: int
    """B of the step that was counted (products between clips make the cost per clip depend on it)."""
    bodies_per_clip: float
    """Present bodies per clip in that step."""
    visible: int | None
    """Tokens of a row in the first pass of a student that drops hidden ones (``keep_RK``); ``None`` = it drops none."""
    device: str
    """``"meta"``: counted on shapes alone; ``"cpu"``: the step looks at values and was run on two clips."""
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
    """Count forward and backward of ``method.training_step(views, step)``.

    The method is copied and left alone. It runs on the meta device, so nothing is computed; a step that needs values
    (``.item()``, data-dependent shapes) is run on the CPU with the first two clips of ``views`` instead, provided that
    method and views are not on the meta device themselves.
    """
    step = replace(step, generator=torch.Generator().manual_seed(0))
    valueless = any(view.x_RTJC.is_meta for view in views.values()) or any(p.is_meta for p in method.parameters())
    try:
        return _count(on_meta(method), {name: view.to("meta") for name, view in views.items()}, step, "meta")
    except Exception:  # whatever failed without values is repeated with them; a real error shows again
        if valueless:
            raise
        few = {name: first_clips(view.to("cpu"), 2) for name, view in views.items()}
        return _count(copy.deepcopy(method).cpu(), few, step, "cpu")


def first_clips(view: View, clips: int) -> View:
    """``view`` cut down to its first ``clips`` clips (all of their views and bodies)."""
    clips = min(clips, view.clips)
    kept_R = (view.clip_R < clips).nonzero().squeeze(1)
    view_R = torch.div(view.rows_R[kept_R], view.clips * view.bodies, rounding_mode="floor")
    rows_R = view.rows_R[kept_R] - view_R * (view.clips - clips) * view.bodies
    per_row = {name: getattr(view, name) for name in ("x_RTJC", "mask_RN", "keep_RK", "real_RT")}
    per_row = {name: value[kept_R] for name, value in per_row.items() if value is not None}
    masked_I = None if view.masked_I is None else per_row["mask_RN"].flatten().nonzero().squeeze(1)
    return replace(view, rows_R=rows_R, clips=clips, masked_I=masked_I, **per_row)


def _count(method: Method, views: Mapping[str, View], step: Step, device: str) -> StepCost:
    on_any_device(method).train()
    with alone(), flop_counter() as counter, _RoleMode(counter) as roles, roles.watching(method):
        method(views, step)["loss"].backward()
    first = next(iter(views.values()))
    by_role = {
        role: {phase: flops / 2 / first.clips for phase, flops in phases.items()}
        for role, phases in roles.flops.items()
    }
    return StepCost(
        forward_macs=sum(phases["forward"] for phases in by_role.values()),
        backward_macs=sum(phases["backward"] for phases in by_role.values()),
        by_role=by_role,
        clips=first.clips,
        bodies_per_clip=first.rows / (first.count * first.clips),
        visible=roles.visible,
        device=device,
    )


class _RoleMode(TorchDispatchMode):
    """Splits what ``counter`` counts over roles and phases.

    Forward: the innermost running module that has a role. Backward: every autograd node carries the sequence number it
    got in the forward pass, which says inside which module it was made. (FlopCounterMode's own split by module follows
    tensors passed as arguments, and loses the backward pass of modules that receive a View.)
    """

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter
        self.flops: dict[str, dict[str, int]] = defaultdict(lambda: {"forward": 0, "backward": 0})
        self.visible: int | None = None
        self._student_seen = False
        self._stack: list[str] = [OTHER]
        self._starts: list[int] = [0]
        self._roles: list[str] = [OTHER]

    @contextmanager
    def watching(self, method: Method) -> Iterator[_RoleMode]:
        """Follow the modules named in ``method.roles`` (dotted names reach into submodules)."""
        handles = []
        for name, role in method.roles.items():
            module = method.get_submodule(name)
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
                self.visible = None if keep_RK is None else keep_RK.shape[1]
            self._stack.append(role)
            self._mark()

        return hook

    def _leave(self, module: nn.Module, args: tuple, output: object) -> None:
        self._stack.pop()
        self._mark()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        before = self.counter.get_total_flops()
        result = func(*args, **(kwargs or {}))
        if spent := self.counter.get_total_flops() - before:
            node = torch._C._current_autograd_node()
            if node is None:
                self.flops[self._stack[-1]]["forward"] += spent
            else:
                role = self._roles[bisect_right(self._starts, node._sequence_nr()) - 1]
                self.flops[role]["backward"] += spent
        return result
