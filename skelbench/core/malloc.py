"""What the C library does with freed memory, where it can be told (glibc); elsewhere nothing happens."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
USUAL_BYTES = 32 << 20
"""Above which the C library asks the system anew for each allocation, unless told otherwise."""


def keep_freed_memory(most: int) -> None:
    """Keep what allocations of up to ``most`` bytes give back for the next ones.

    The pages of larger ones come from the system every time, cleared one by one as they are first written: five times
    the work of a GELU of a tensor above 32 MB.
    """
    with suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        if mallopt(_M_MMAP_THRESHOLD, most) or mallopt(_M_MMAP_THRESHOLD, USUAL_BYTES):  # older ones take no more
            mallopt(_M_TRIM_THRESHOLD, most)


def give_back_memory() -> None:
    """Return freed memory to the system.

    Tensors of ever other sizes leave gaps in the heap: without this a training of an hour grew from 3 to 6 GB.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
