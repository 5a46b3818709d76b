"""Environment of a run: recorded next to the result and not part of an id."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

from skelbench.core.version import __version__, installed

PLACES = frozenset({"--results", "--data-root"})
"""Options with folders of this machine."""
_PACKAGES = ("torch", "timm", "numpy", "fvcore", "pydantic")


def environment(device: str) -> dict[str, Any]:
    """Versions, processor, accelerator, threads and the command line."""
    import torch

    from skelbench.core.distributed import world

    facts: dict[str, Any] = {
        "skelbench": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: installed(name) or "absent" for name in _PACKAGES},
        "hardware": hardware(device),
        "device": device,
        "threads": torch.get_num_threads(),
        "command": command(),
    }
    if world() > 1:
        facts["processes"] = world()
    if device.startswith("cuda"):
        facts["cuda"] = torch.version.cuda
        facts["gpus"] = torch.cuda.device_count()
        facts["deterministic"] = torch.are_deterministic_algorithms_enabled()
    return facts


def command() -> str:
    """The command of this process as the user typed it: ``skelbench run slim``, or ``python -m mine --fast``.

    The options :data:`PLACES` are left out, because other machines have results and data in other folders.
    """
    program = Path(sys.argv[0])
    if program.name == "skelbench" or program.parts[-2:] == ("skelbench", "__main__.py"):
        arguments, words = ["skelbench"], iter(sys.argv[1:])
        for word in words:
            name, equals, _ = word.partition("=")
            if name not in PLACES:
                arguments.append(word)
            elif not equals:
                next(words, None)  # its value
        return shlex.join(arguments)
    return shlex.join(["python", *sys.orig_argv[1:]])


def hardware(device: str) -> str:
    """Short label of the hardware; tables mark rows with different labels."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(torch.device(device))
    return f"{_processor()} x{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return " ".join(line.split(":", 1)[1].split()).replace("(R)", "").replace("(TM)", "")
    except OSError:
        pass
    return platform.processor() or platform.machine()
