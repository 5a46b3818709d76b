"""What a pass takes on this machine: milliseconds, clips per second, peak memory."""

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

from skelbench.views.view import View


@dataclass(frozen=True)
class Latency:
    """Inference time of one batch. Device and threads are part of the number."""

    batch: int
    median_ms: float
    iqr_ms: float
    """Distance between the quartiles over the repeats."""
    clips_per_s: float
    """``batch`` over the median."""
    threads: int
    device: str


@dataclass(frozen=True)
class PeakMemory:
    """Most memory held during a call beyond what was held before it, and how that was found out."""

    bytes: int
    how: str


def latency(
    encoder: nn.Module,
    make_view: Callable[[int], View],
    batch_sizes: Sequence[int] = (1, 64),
    warmup: int = 3,
    repeats: int = 20,
) -> list[Latency]:
    """Time ``encoder(make_view(batch))`` in evaluation mode without gradients, on the device the encoder is on.

    ``make_view(batch)`` returns a view of ``batch`` clips on that device. Making it and warming up are not timed.
    """
    views = [make_view(batch) for batch in batch_sizes]
    device = views[0].x_RTJC.device  # not the weights': an encoder may have none
    training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode():
            timed = zip(views, batch_sizes, strict=True)
            return [_time(encoder, view, batch, device, warmup, repeats) for view, batch in timed]
    finally:
        encoder.train(training)


def _time(encoder: nn.Module, view: View, batch: int, device: torch.device, warmup: int, repeats: int) -> Latency:
    milliseconds = []
    for repeat in range(warmup + repeats):
        wait_for(device)
        start = time.perf_counter()
        encoder(view)
        wait_for(device)
        if repeat >= warmup:
            milliseconds.append(1e3 * (time.perf_counter() - start))
    median = statistics.median(milliseconds)
    quartiles = statistics.quantiles(milliseconds, n=4, method="inclusive") if repeats > 1 else (median, median, median)
    return Latency(
        batch=batch,
        median_ms=median,
        iqr_ms=quartiles[2] - quartiles[0],
        clips_per_s=1e3 * batch / median,
        threads=torch.get_num_threads(),
        device=device_name(device),
    )


def device_name(device: torch.device) -> str:
    """``cpu``, or the model name of the accelerator."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def wait_for(device: torch.device) -> None:
    """Until ``device`` has done what it was given; a CPU has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_memory(fn: Callable[[], object], device: torch.device | str) -> PeakMemory:
    """Run ``fn`` once and return the peak of the memory of tensors made in it.

    CUDA: the allocator's own statistics, exact. CPU: the storages of the tensors that operators return, counted while
    they live (what a kernel takes and gives back inside itself is not seen, nor what the process held before).
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
    """Count the bytes of tensors that operations make within: ``now``, and the maximum, ``peak``.

    >>> with LiveTensors() as live:
    ...     x = torch.ones(1000) + 1
    >>> live.now, live.peak
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
