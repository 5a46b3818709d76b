"""What a plugin says of itself before any of its code is needed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.testing.check import Check, Failed


class Subject(Protocol):
    """What every subject has."""

    @property
    def host(self) -> Host:
        """Of all plugins."""

    @property
    def descriptor(self) -> Any:
        """Of the one that is checked."""


def announcement(**wanted: str) -> Check[Any]:
    """The check that ``descriptor`` has these fields, each with the reason why, and that listing imports no torch."""

    def run(subject: Subject) -> None:
        check_announcement(subject.host, subject.descriptor, wanted)

    return Check("announcement", "it says what it is, and is listed without torch", run)


def check_announcement(host: Host, descriptor: Descriptor, wanted: Mapping[str, str]) -> None:
    """``wanted``: fields that must not be empty -> why."""
    plugin = host.origin(descriptor)
    for name, why in wanted.items():
        if not getattr(descriptor, name).strip():
            look = f"the {type(descriptor).__name__} of {descriptor.name} in {plugin.source}"
            raise Failed(f"a {name}, {why}", f"{name} is empty", look)
    for name, said in _importers(plugin.source if plugin.source_hash else "").items():
        if name == plugin.name:
            lines = re.findall(r'File "([^<].*?)", line (\d+)', said)
            ours = [f"{file}, line {line}" for file, line in lines if "importlib" not in file]
            raise Failed(
                "listing plugins imports no torch, which takes seconds",
                "torch is imported to read what the file announces: a hook uses something that imports it",
                ours[-2 if ours and ours[-1].startswith("<") else -1] if ours else plugin.source,
            )


LISTING = """
import json, sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ImportError("torch is imported in a listing")

sys.meta_path.insert(0, NoTorch())
from skelbench.plugin.host import Host

told = {p.name: p.traceback for p in Host(sys.argv[1:]).plugins if "torch is imported in a listing" in p.traceback}
print(json.dumps(told))
"""


@lru_cache
def _importers(file: str) -> dict[str, str]:
    """Plugins that import torch while they are listed, each with the traceback; with the single file ``file``."""
    environment = {name: value for name, value in os.environ.items() if name != "SKELBENCH_STRICT"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", LISTING, *filter(None, [file])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise Failed("plugins can be listed", done.stderr.strip().rpartition("\n")[2], file)
    return json.loads(done.stdout)
