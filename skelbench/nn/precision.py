"""Parts of a forward pass that must not run in reduced precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def no_autocast(like: Tensor) -> AbstractContextManager:
    """Autocast off on the device of ``like``; nothing on devices that have none (meta)."""
    kind = like.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
