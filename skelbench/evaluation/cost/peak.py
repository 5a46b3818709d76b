"""Memory of tensors: count what operations allocate, and copy modules and views without values."""

from __future__ import annotations

import copy
import weakref
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

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
