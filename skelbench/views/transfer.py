"""Host tensors on their way to the device."""

from __future__ import annotations

import torch
from torch import Tensor


def send(host: Tensor, device: torch.device) -> Tensor:
    """``host`` on ``device``, without making the host wait for the device's queue (pinned, then copied)."""
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host
