"""What a pass takes on this machine: milliseconds, clips per second, peak memory."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from skelbench.skeleton.view import View

STATM = Path("/proc/self/statm")


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
    device = next(encoder.parameters()).device
    training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode():
            return [_time(encoder, make_view(batch), batch, device, warmup, repeats) for batch in batch_sizes]
    finally:
        encoder.train(training)


def _time(encoder: nn.Module, view: View, batch: int, device: torch.device, warmup: int, repeats: int) -> Latency:
    milliseconds = []
    for repeat in range(warmup + repeats):
        _wait(device)
        start = time.perf_counter()
        encoder(view)
        _wait(device)
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


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_memory(fn: Callable[[], object], device: torch.device | str) -> PeakMemory:
    """Run ``fn`` once and return the peak of its extra memory.

    CUDA: the allocator's own statistics, exact. CPU: the process's resident set, sampled about every millisecond; pages
    that the allocator already held are not seen, so run it in a fresh process or on something large.
    """
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        fn()
        torch.cuda.synchronize(device)
        return PeakMemory(torch.cuda.max_memory_allocated(device) - before, "CUDA allocator")
    if not STATM.exists():
        before = _max_resident()
        fn()
        return PeakMemory(_max_resident() - before, "growth of the process's maximum resident set")
    return _sampled(fn)


def _sampled(fn: Callable[[], object], interval: float = 1e-3) -> PeakMemory:
    before = peak = _resident()
    done = threading.Event()

    def sample() -> None:
        nonlocal peak
        while not done.wait(interval):
            peak = max(peak, _resident())

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        kept = fn()
        peak = max(peak, _resident())  # before the result is let go
        del kept
    finally:
        done.set()
        sampler.join()
    return PeakMemory(max(0, peak - before), "sampled resident set")


def _resident() -> int:
    import resource

    return int(STATM.read_text().split()[1]) * resource.getpagesize()


def _max_resident() -> int:
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
