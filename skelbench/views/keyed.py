"""Keyed randomness: every draw is a function of (seed, step, key, view, op, index), never of earlier draws.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), a counter-based
generator: draws do not change when a run is resumed, a batch is split over ranks, or work moves from CPU to GPU.

R rows (keys), n draws per row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skelbench.core.errors import SkelbenchError

WORD = 0xFFFFFFFF


def philox(counter: Sequence[Any], key: Sequence[Any], rounds: int = 10) -> tuple[Any, Any, Any, Any]:
    """Philox4x32: four counter words and two key words -> four words, all 32-bit values held in int64.

    Words are numpy or torch int64 arrays (broadcast against each other) or ints; the operators used are the same for
    both. The 64-bit products wrap around int64, which leaves the bits as they should be.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = ((p1 >> 32) & WORD) ^ c1 ^ k0, p1 & WORD, ((p0 >> 32) & WORD) ^ c3 ^ k1, p0 & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return c0, c1, c2, c3


class Keyed:
    """Draws for one step of one run. ``seed`` and ``step`` are non-negative, below 2**64 and 2**32.

    ``keys_R`` are int64 in [0, 2**32): one per row, for example clip id * bodies + body. ``view`` (an int, or int64
    [R] with one per row) and ``op`` separate draws for different purposes, both in [0, 2**16); view 0 is free for
    methods, the view builder numbers its views from 256. ``start`` skips that many draws of each row.
    Results are on the device of ``keys_R`` (numpy keys: CPU).
    """

    def __init__(self, seed: int, step: int) -> None:
        if not (0 <= seed < 1 << 64 and 0 <= step < 1 << 32):
            raise SkelbenchError(f"seed {seed} and step {step} must be non-negative and below 2**64 and 2**32")
        self.seed, self.step = seed, step

    def uniform(
        self, keys_R: Tensor | np.ndarray, n: int, *, view: int | Tensor = 0, op: int = 0, start: int = 0
    ) -> Tensor:
        """float32 [R, n], uniform in [0, 1) with 24 bits. The first k draws are the same for every n >= k."""
        return (self._words(keys_R, n, view, op, start) >> 8).to(torch.float32) * 2.0**-24

    def normal(self, keys_R: Tensor | np.ndarray, n: int, *, view: int | Tensor = 0, op: int = 0) -> Tensor:
        """float32 [R, n], standard normal (Box-Muller on pairs of uniform draws, in float64).

        Equal on CPU and CUDA except for the last bit, because their logarithms and cosines differ.
        """
        return box_muller(self.uniform(keys_R, n + n % 2, view=view, op=op))[:, :n]

    def _words(self, keys_R: Tensor | np.ndarray, n: int, view: int | Tensor, op: int, start: int) -> Tensor:
        """int64 [R, n]: 32-bit words ``start`` .. ``start + n - 1`` of every row."""
        keys_R = torch.as_tensor(keys_R, dtype=torch.int64)
        first, last = start // 4, (start + n + 3) // 4
        blocks = torch.arange(first, last, device=keys_R.device)[None, :]
        if not isinstance(view, Tensor):  # not copied to the device: a copy would wait for its queue
            view = torch.full((1,), view, device=keys_R.device)
        tag = (view.to(keys_R.device, torch.int64).reshape(-1, 1) << 16) | op
        words: tuple[Any, ...] = (blocks, keys_R[:, None], self.step, tag)
        if keys_R.device.type == "cpu":  # numpy: the same integers with a fraction of torch's cost per small operation
            if keys_R.numel() and not 0 <= int(keys_R.min()) <= int(keys_R.max()) <= WORD:
                raise ValueError("keys must be in [0, 2**32)")
            words = tuple(w.numpy() if isinstance(w, Tensor) else w for w in words)
            out = philox(words, (self.seed & WORD, self.seed >> 32))
            drawn = torch.from_numpy(np.stack(out, -1))
        else:
            drawn = torch.stack(torch.broadcast_tensors(*philox(words, (self.seed & WORD, self.seed >> 32))), -1)
        return drawn.flatten(1)[:, start - 4 * first : start - 4 * first + n]


def box_muller(u_Rn: Tensor) -> Tensor:
    """float32 [R, n], standard normal, from uniform draws in [0, 1), n even: each pair of draws makes two normals."""
    u_RN2 = u_Rn.double().unflatten(1, (-1, 2))
    radius = torch.sqrt(-2.0 * torch.log1p(-u_RN2[..., 0]))
    angle = 2.0 * math.pi * u_RN2[..., 1]
    pairs = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], -1)
    return pairs.flatten(1).to(torch.float32)


def pick(u: Tensor, n: int | Tensor) -> Tensor:
    """int64: one of 0..n-1 for each uniform draw; in float64, where u * n cannot round up to n."""
    return (u.double() * n).long()
