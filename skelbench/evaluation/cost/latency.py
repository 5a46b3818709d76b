"""Latency, throughput and peak memory of a pass on this machine."""

from __future__ import annotations

import statistics
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from skelbench.models.encoder import evaluating
from skelbench.views.view import View


@dataclass(frozen=True)
class Latency:
    """Inference time of one batch on one device, and the number of threads."""

    batch: int
    median_ms: float
    iqr_ms: float
    """Interquartile range over the repeats."""
    clips_per_s: float
    threads: int
    device: str


@dataclass(frozen=True)
class PeakMemory:
    """Peak memory of a call beyond the memory held before it, and how it was measured."""

    bytes: int
    how: str


def latency(
    encoder: nn.Module,
    make_view: Callable[[int], View],
    batch_sizes: Sequence[int] = (1, 64),
    warmup: int = 3,
    repeats: int = 10,
) -> list[Latency]:
    """Time ``encoder(view)`` in evaluation mode without gradients, of views of ``batch`` clips on its device."""
    with evaluating(encoder), torch.inference_mode():
        return [_time(encoder, make_view(batch), batch, warmup, repeats) for batch in batch_sizes]


def _time(encoder: nn.Module, view: View, batch: int, warmup: int, repeats: int) -> Latency:
    milliseconds, device = [], view.x_RTJC.device  # the view's device, because an encoder may have no weights
    for repeat in range(warmup + repeats):
        wait_for(device)
        start = time.perf_counter()
        encoder(view)
        wait_for(device)
        if repeat >= warmup:
            milliseconds.append(1e3 * (time.perf_counter() - start))
    median = statistics.median(milliseconds)
    quartiles = statistics.quantiles(milliseconds, n=4, method="inclusive")
    return Latency(
        batch=batch,
        median_ms=median,
        iqr_ms=quartiles[2] - quartiles[0],
        clips_per_s=1e3 * batch / median,
        threads=torch.get_num_threads(),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
    )


def wait_for(device: torch.device) -> None:
    """Wait until ``device`` has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_memory(fn: Callable[[], object], device: torch.device | str) -> PeakMemory:
    """Run ``fn`` once and return the peak memory of tensors made in it.

    CUDA: statistics of the allocator. CPU: living storages of the tensors that operators return, without temporary
    memory inside kernels.
    """
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        fn()
        torch.cuda.synchronize(device)
        return PeakMemory(torch.cuda.max_memory_allocated(device) - before, "CUDA allocator")
    with LiveTensors() as live:
        fn()
    return PeakMemory(live.peak, "live tensors")


class LiveTensors(TorchDispatchMode):
    """Sizes in bytes of the living storages that operations make within, and the maximum of their sum, ``peak``."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        storages = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and (key := (storage := tensor.untyped_storage())._cdata) not in storages:
                if key not in self._sizes:
                    self._sizes[key] = storage.nbytes()
                    weakref.finalize(storage, self._sizes.pop, key).atexit = False
        self.peak = max(self.peak, sum(self._sizes.values()))
        return out
