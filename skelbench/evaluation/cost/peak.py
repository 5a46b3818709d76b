"""Memory of a training step before it is made.

The real step runs, forward and backward, and every tensor that comes and goes is counted: on tensors that have shapes
and no values (PyTorch's ``FakeTensorMode``), or on real ones where a step is so small that this is sooner done. Kernels
are a CPU's, whose fused attention keeps what a GPU's does; what a GPU's kernels take while they work, and gaps between
blocks of memory, are not seen.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Literal, TypeVar
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from skelbench.core.distributed import alone
from skelbench.methods.contract import Method, Step
from skelbench.models import encoder, prototype_loss
from skelbench.models.batch_norm import on_any_device
from skelbench.training.activation_checkpointing import recompute
from skelbench.views.view import View

CPU = torch.device("cpu")
Module = TypeVar("Module", bound=nn.Module)


class Held(TorchDispatchMode):
    """Counts the bytes of tensors that operations make within: ``now``, and the most at a time, ``peak``.

    >>> with Held() as held:
    ...     x = torch.ones(1000) + 1
    >>> held.now, held.peak
    (4000, 8000)
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in given:
                self._see(tensor.untyped_storage())
        return out

    def _see(self, storage: torch.UntypedStorage) -> None:
        if (key := storage._cdata) not in self._known:
            self._known.add(key)
            self._change(storage.nbytes())
            weakref.finalize(storage, self._gone, key, storage.nbytes()).atexit = False

    def _gone(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._change(-size)

    def _change(self, size: int) -> None:
        self.now += size
        self.peak = max(self.peak, self.now)


def step_peak(
    method: Method,
    views: Mapping[str, View],
    info: Step,
    precision: Literal["fp32", "bf16"],
    again: bool,
    shapes_alone: bool,
    accelerator: bool = False,
) -> int:
    """Most bytes at a time that forward and backward hold besides parameters and ``views``: activations and gradients.

    ``again``: with blocks computed again in the backward pass; ``shapes_alone``: without values; ``accelerator``: in
    the order in which a GPU makes it. The method is copied and left alone.

    Raises:
        Exception: whatever an operation raises that cannot do without values, if there are none.
    """
    draws = torch.empty if shapes_alone else torch.zeros

    def uniform(keys_R: Tensor, n: int, op: int = 0) -> Tensor:
        return draws(len(keys_R), n) + 0.5

    info = replace(info, generator=torch.Generator(), uniform=uniform, watch=lambda name, what, view=None: None)
    with (
        torch.random.fork_rng(devices=[]),
        FakeTensorMode(allow_non_fake_inputs=True) if shapes_alone else nullcontext(),
        alone(),
        following(accelerator, precision),
        patch.object(prototype_loss, "_ROWS", prototype_loss.TILE),  # the scratch of an accelerator, in few operations
        patch.object(prototype_loss, "_slices", _few_tiles) if shapes_alone else nullcontext(),
    ):
        if shapes_alone:
            there, seen = without_values(method), {name: view_without_values(view) for name, view in views.items()}
        else:
            there, seen = copy.deepcopy(method).cpu(), {name: view.to("cpu") for name, view in views.items()}
        recompute(on_any_device(there), again)
        with Held() as held:
            for turn in method.turns:
                with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                    reported = there(seen, replace(info, turn=turn))
                reported["loss"].backward()
    return held.peak


@contextmanager
def following(accelerator: bool, precision: str) -> Iterator[None]:
    """Tensors of a CPU are treated as an accelerator's, if ``accelerator``."""
    with ExitStack() as stack:
        for module in (encoder, prototype_loss) if accelerator else ():
            stack.enter_context(patch.object(module, "on_accelerator", lambda like: True))
        if accelerator and precision == "bf16":
            stack.enter_context(patch.object(prototype_loss, "rounds_products", lambda like: True))
            stack.enter_context(patch.object(prototype_loss, "_product", lambda a, b, dtype: (a @ b).to(dtype)))
        yield


def _few_tiles(n: int, size: int, every: Callable[[int, int], list[slice]] = prototype_loss._slices) -> list[slice]:
    """Of tiles, which all take the same, the first two and the last: to follow hundreds takes most of the time."""
    tiles = every(n, size)
    return tiles if len(tiles) < 4 else [*tiles[:2], tiles[-1]]


def without_values(module: Module, device: torch.device = CPU) -> Module:
    """A copy of ``module`` whose parameters and buffers have the same shapes on ``device``; what else it holds is
    copied as it is. Inside a ``FakeTensorMode``."""
    memo: dict[int, Any] = {}
    for parameter in module.parameters():
        memo[id(parameter)] = nn.Parameter(_like(parameter, device), parameter.requires_grad)
    for buffer in module.buffers():
        memo[id(buffer)] = _like(buffer, device)
    with _disable_current_modes():
        return copy.deepcopy(module, memo)


def view_without_values(view: View, device: torch.device = CPU) -> View:
    """``view`` with tensors of the same shapes on ``device``. Inside a ``FakeTensorMode``."""
    moved: dict[str, Any] = {name: _like(x, device) for name, x in vars(view).items() if isinstance(x, Tensor)}
    return replace(view, **moved)


def _like(x: Tensor, device: torch.device) -> Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)
