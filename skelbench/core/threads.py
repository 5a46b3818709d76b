"""Number of usable cores, and the number of threads that is fastest.

OpenMP's threads meet after every operation and spin while they wait. If another process uses one of the cores, they
wait until it is scheduled again: two threads were up to a hundred times slower than one.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skelbench.core.user_config import SETTINGS, found, said

TINY = 1 << 24
"""Multiplications of a product that one thread finishes before others are awake (measured: benchmarks/threads.py)."""
GAIN = 0.9
"""Fewer threads are chosen if they take less than this fraction of the time: bits depend on the number of threads, and
on idle cores the choice should be the same every time."""
PATIENCE_SECONDS = 2.0


def usable_cores(root: Path = Path("/")) -> int:
    """Cores of the CPU affinity of this process, limited by the CPU quota of its container (cgroup v2)."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(bound, _quota(root))))


def _quota(root: Path) -> float:
    """CPU time per second that the control groups of this process allow; infinite without a limit."""
    cores = math.inf
    group = Path(_text(root / "proc/self/cgroup").partition("0::/")[2].strip())
    for parent in (group, *group.parents):  # in a container, folders below the top may not exist
        match _text(root / "sys/fs/cgroup" / parent / "cpu.max").split():
            case [quota, period] if quota.isdigit():  # max: no limit
                cores = min(cores, int(quota) / int(period))
    return cores


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def threads_are_named() -> bool:
    """Whether the user sets the number of threads by OMP_NUM_THREADS or ``skelbench.toml``."""
    return said("threads") is not None


def limit_threads(most: int | None = None) -> None:
    """Limit torch's threads to the usable cores and to ``most``, or set the number that the user names.

    PyTorch does not know the limit of a container, and surplus threads slow the others down.
    """
    import torch

    named, source = found("threads")
    most = min(most or torch.get_num_threads(), usable_cores())
    if named is None and most < torch.get_num_threads():
        torch.set_num_threads(most)
    elif named is not None and source != SETTINGS["threads"].variable:  # torch reads the variable itself
        torch.set_num_threads(named)


@contextmanager
def one_thread(multiplications: int) -> Iterator[None]:
    """Use one thread in this block if an operation of ``multiplications`` is too small for several threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1 if multiplications < TINY else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fastest_threads(work: Callable[[], Any]) -> int:
    """Set and return the number of torch's threads, up to the current number, with which ``work`` is fastest."""
    import torch

    number = best = torch.get_num_threads()
    least = math.inf
    work()  # the first time includes other costs
    while number:
        torch.set_num_threads(number)
        seconds = _seconds(work)
        if seconds < PATIENCE_SECONDS:
            seconds = min(seconds, _seconds(work))
        if seconds < GAIN * least:
            best, least = number, seconds
        elif seconds > least / GAIN:  # still fewer are slower still
            break
        number //= 2
    torch.set_num_threads(best)
    return best


def _seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
