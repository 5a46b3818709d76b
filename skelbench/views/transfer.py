"""Transfer of tensors between host and device, without either waiting for the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def waiting() -> Iterator[None]:
    """Let the host wait for the device within, where ``torch.cuda.set_sync_debug_mode`` forbids it."""
    mode = torch.cuda.get_sync_debug_mode() if torch.cuda.is_initialized() else 0
    if not mode:
        yield
        return
    torch.cuda.set_sync_debug_mode("default")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(mode)


def send(x: Tensor, device: torch.device | str) -> Tensor:
    """``x`` on ``device``, without making the host wait for the device's queue (pinned, then copied)."""
    if torch.device(device).type == "cuda" and x.device.type == "cpu":
        x = x.pin_memory()
    return x.to(device, non_blocking=True)


def read(values: Mapping[str, Tensor | float]) -> dict[str, float]:
    """Numbers on the host. Waits for the device, once for all of them."""
    away = {name: x.detach().double().reshape(()) for name, x in values.items() if isinstance(x, Tensor) and x.is_cuda}
    numbers = dict(zip(away, fetch(torch.stack(list(away.values()))).tolist())) if away else {}
    return {name: numbers[name] if name in numbers else float(x) for name, x in values.items()}


def fetch(x: Tensor) -> Tensor:
    """``x`` on the host. Waits for the device."""
    with waiting():
        return x.cpu()
