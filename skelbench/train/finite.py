"""Numbers that are no longer finite: where they came up, in words.

A step is judged before it changes a weight. Reading a verdict waits for the device, so an accelerator only keeps it,
and is asked when it is waited for anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

NEVER = 1 << 62


class Verdict:
    """The first step whose loss, and whose gradient, was not finite, and its value; kept on the device."""

    def __init__(self, device: torch.device) -> None:
        self._first_2 = torch.full((2,), NEVER, device=device)
        self._value_2 = torch.zeros(2, device=device)

    def see(self, step: int, loss: Tensor, norms: Iterable[Tensor]) -> None:
        """Judge ``step`` by its loss and by the norms of the gradients that are about to change weights (one that
        overflows would overflow an optimiser's squares as well)."""
        norm = torch.stack([norm.to(loss.device).float() for norm in norms]).sum()
        worst_2 = torch.stack([loss.detach().float(), norm])
        new_2 = ~worst_2.isfinite() & (self._first_2 == NEVER)
        self._first_2 = torch.where(new_2, step, self._first_2)
        self._value_2 = torch.where(new_2, worst_2, self._value_2)

    def read(self) -> tuple[int, str, float] | None:
        """Step, "loss" or "gradient" and value of the first that was not finite; None where all were. Waits for the
        device."""
        first, what = min(zip(self._first_2.tolist(), (0, 1)))
        return (first, ("loss", "gradient")[what], float(self._value_2[what])) if first < NEVER else None


def state_problem(module: nn.Module) -> str:
    """The first parameter that is not finite, or buffer with nan in it (a mask may be infinite); "" where there is
    none. Waits for the device once."""
    weights = {name for name, _ in module.named_parameters()}
    state = {name: x for name, x in module.state_dict().items() if isinstance(x, Tensor) and x.is_floating_point()}
    good = [x.isfinite().all() if name in weights else ~x.isnan().any() for name, x in state.items()]
    if not good or bool(torch.stack(good).all()):
        return ""
    return next(name for name, each in zip(state, good) if not each)


def saved_problem(state: Mapping[str, Any]) -> str:
    """The first tensor with nan in a state that was saved, by its keys; "" where there is none."""

    def tensors(value: Any, where: str) -> Iterator[tuple[str, Tensor]]:
        if isinstance(value, Tensor):
            yield where, value
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                yield from tensors(inner, f"{where}.{key}" if where else str(key))

    return next((name for name, x in tensors(state, "") if x.is_floating_point() and bool(x.isnan().any())), "")
