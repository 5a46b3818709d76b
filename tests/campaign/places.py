"""Places that campaigns work in, processes that they watch, and whether two results directories say the same."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TIMES = {"created", "finished", "seconds", "train_seconds", "clips_per_s"}
PLACES = {"environment", "command", "path", "directory"}
MEASURED = {"latency", "peak_memory", "device", "hardware"}
VARIES = TIMES | PLACES | MEASURED
"""Fields that differ between two runs of one command: when, where, how long. Everything else has to be equal."""
BOOKKEEPING = ("*.lock", ".*.lock", "*.log")
"""Files that hold no result."""


# ---------------------------------------------------------------------------------------------------- mounts
def private_mounts() -> bool:
    """Mounts that this process makes from now on are its own and its children's, and go with them; False where that is
    not allowed."""
    new_namespace, recursive, private = 0x20000, 0x4000, 1 << 18
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.unshare(new_namespace) == 0 and libc.mount(b"none", b"/", None, recursive | private, None) == 0


def mount_small(path: Path, kib: int) -> None:
    """An empty file system of ``kib`` at ``path``, in memory."""
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "none", path], check=True)


def remount(path: Path, *options: str) -> None:
    """Change a mount: ``ro``, ``rw``, ``size=64k``."""
    subprocess.run(["mount", "-o", ",".join(("remount", *options)), path], check=True, capture_output=True)


def unmount(path: Path) -> None:
    subprocess.run(["umount", "-l", path], check=True)


# ---------------------------------------------------------------------------------------------------- processes
def end_in_order() -> None:
    """SIGTERM ends a campaign as Ctrl-C does: what it has started and made is taken away."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def resident_kib(pid: int) -> int:
    """Resident memory of a process; 0 once it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)


def descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def processes_naming(word: str) -> list[int]:
    """Processes, zombies apart, whose command line or environment holds ``word``, this one left out."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            held = b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue
        if word.encode() in held:
            found.append(int(pid))
    return found


# ---------------------------------------------------------------------------------------------------- comparing
def differences(one: Path, other: Path, ignored: tuple[str, ...] = BOOKKEEPING) -> list[str]:
    """Where two directories do not say the same: files that one lacks, and contents apart from :data:`VARIES`."""
    names = [{str(path.relative_to(root)) for path in _files(root, ignored)} for root in (one, other)]
    found = [
        f"only in {root}: {name}"
        for root, own in zip((one, other), (names[0] - names[1], names[1] - names[0]))
        for name in sorted(own)
    ]
    return found + [
        f"{name} differs{why}"
        for name in sorted(names[0] & names[1])
        if (why := _difference(one / name, other / name)) is not None
    ]


def _files(root: Path, ignored: tuple[str, ...]) -> Iterator[Path]:
    for path in root.rglob("*"):
        if path.is_file() and not any(path.match(pattern) for pattern in ignored):
            yield path


def _difference(one: Path, other: Path) -> str | None:
    """What differs, as far as it has a place; None where nothing does."""
    if one.read_bytes() == other.read_bytes():
        return None
    try:
        return _difference_inside(one, other)
    except Exception as error:  # whatever the readers of damaged files raise
        return f": one cannot be read ({type(error).__name__})"


def _difference_inside(one: Path, other: Path) -> str | None:
    if one.suffix == ".json":
        return _keys(json.loads(one.read_text()), json.loads(other.read_text()))
    if one.suffix == ".jsonl":
        lines = [[json.loads(line) for line in path.read_text().splitlines()] for path in (one, other)]
        return _keys(*lines)
    if one.suffix == ".npz":
        with np.load(one) as a, np.load(other) as b:
            return None if a.files == b.files and all(np.array_equal(a[name], b[name]) for name in a.files) else ""
    if one.suffix == ".pt":
        import torch

        return _keys(*(torch.load(path, weights_only=False) for path in (one, other)), ".state", {"metrics_bytes"})
    return ""


def _keys(a: Any, b: Any, where: str = "", more: set[str] = frozenset()) -> str | None:  # type: ignore[assignment]
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a.keys() | b.keys():
            if key in VARIES or key in more:
                continue
            if key not in a or key not in b:
                return f" at {where}.{key}"
            if found := _keys(a[key], b[key], f"{where}.{key}", more):
                return found
        return None
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return next(filter(None, (_keys(x, y, f"{where}[{i}]", more) for i, (x, y) in enumerate(zip(a, b)))), None)
    if hasattr(a, "dtype") and hasattr(b, "dtype"):
        return None if a.shape == b.shape and bool((a == b).all()) else f" at {where}"
    return None if a == b or (a != a and b != b) else f" at {where}: {str(a)[:60]} and {str(b)[:60]}"
