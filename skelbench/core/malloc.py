"""Settings of the C library's malloc during training on a CPU (glibc only)."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
USUAL_BYTES = 32 << 20
"""Larger allocations come from the system each time, unless malloc settings change that."""
KEPT_BYTES = 1 << 30
"""Allocations up to this size stay with the process during training."""
TRIM_SECONDS = 10.0


def _call(function: str, *arguments: int) -> int:
    """Call a function of the C library; 0 where there is none."""
    with suppress(AttributeError, OSError, TypeError):
        return int(getattr(ctypes.CDLL(None), function)(*arguments))
    return 0


def keep_freed_memory(most: int) -> None:
    """Keep freed allocations of up to ``most`` bytes for the next ones.

    Pages of larger allocations are cleared by the system one by one: five times the work of a GELU above 32 MB.
    """
    if _call("mallopt", _M_MMAP_THRESHOLD, most) or _call("mallopt", _M_MMAP_THRESHOLD, USUAL_BYTES):
        _call("mallopt", _M_TRIM_THRESHOLD, most)  # older libraries take no more than the usual threshold


def give_back_memory() -> None:
    """Return freed memory to the system. Without it, an hour of training grew from 3 to 6 GB."""
    _call("malloc_trim", 0)


class FreedMemory:
    """Keep freed memory during training on a CPU (``active``), and trim it regularly."""

    def __init__(self, active: bool) -> None:
        self.active, self._last_trim = active, time.monotonic()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep freed memory within; return all of it to the system afterwards."""
        if not self.active:
            yield
            return
        keep_freed_memory(KEPT_BYTES)
        try:
            yield
        finally:
            keep_freed_memory(USUAL_BYTES)
            give_back_memory()

    def trim_if_due(self) -> None:
        """Return freed memory to the system every ``TRIM_SECONDS``."""
        if self.active and time.monotonic() - self._last_trim > TRIM_SECONDS:
            give_back_memory()
            self._last_trim = time.monotonic()
