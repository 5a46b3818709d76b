"""Schedules as functions of the fraction of training done (``step.fraction``). Torch-free."""

from __future__ import annotations

import math


def cosine(start: float, end: float, fraction: float) -> float:
    """From ``start`` at 0 to ``end`` at 1 along half a cosine; constant outside.

    >>> cosine(0.996, 1.0, 0.5)
    0.998
    """
    fraction = min(1.0, max(0.0, fraction))
    return end + (start - end) * (1.0 + math.cos(math.pi * fraction)) / 2.0


def linear_ramp(start: float, end: float, fraction: float) -> float:
    """From ``start`` at 0 straight to ``end`` at 1; constant outside. Give ``fraction / warmup`` for a warm-up.

    >>> linear_ramp(0.04, 0.08, fraction=0.1 / 0.2)
    0.06
    """
    return start + (end - start) * min(1.0, max(0.0, fraction))
