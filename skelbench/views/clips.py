"""A ragged batch of clips, the input of the view builder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class ClipBatch:
    """B clips, ragged in frames and bodies.

    Frame t, axis c, stored body m of clip b is ``frames_FJ[offset[b] + (m * 3 + c) * length[b] + t]``, and the
    confidence of its joints ``confidence_FJ[offset[b] // 3 + m * length[b] + t]``. Both are on the device (the whole
    store when it is resident, the batch's own rows otherwise); the other fields are host arrays, so nothing waits for
    the device.
    """

    ids: np.ndarray
    """int64 [B]: clip ids in the store; random draws are keyed by them."""
    frames_FJ: Tensor
    """float32 [F, J]."""
    offset: np.ndarray
    """int64 [B]."""
    length: np.ndarray
    """int64 [B], frames."""
    bodies: np.ndarray
    """int64 [B], bodies present (1 or more)."""
    max_bodies: int
    """M of the dataset."""
    stored: np.ndarray | None = None
    """Stored bodies, int64 [B]; slots from there up to ``bodies`` show the last body again. None = ``bodies``."""
    confidence_FJ: Tensor | None = None
    """float32 [F / 3, J] in [0, 1]; None when the dataset has no confidence."""
    missing_BJ: Tensor | None = None
    """bool [B, J] on the host: joints that are declared missing, in all frames and bodies of a clip; None = no clip
    can have any."""
