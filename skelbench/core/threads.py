"""The cores that this process may use, and how many threads are worth it.

OpenMP's threads meet after every operation and spin while they wait. Where another process has one of the cores they
wait for it to be scheduled again, thousands of times a second: two threads were up to a hundred times slower than one.
"""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skelbench.core.user_config import SETTINGS, found, said

TINY = 1 << 24
"""Multiplications of a product that one thread has done before others are awake (measured: benchmarks/threads.py)."""
GAIN = 0.9
"""Fewer threads are chosen if they take less than this share of the time: bits depend on their number, and on idle
cores it should come out the same every time."""
PATIENCE_SECONDS = 2.0


def usable_cores(root: Path = Path("/")) -> int:
    """Cores that this process may use: those it is bound to, and no more than its container may use the time of."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(bound, _quota(root))))


def free_cores() -> int:
    """Usable cores that other processes leave idle, by the load of the last minute; at least one."""
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max(1, min(usable_cores(), (os.cpu_count() or 1) - round(busy)))


def threads_are_named() -> bool:
    """Whether the user says how many: OMP_NUM_THREADS, or ``skelbench.toml``."""
    return said("threads") is not None


def limit_threads(most: int | None = None) -> None:
    """No more of torch's threads than usable cores, or than ``most``, unless the user names a number; torch knows of no
    container's limit, under which the surplus threads only take the time of the others."""
    import torch

    named, source = found("threads")
    most = min(most or torch.get_num_threads(), usable_cores())
    if named is None and most < torch.get_num_threads():
        torch.set_num_threads(most)
    elif named is not None and source != SETTINGS["threads"].variable:  # which torch has read itself
        torch.set_num_threads(named)


@contextmanager
def one_thread(multiplications: int) -> Iterator[None]:
    """Operations of so many ``multiplications`` on one thread, if that is too little to share."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1 if multiplications < TINY else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fastest_threads(work: Callable[[], Any]) -> int:
    """The number of torch's threads, up to what is set, with which ``work`` is done soonest; sets it."""
    import torch

    number = best = torch.get_num_threads()
    least = math.inf
    work()  # what a first time costs is no matter of threads
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


def _quota(root: Path) -> float:
    """How many cores' time the control groups of this process, of version 1 or 2, grant; infinite without a limit."""
    cores = math.inf
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controllers and "cpu")
        # Within a container the path may be the host's, of which only the top is seen.
        for group in (Path(path.lstrip("/")), *Path(path.lstrip("/")).parents):
            folder = top / group
            words = _text(folder / "cpu.max") or " ".join(
                _text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")
            )
            match words.split():
                case [quota, period] if quota.isdigit() and period.isdigit():  # max, -1: no limit
                    cores = min(cores, int(quota) / int(period))
    return cores


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@contextmanager
def uncollected() -> Iterator[None]:
    """Of many new objects that stay, none is looked for among those that went: a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
