"""Parts of a forward pass that must not run in reduced precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def no_autocast(like: Tensor) -> AbstractContextManager:
    """Context without autocast on the device of ``like``; no effect on devices without autocast (meta)."""
    kind = like.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def has_bf16(device: torch.device | str) -> bool:
    """Whether ``device`` computes in bfloat16 natively: GPUs from Ampere on do, older ones emulate it slowly. True for
    a device that this machine does not have."""
    device = torch.device(device)
    if device.type != "cuda" or not torch.cuda.is_available():
        return True
    with torch.cuda.device(device):  # PyTorch checks the current device
        return torch.cuda.is_bf16_supported(including_emulation=False)


def rounds_products(like: Tensor) -> bool:
    """Whether matrix products of ``like`` are rounded to bfloat16 for tensor cores: on a GPU within autocast."""
    on = like.is_cuda and torch.is_autocast_enabled("cuda")
    return on and torch.get_autocast_dtype("cuda") == torch.bfloat16
