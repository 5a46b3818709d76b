"""One announced part of a plugin, found by name, file or descriptor, with its checks (torch-free)."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.hashing import hash_of_python
from skelbench.plugin.descriptors import KINDS, ComponentSpec, Descriptor, TargetSpec, TopologySpec
from skelbench.plugin.files import named_file
from skelbench.plugin.host import Host, get_host, requesting
from skelbench.plugin.status import SINGULAR
from skelbench.testing.check import Check, CheckResult, run_checks

STICK7 = str(Path(__file__).with_name("stick7.py"))
"""Plugin file with a skeleton of seven joints."""
COMPONENTS = [kind for kind, cls in KINDS.items() if cls in (ComponentSpec, TargetSpec, TopologySpec)]
"""Kinds that share one generic check."""
KITS: Mapping[str, str] = {
    "methods": "skelbench.testing.method",
    "encoders": "skelbench.testing.encoder",
    "datasets": "skelbench.testing.dataset",
    "protocols": "skelbench.testing.protocol",
    **dict.fromkeys(COMPONENTS, "skelbench.testing.component"),
}
"""Kind -> module with a function ``kit``."""

What = str | os.PathLike[str]
"""A name (of a part, or of a plugin), or a plugin file (``*.py``)."""


def kit(kind: str, host: Host, descriptor: Descriptor) -> tuple[Any, Sequence[Check[Any]]]:
    """Return the subject of the checks of ``descriptor``, and the checks; none for a kind without checks.

    It is cheap: the subject builds what the checks share when the first check needs it.
    """
    return importlib.import_module(KITS[kind]).kit(kind, host, descriptor) if kind in KITS else (None, ())


@dataclass(eq=False)
class Thing:
    """One announced part. The subject of its checks is built on first use and shared by all of them."""

    kind: str
    name: str
    """Name for :meth:`skelbench.plugin.host.Host.get`."""
    files: tuple[str, ...] = ()
    """Plugin files that must be loaded."""

    @property
    def title(self) -> str:
        """``method simclr``."""
        return f"{SINGULAR[self.kind]} {self.name}"

    @cached_property
    def _made(self) -> tuple[Descriptor, Any, Sequence[Check[Any]]]:
        with requesting([*self.files, STICK7]) as host:
            descriptor = host.get(self.kind, self.name)
            return descriptor, *kit(self.kind, host, descriptor)

    @property
    def checks(self) -> Sequence[Check[Any]]:
        """Checks of its kind; empty for a kind without checks."""
        return self._made[2]

    @property
    def excuses(self) -> Mapping[str, str]:
        """Expected failures of the descriptor: check -> reason."""
        return self._made[0].expected_failures

    def results(self, *, only: Collection[str] = ()) -> Iterator[CheckResult]:
        """Run its checks; see :func:`skelbench.testing.check.run_checks`."""
        descriptor, subject, checks = self._made
        with requesting([*self.files, STICK7]):
            yield from run_checks(checks, subject, descriptor.expected_failures, only=only)


def find(what: What, kind: str | None = None) -> list[Thing]:
    """Return everything of ``kind`` (None = of any kind) that ``what`` names.

    Raises:
        SkelbenchError: a file that is not a usable plugin or announces none of ``kind``; an unknown name.
    """
    if not isinstance(what, str) or what.endswith(".py"):
        return _in_file(Path(what).expanduser(), kind)
    host = get_host()
    entries = [entry for entry in host.entries if kind in (None, entry.kind)]
    if named := [entry for entry in entries if what in (entry.name, entry.plugin.name)]:
        return [Thing(entry.kind, entry.name) for entry in named]
    if kind is not None:
        host.get(kind, what)  # raises with the nearest name
    for plugin in host.plugins:
        if plugin.name == what:
            raise SkelbenchError(f"plugin {what!r} ({plugin.source}) announces nothing: {plugin.error}")
    raise SkelbenchError(did_you_mean(what, sorted({entry.name for entry in entries}), "name"))


def _in_file(path: Path, kind: str | None) -> list[Thing]:
    named_file(str(path), f"plugin {path}")
    code = hash_of_python(path.read_bytes())  # the same file may have been loaded from another path
    with requesting([path]) as host:
        plugin = next(plugin for plugin in host.plugins if plugin.source_hash == code)
        if plugin.state != "ok":
            raise SkelbenchError(f"plugin {path} cannot be used ({plugin.state}): {plugin.error}")
        entries = [entry for entry in host.entries if entry.plugin is plugin and kind in (None, entry.kind)]
    if not entries:
        raise SkelbenchError(f"{path} announces no {SINGULAR[kind or 'methods']}; `skelbench plugins info` shows what")
    return [Thing(entry.kind, entry.name, (str(path),)) for entry in entries]
