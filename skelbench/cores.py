"""The cores that this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path


def usable_cores(root: Path = Path("/")) -> int:
    """Cores that this process may use: those it is bound to, and no more than its container may use the time of."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(bound, _quota(root))))


def free_cores() -> int:
    """Usable cores that other processes leave idle, by the load of the last minute; at least one."""
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max(1, min(usable_cores(), (os.cpu_count() or 1) - round(busy)))


def limit_threads() -> None:
    """No more of torch's threads than usable cores, unless OMP_NUM_THREADS says how many; torch knows of no container's
    limit, under which the surplus threads only take the time of the others."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ and (cores := usable_cores()) < torch.get_num_threads():
        torch.set_num_threads(cores)


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
