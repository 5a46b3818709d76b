"""Weights of a reconstruction loss that prefer moving joints and moments (AMR's focal loss).

Shapes: R rows (bodies), T frames, J joints, C = 3, W windows of n frames (the last one may be shorter).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


def window_energy(x_RTJC: Tensor, window: int) -> Tensor:
    """[R, J, W]: mean squared distance of a joint's positions to their mean, window by window; squared meters."""
    frames = x_RTJC.shape[1]
    x_RJCT = x_RTJC.permute(0, 2, 3, 1).float()
    mean_RJCT = _spread(_window_means(x_RJCT, window), window, frames)
    return _window_means((x_RJCT - mean_RJCT).square().sum(2), window)


def energy_weights(
    x_RTJC: Tensor,
    windows: Sequence[int],
    k: float = 1.0,
    fuse: Literal["mean", "max", "product"] = "mean",
    mean_over: Literal["body", "joint"] = "body",
    eps: float = 1e-6,
) -> Tensor:
    """float32 [R, T, J] in (0, 1]: 1 / (1 + k m / (e + eps)) of the window of the frame, averaged over ``windows``.

    e is the window's energy and m the mean energy over the windows of the whole body, or of the joint alone. A body
    that never moves has weight 1 everywhere.
    """
    frames = x_RTJC.shape[1]
    energies = []
    for window in windows:
        energy_RJW = window_energy(x_RTJC, window)
        mean = energy_RJW.mean((1, 2) if mean_over == "body" else 2, keepdim=True)
        energies.append(_spread(1 / (1 + k * mean / (energy_RJW + eps)), window, frames))
    fused = {
        "mean": lambda: reduce(torch.add, energies) / len(energies),
        "max": lambda: reduce(torch.maximum, energies),
        "product": lambda: reduce(torch.mul, energies),
    }
    return fused[fuse]().transpose(1, 2)


def _window_means(x: Tensor, window: int) -> Tensor:
    """Average windows: [..., T] -> [..., W]; a shorter last window is averaged over its own frames."""
    flat = x.reshape(-1, 1, x.shape[-1])
    return F.avg_pool1d(flat, window, ceil_mode=True).view(*x.shape[:-1], -1)


def _spread(x: Tensor, window: int, frames: int) -> Tensor:
    """Expand windows: [..., W] -> [..., T]; every frame has the value of its window."""
    return x.repeat_interleave(window, -1)[..., :frames]
