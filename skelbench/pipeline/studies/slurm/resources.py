"""Time and memory as SLURM takes them: read from what was typed, or asked for by an estimate (torch-free)."""

from __future__ import annotations

import re

from skelbench.core.errors import SkelbenchError

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
TIMES = tuple(hours * 3600 for hours in (0.5, 1, 2, 4, 8, 12, 24))
"""What is asked for by an estimate: few different ones make few arrays."""
TIME_FACTOR, TIME_MORE = 2.0, 900.0
"""Twice the estimated training, and a quarter of an hour for the start, probes, controls and cost. A trial that takes
longer goes on in another sitting."""
DEFAULT_MEMORY = "16G"
"""Memory of a trial without --mem."""
ASSUMED_FLOPS = 1e13
"""FLOP/s of a GPU that cannot be timed from here: a tenth or less of what one of a data centre has."""


def seconds_of(text: str) -> int:
    """``4h``, ``1d12h``, ``90m``, or as SLURM writes it: ``4:00:00``, ``1-12:00:00``.

    >>> seconds_of("1h30m"), seconds_of("1-00:30:00")
    (5400, 88200)
    """
    if found := re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", text):
        days, hours, minutes, rest = (int(part or 0) for part in found.groups())
        seconds = ((days * 24 + hours) * 60 + minutes) * 60 + rest
    elif re.fullmatch(r"(\d+[dhms])+", text):
        seconds = sum(int(count) * _UNITS[unit] for count, unit in re.findall(r"(\d+)([dhms])", text))
    else:
        seconds = 0
    if seconds < 60:
        raise SkelbenchError(f"--time {text!r} is no time of a minute or more; write 4h, 90m, 1d12h or 04:00:00")
    return seconds


def slurm_time(seconds: float) -> str:
    """As SLURM writes it.

    >>> slurm_time(90060)
    '1-01:01:00'
    """
    minutes = max(1, round(seconds / 60))
    days, minutes = divmod(minutes, 1440)
    return (f"{days}-" if days else "") + f"{minutes // 60:02}:{minutes % 60:02}:00"


def lead(seconds: int) -> int:
    """How long before a limit of ``seconds`` the warning comes."""
    return min(120, seconds // 4)


def check_memory(text: str) -> str:
    """``text``, if it is an amount of memory as SLURM takes it."""
    if not re.fullmatch(r"[1-9]\d*[KMGT]", text):
        raise SkelbenchError(f"--mem {text!r} is no amount of memory; write 16G or 800M")
    return text


def time_for(seconds: float | None, most: int | None) -> int:
    """Seconds to ask for by an estimate of training; ``most``: the limit of the partition, if it has one."""
    need = TIMES[-1] if seconds is None else TIME_FACTOR * seconds + TIME_MORE
    asked = next((time for time in TIMES if time >= need), TIMES[-1])
    return int(min(asked, most or asked))
