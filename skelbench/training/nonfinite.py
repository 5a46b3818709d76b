"""Numbers that are no longer finite: where they came up, in words.

A step is judged before it changes a weight. Reading a verdict waits for the device, so of an accelerator that is only
done where it is waited for anyway: before anything is logged or saved. In between its verdict is read ``LAG`` steps
late, from a copy that was made meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from skelbench.views.transfer import Fetched

NEVER = 1 << 52
"""A step that no run has, exact in float64."""
LAG = 2
"""Steps that the host may be ahead of the device: as many as it takes for the device never to wait."""

Found = tuple[int, str, float]
"""Step, "loss" or "gradient", and its value."""


class Verdict:
    """The first step whose loss, and whose gradient, was not finite, and its value; kept on the device."""

    def __init__(self, device: torch.device) -> None:
        self._first_22 = torch.full((2, 2), NEVER, dtype=torch.float64, device=device)
        """Of loss and gradient: step and value."""
        self._asked: deque[Fetched] = deque()

    def see(self, step: int, loss: Tensor, norms: Iterable[Tensor]) -> None:
        """Judge ``step`` by its loss and by the norms of the gradients that are about to change weights (one that
        overflows would overflow an optimiser's squares as well)."""
        norm = torch.stack([norm.to(loss.device).float() for norm in norms]).sum()
        worst_2 = torch.stack([loss.detach().float(), norm]).double()
        new_2 = ~worst_2.isfinite() & (self._first_22[:, 0] == NEVER)
        found_22 = torch.stack([torch.full_like(worst_2, step), worst_2], 1)
        self._first_22 = torch.where(new_2[:, None], found_22, self._first_22)

    def read(self) -> Found | None:
        """The first that was not finite; None where all were. Waits for the device."""
        return _first(self._first_22)

    def late(self) -> Found | None:
        """:meth:`read` as it was ``LAG`` calls ago, after one for every step: the device is waited for only where it is
        further behind. All processes find out at the same step."""
        self._asked.append(Fetched(self._first_22))
        return _first(self._asked.popleft().wait()) if len(self._asked) > LAG else None


def _first(first_22: Tensor) -> Found | None:
    (step, value), what = min(zip(first_22.tolist(), ("loss", "gradient")), key=lambda found: found[0][0])
    return (int(step), what, value) if step < NEVER else None


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
