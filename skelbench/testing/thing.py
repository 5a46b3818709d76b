"""Something that a plugin announces, found by its name, its file or its descriptor, with what is checked of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.plugin.descriptors import KINDS, Descriptor
from skelbench.plugin.files import PluginFile
from skelbench.plugin.host import Host, forget_hosts, get_host, requesting
from skelbench.plugin.status import SINGULAR, Entry, PluginStatus
from skelbench.testing.check import Check, CheckResult, run_checks
from skelbench.testing.kinds import KITS, kit

STICK7 = str(Path(__file__).with_name("stick7.py"))
"""A plugin file with a skeleton that nobody has."""

What = str | os.PathLike[str] | Descriptor
"""A name (of a thing, or of a plugin), a plugin file (``*.py``), or a descriptor that need not be announced."""


@dataclass(eq=False)
class Thing:
    """One announced thing. Its subject is built on first use and shared by all of its checks."""

    kind: str
    name: str
    """As :meth:`skelbench.plugin.host.Host.get` knows it."""
    files: tuple[str, ...] = ()
    """Plugin files that must be loaded for it."""
    spec: Descriptor | None = None
    """Its descriptor, if no plugin announces it."""

    @property
    def title(self) -> str:
        """``method simclr``."""
        return f"{SINGULAR[self.kind]} {self.name}"

    def _loaded(self) -> AbstractContextManager[None]:
        return requesting([*self.files, STICK7])

    @cached_property
    def _made(self) -> tuple[Host, Descriptor, Any, Sequence[Check[Any]]]:
        host, found = get_host(), self.spec
        if found is None:
            found = host.get(self.kind, self.name)
        else:
            host = Host([*self.files, STICK7])
            # It may be announced as well, as in the tests of an installed package: what was given is what is checked.
            for entry in [each for each in host.entries if (each.kind, each.name) == (self.kind, found.name)]:
                host.remove(entry)
            host.add(Entry(self.kind, found.name, found, PluginStatus(found.name)))
        return host, found, *(kit(self.kind, host, found) if self.kind in KITS else (None, ()))

    @property
    def checks(self) -> Sequence[Check[Any]]:
        """What is checked of it; nothing, of a kind that has no checks."""
        with self._loaded():
            return self._made[3]

    @property
    def excuses(self) -> Mapping[str, str]:
        """Checks that its descriptor says it may fail, each with the reason."""
        with self._loaded():
            return self._made[1].expected_failures

    def results(
        self, expected_failures: Mapping[str, str] | None = None, *, only: Collection[str] = (), thorough: bool = False
    ) -> Iterator[CheckResult]:
        """Run its checks; see :func:`skelbench.testing.check.run_checks`."""
        with self._loaded():
            host, descriptor, subject, checks = self._made
            excuses = {**descriptor.expected_failures, **(expected_failures or {})}
            home = _home(host, descriptor)
            yield from run_checks(checks, subject, excuses, only=only, thorough=thorough, home=home)


def _home(host: Host, descriptor: Descriptor) -> tuple[str, ...]:
    """Where the code of ``descriptor`` lies: its file, or the folder of its package; nothing if it has none."""
    if not descriptor.target:
        return ()
    try:
        host.load(descriptor)
    except SkelbenchError:  # its checks say so
        return ()
    file = getattr(sys.modules[descriptor.target.partition(":")[0]], "__file__", None) or ""
    return (os.path.realpath(file.removesuffix("__init__.py")) + os.sep * file.endswith("__init__.py"),) if file else ()


def find(what: What, kind: str | None = None) -> list[Thing]:
    """Everything of ``kind`` (None = of every kind) that ``what`` is.

    Raises:
        SkelbenchError: a file that cannot be used as a plugin, or announces none of ``kind``; a name that nothing has.
    """
    if isinstance(what, Descriptor):
        kinds = [each for each, cls in KINDS.items() if isinstance(what, cls)] if kind is None else [kind]
        return [Thing(kinds[0], what.name, spec=what)]
    if not isinstance(what, str) or what.endswith(".py"):
        return _in_file(Path(what).expanduser(), kind)
    host = get_host()
    entries = [entry for entry in host.entries if kind in (None, entry.kind)]
    found = [entry for entry in entries if what in entry.names or entry.plugin.name == what]
    if found:
        return [Thing(entry.kind, _known(entry)) for entry in found]
    if kind is not None:
        host.get(kind, what)  # says what is wrong with it, or what was meant
    for plugin in host.plugins:
        if plugin.name == what:
            raise SkelbenchError(f"plugin {what!r} ({plugin.source}) announces nothing: {plugin.error}")
    raise SkelbenchError(did_you_mean(what, sorted({entry.name for entry in entries}), "name"))


def _in_file(path: Path, kind: str | None) -> list[Thing]:
    if not path.is_file():
        raise SkelbenchError(f"there is no file {path}; check the path")
    with requesting([path]):
        sha256 = PluginFile(path).sha256  # it may be there by another path as well, or as a copy
        if not any(plugin.source_hash == sha256 for plugin in get_host().plugins):
            forget_hosts()  # it was edited since it was read
        host = get_host()
        plugin = next(plugin for plugin in host.plugins if plugin.source_hash == sha256)
        if plugin.state not in ("ok", "conflict"):
            raise SkelbenchError(f"plugin {path} cannot be used ({plugin.state}): {plugin.error}")
        entries = [entry for entry in host.entries if entry.plugin is plugin and kind in (None, entry.kind)]
    if not entries:
        raise SkelbenchError(f"{path} announces no {SINGULAR[kind or 'methods']}; `skelbench plugins info` shows what")
    return [Thing(entry.kind, _known(entry), (str(path),)) for entry in entries]


def _known(entry: Entry) -> str:
    return entry.names[1] if entry.clash else entry.name
