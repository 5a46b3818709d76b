"""All plugins: their names and their code.

Listing reads descriptors only (:mod:`skelbench.plugin.discovery`); code is imported by :meth:`Host.load`.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.spelling import VALUES, known
from skelbench.core.user_config import SETTINGS
from skelbench.plugin import discovery
from skelbench.plugin.descriptors import DatasetSpec, Descriptor, EncoderSpec, MethodSpec, ProtocolSpec
from skelbench.plugin.plugin_errors import Mistake
from skelbench.plugin.status import SINGULAR, Entry, PluginStatus, one_line

if TYPE_CHECKING:
    from skelbench.core.component import Spec

log = logging.getLogger(__name__)
Class = TypeVar("Class")


class Host:
    """All plugins of this process; ``extra_files``: single files named on the command line."""

    def __init__(self, extra_files: Iterable[str | os.PathLike[str]] = ()) -> None:
        self._discovery = discovery.Discovery()
        self.plugins, self.entries = self._discovery.plugins, self._discovery.entries
        self._noted = False
        _reading.append(self)
        try:
            self._discovery.read([Path(file).expanduser() for file in extra_files])
        finally:
            _reading.pop()

    @overload
    def get(self, kind: Literal["methods"], name: str) -> MethodSpec: ...
    @overload
    def get(self, kind: Literal["encoders"], name: str) -> EncoderSpec: ...
    @overload
    def get(self, kind: Literal["datasets"], name: str) -> DatasetSpec: ...
    @overload
    def get(self, kind: Literal["protocols"], name: str) -> ProtocolSpec: ...
    @overload
    def get(self, kind: str, name: str) -> Descriptor: ...

    def get(self, kind: str, name: str) -> Descriptor:
        """Return the descriptor called ``name``; SkelbenchError names the nearest or the cause."""
        if self not in _reading:
            self.check_requested()
            self._note_failures()
        for entry in self.entries:
            if (entry.kind, entry.name) == (kind, name):
                return entry.descriptor
        if name in VALUES:
            return self.get(kind, VALUES[name])
        for plugin in self.plugins:
            if plugin.might_have(name):
                raise SkelbenchError(
                    f"{SINGULAR[kind]} {name!r} is not available: plugin {plugin.name!r} ({plugin.source}) "
                    f"has a problem ({plugin.state}): {plugin.error}"
                )
        advice = f"See `skelbench plugins list {kind}`."
        raise SkelbenchError(did_you_mean(name, self.names(kind), SINGULAR[kind], advice=advice))

    def method(self, name: str) -> tuple[MethodSpec, str]:
        """Return the method that ``METHOD`` or ``METHOD:VARIANT`` names, and the variant ("" = none)."""
        method_name, _, variant = name.partition(":")
        method = self.get("methods", method_name)
        variant = known(variant, method.variants, VALUES)
        if variant and variant not in method.variants:
            nearest = did_you_mean(variant, list(method.variants), f"variant of {method_name}")
            raise SkelbenchError(f"{nearest} See `skelbench plugins info {method_name}`.")
        return method, variant

    def _entry(self, descriptor: Descriptor) -> Entry:
        return next(entry for entry in self.entries if entry.descriptor is descriptor)

    def spelling(self, title: str) -> str:
        """Return the name of a method in papers: ``SLiM:glcl-only`` for ``slim:glcl-only``. ``title`` itself if the
        method is unknown, has no spelling, or shares its spelling with another."""
        try:
            method, variant = self.method(title)
        except SkelbenchError:
            return title
        alike = [entry for entry in self.entries if getattr(entry.descriptor, "spelling", "") == method.spelling]
        if not method.spelling or len(alike) > 1:
            return title
        return f"{method.spelling}:{variant}" if variant else method.spelling

    def names(self, kind: str) -> list[str]:
        """Return all names of ``kind``, sorted."""
        return sorted(entry.name for entry in self.entries if entry.kind == kind)

    def all(self, kind: str) -> list[Descriptor]:
        """Return the descriptors of ``kind`` in the order of :meth:`names`."""
        return [self.get(kind, name) for name in self.names(kind)]

    def origin(self, descriptor: Descriptor) -> PluginStatus:
        """Return the plugin that announced ``descriptor``."""
        return self._entry(descriptor).plugin

    def identity(self, descriptor: Descriptor) -> str:
        """Return ``"2"``, its version; for a single file, whose code has no version, ``"1 <hash>"``."""
        return " ".join(filter(None, (str(descriptor.version), self.origin(descriptor).source_hash)))

    def load(self, descriptor: Descriptor, field: str = "target") -> Any:
        """Import the class or function that a ``field`` of ``descriptor`` names; SkelbenchError if that fails."""
        target = getattr(descriptor, field)
        module_name, _, attribute = target.partition(":")
        file = self._discovery.single.get(module_name)
        try:
            return attrgetter(attribute)(file.load() if file else importlib.import_module(module_name))
        except (Exception, SystemExit) as error:
            failed = f"cannot import {self.shown(target)!r} of plugin {self.origin(descriptor).name!r}"
            raise SkelbenchError(f"{failed}: {one_line(error)}") from error

    def find(self, kind: str, name: str) -> Any:
        """Import the entry called ``name``: the class of a component, the object of a topology."""
        return self.load(self.get(kind, name))

    def config(self, descriptor: Descriptor) -> type[Spec]:
        """Return the pydantic class of the settings of ``descriptor``, an empty one if it has none."""
        from skelbench.core.component import Spec  # pydantic

        field = descriptor.settings_from
        return self.subclass(descriptor, Spec, field) if getattr(descriptor, field, "") else Spec

    def subclass(self, descriptor: Descriptor, base: type[Class], field: str = "target") -> type[Class]:
        """Import the class that a ``field`` names; SkelbenchError if it is not a subclass of ``base``."""
        cls = self.load(descriptor, field)
        if isinstance(cls, type) and issubclass(cls, base):
            return cls
        name = "Config" if field == "config" else base.__name__
        raise Mistake(f"{self._about(descriptor, field)} is not a subclass of {name}; make it one")

    def checked(self, descriptor: Descriptor, value: Any, cls: type, what: str) -> Any:
        """Return ``value``, a result of ``descriptor``'s code; SkelbenchError if it is not a ``cls``."""
        if isinstance(value, cls):
            return value
        raise SkelbenchError(f"{self._about(descriptor)}: a {type(value).__name__} is not a {what}")

    def _about(self, descriptor: Descriptor, field: str = "target") -> str:
        return f"{SINGULAR[self._entry(descriptor).kind]} {descriptor.name!r}: {self.shown(getattr(descriptor, field))}"

    def shown(self, target: str) -> str:
        """Return ``target`` with the file name of a single file in place of its module name."""
        module, _, attribute = target.partition(":")
        file = self._discovery.single.get(module)
        return f"{file.path.name}:{attribute}" if file else target

    def check_requested(self) -> None:
        """Raise SkelbenchError if a file of the command line cannot be used."""
        for plugin in self.plugins:
            if plugin.requested and plugin.state != "ok":
                raise SkelbenchError(f"plugin {plugin.source} cannot be used ({plugin.state}): {plugin.error}")

    def _note_failures(self) -> None:
        """Log failures before the first use."""
        for plugin in () if self._noted else self.plugins:
            if plugin.state != "ok":
                log.warning("note: plugin %r (%s): %s", plugin.name, plugin.state, plugin.error)
        self._noted = True


