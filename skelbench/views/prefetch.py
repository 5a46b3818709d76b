"""Views of the next step, built while the current step runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import cuda

from skelbench.views.view import View

Views = dict[str, View]
Batch = TypeVar("Batch", Views, Views | list[Views])
"""Views of a step, or a list with the views of each of its micro-batches."""


def prefetched(make: Callable[[int], Batch], steps: Iterable[int], device: torch.device) -> Iterator[tuple[int, Batch]]:
    """(step, ``make(step)``) of ``steps`` in order.

    On a GPU a thread makes the views of the next step, on its own stream: work on the stream of training would only
    begin when the step is done. The step's stream waits for the views on the device, never the host.
    """
    if device.type != "cuda":
        for step in steps:
            yield step, make(step)
        return
    stream = cuda.Stream(device)
    stream.wait_stream(cuda.current_stream(device))  # it may still be copying the clips to the device

    def build(step: int) -> tuple[int, Batch, Any]:
        with cuda.stream(stream):  # each thread has its own current stream and device
            return step, make(step), stream.record_event()

    with ThreadPoolExecutor(1, thread_name_prefix="views") as pool:
        ahead = None
        for step in steps:
            behind, ahead = ahead, pool.submit(build, step)
            if behind is not None:
                yield _handed_over(*behind.result(), cuda.current_stream(device))
        if ahead is not None:
            yield _handed_over(*ahead.result(), cuda.current_stream(device))


def _handed_over(step: int, batch: Batch, event: Any, current: Any) -> tuple[int, Batch]:
    """The views, for use on the stream ``current``."""
    current.wait_event(event)
    for views in [batch] if isinstance(batch, dict) else batch:
        for view in views.values():
            view.record_stream(current)
    return step, batch
