"""Stop training on a loss, gradient or weight that is not finite, before anything bad is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

import torch
from torch import Tensor, nn

from skelbench.core import distributed
from skelbench.views.transfer import fetch

NO_STEP = 1 << 52
"""Value for "no step", larger than any step and exact in float64."""


class FiniteCheck:
    """Record on the device the first step whose loss or gradient is not finite; call ``fail(step, what, value)``.

    A step is checked before it changes a weight. Reading the result waits for the device, so on an accelerator it is
    read only before something is logged or saved.
    """

    def __init__(self, device: torch.device, fail: Callable[[int, str, float], NoReturn]) -> None:
        self.reads_late = device.type != "cpu"
        self._fail = fail
        self._first_22 = torch.full((2, 2), NO_STEP, dtype=torch.float64, device=device)
        """Rows: loss, gradient. Columns: step, value."""

    def record(self, step: int, loss: Tensor, norms: Iterable[Tensor]) -> None:
        """Record the loss of ``step`` and the norms of the gradients that will change weights.

        A norm that overflows counts as bad: it would overflow the squares of an optimizer too.
        """
        norm = torch.stack([norm.to(loss.device).float() for norm in norms]).sum()
        value_2 = torch.stack([loss.detach().float(), norm]).double()
        is_first_2 = ~value_2.isfinite() & (self._first_22[:, 0] == NO_STEP)
        new_22 = torch.stack([torch.full_like(value_2, step), value_2], 1)
        self._first_22 = torch.where(is_first_2[:, None], new_22, self._first_22)
        if not self.reads_late:
            self.check_now()

    def check_now(self) -> None:
        """Fail if any recorded step was bad. Waits for the device."""
        rows_22 = fetch(self._first_22).tolist()
        (step, value), quantity = min(zip(rows_22, ("loss", "gradient")), key=lambda row: row[0][0])
        if step < NO_STEP:
            self._fail(int(step), quantity, value)

    def check_state(self, module: nn.Module, step: int) -> None:
        """Fail if weights or buffers after ``step`` are not finite. Waits for the device."""
        if name := next(filter(None, distributed.all_say(nonfinite_weight(module))), ""):
            self._fail(step, name, float("nan"))


def nonfinite_gradient(module: nn.Module) -> str:
    """Name of the first parameter whose gradient is not finite, "" if there is none."""
    gradients = ((name, p.grad) for name, p in module.named_parameters() if p.grad is not None)
    return next((name for name, gradient in gradients if not bool(gradient.isfinite().all())), "")


def nonfinite_weight(module: nn.Module) -> str:
    """Name of the first parameter that is not finite, or buffer that holds nan (a mask may be infinite); "" if none.

    Waits for the device once.
    """
    weights = {name for name, _ in module.named_parameters()}
    state = {name: x for name, x in module.state_dict().items() if isinstance(x, Tensor) and x.is_floating_point()}
    good = [x.isfinite().all() if name in weights else ~x.isnan().any() for name, x in state.items()]
    if not good or bool(torch.stack(good).all()):
        return ""
    return next(name for name, is_good in zip(state, good) if not is_good)
