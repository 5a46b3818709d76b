"""One announced part of a plugin, found by name, file or descriptor, with its checks (torch-free)."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.plugin.descriptors import KINDS, ComponentSpec, Descriptor, TargetSpec, TopologySpec
from skelbench.plugin.host import Host, forget_hosts, get_host, requesting
from skelbench.plugin.status import SINGULAR, USABLE, Entry, PluginStatus
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

What = str | os.PathLike[str] | Descriptor
"""A name (of a part, or of a plugin), a plugin file (``*.py``), or a descriptor, which need not be announced."""


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
    spec: Descriptor | None = None
    """Descriptor that no plugin announces, if any."""

    @property
    def title(self) -> str:
        """``method simclr``."""
        return f"{SINGULAR[self.kind]} {self.name}"

    @cached_property
    def _made(self) -> tuple[Descriptor, Any, Sequence[Check[Any]]]:
        with requesting([*self.files, STICK7]):
            host, descriptor = get_host(), self.spec
            if descriptor is None:
                descriptor = host.get(self.kind, self.name)
            else:  # it may be announced too: the given descriptor is checked
                host = Host([*self.files, STICK7])
                host.entries[:] = [each for each in host.entries if (each.kind, each.name) != (self.kind, self.name)]
                host.entries.append(Entry(self.kind, self.name, descriptor, PluginStatus(self.name)))
            return descriptor, *kit(self.kind, host, descriptor)

    @property
    def checks(self) -> Sequence[Check[Any]]:
        """Checks of its kind; empty for a kind without checks."""
        return self._made[2]

    @property
    def excuses(self) -> Mapping[str, str]:
        """Expected failures of the descriptor: check -> reason."""
        return self._made[0].expected_failures

    def results(
        self, expected_failures: Mapping[str, str] | None = None, *, only: Collection[str] = ()
    ) -> Iterator[CheckResult]:
        """Run its checks; see :func:`skelbench.testing.check.run_checks`."""
        _, subject, checks = self._made
        with requesting([*self.files, STICK7]):
            yield from run_checks(checks, subject, {**self.excuses, **(expected_failures or {})}, only=only)


def find(what: What, kind: str | None = None) -> list[Thing]:
    """Return everything of ``kind`` (None = of any kind) that ``what`` names.

    Raises:
        SkelbenchError: a file that is no usable plugin or announces none of ``kind``; an unknown name.
    """
    if isinstance(what, Descriptor):
        kinds = [each for each, cls in KINDS.items() if isinstance(what, cls)]
        return [Thing(kind or kinds[0], what.name, spec=what)]
    if not isinstance(what, str) or what.endswith(".py"):
        return _in_file(Path(what).expanduser(), kind)
    host = get_host()
    entries = [entry for entry in host.entries if kind in (None, entry.kind)]
    if named := [entry for entry in entries if what in entry.names or entry.plugin.name == what]:
        return [Thing(entry.kind, entry.shown) for entry in named]
    if kind is not None:
        host.get(kind, what)  # raises with the nearest name
    for plugin in host.plugins:
        if plugin.name == what:
            raise SkelbenchError(f"plugin {what!r} ({plugin.source}) announces nothing: {plugin.error}")
    raise SkelbenchError(did_you_mean(what, sorted({entry.name for entry in entries}), "name"))


def _in_file(path: Path, kind: str | None) -> list[Thing]:
    if not path.is_file():
        raise SkelbenchError(f"there is no file {path}; check the path")
    with requesting([path]):
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()  # the file may also be found by another path
        if not any(plugin.source_hash == sha256 for plugin in get_host().plugins):
            forget_hosts()  # it was edited since it was read
        host = get_host()
        plugin = next(plugin for plugin in host.plugins if plugin.source_hash == sha256)
        if plugin.state not in USABLE:
            raise SkelbenchError(f"plugin {path} cannot be used ({plugin.state}): {plugin.error}")
        entries = [entry for entry in host.entries if entry.plugin is plugin and kind in (None, entry.kind)]
    if not entries:
        raise SkelbenchError(f"{path} announces no {SINGULAR[kind or 'methods']}; `skelbench plugins info` shows what")
    return [Thing(entry.kind, entry.shown, (str(path),)) for entry in entries]