_reading: list[Host] = []
"""Hosts that are reading plugins: a plugin that asks for another during its import gets the plugins read so far."""
_requested: tuple[str, ...] = ()
_hosts: dict[tuple[Any, ...], Host] = {}


def request_files(files: Iterable[str]) -> None:
    """Have every later :func:`get_host` load these single files as well (``--plugin FILE``)."""
    global _requested
    _requested = tuple(files)


def request_more(files: Iterable[str]) -> Host:
    """Return the host with ``files``, of a study or of settings, besides the requested files."""
    request_files(dict.fromkeys([*_requested, *files]))
    return get_host()


@contextmanager
def requesting(files: Iterable[str | os.PathLike[str]]) -> Iterator[Host]:
    """Have :func:`get_host` load single files as well until the block ends; yields the host."""
    before = _requested
    try:
        yield request_more(map(str, files))
    finally:
        request_files(before)


def requested_files() -> tuple[str, ...]:
    """Return the files of :func:`request_files`."""
    return _requested


def forget_hosts() -> None:
    """Have the next :func:`get_host` read every plugin again: in a notebook a file is edited while Python runs."""
    _hosts.clear()


def get_host() -> Host:
    """Return the host of this process, built on first use and kept for the same files and environment."""
    if _reading:
        return _reading[-1]
    variables = (os.environ.get(SETTINGS[key].variable) for key in ("entry_points", "plugins"))
    key = (_requested, discovery.PLACES, os.getcwd(), *variables)
    host = _hosts[key] = _hosts.get(key) or Host(_requested)
    return host
