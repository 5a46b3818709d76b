"""All plugins: their names, their code, their observers.

Listing reads descriptors only (:mod:`skelbench.plugin.discovery`); code is imported by :meth:`Host.load`.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.user_config import SETTINGS, said
from skelbench.plugin import builtins
from skelbench.plugin.descriptors import DatasetSpec, Descriptor, EncoderSpec, MethodSpec, ProtocolSpec
from skelbench.plugin.discovery import Discovery
from skelbench.plugin.plugin_errors import Mistake, where
from skelbench.plugin.status import SINGULAR, USABLE, Entry, PluginStatus, one_line

if TYPE_CHECKING:
    from skelbench.core.component import Spec

log = logging.getLogger(__name__)
Class = TypeVar("Class")


class Host:
    """All plugins of this process. ``extra_files``: single files named on the command line."""

    def __init__(self, extra_files: Iterable[str | os.PathLike[str]] = ()) -> None:
        self.strict = bool(said("strict"))
        self._discovery = Discovery(self.strict)
        self.plugins: list[PluginStatus] = self._discovery.plugins
        self.entries: list[Entry] = self._discovery.entries
        self.observer_failures: Counter[str] = Counter()
        self._noted = False
        _reading.append(self)
        try:
            self._discovery.read([Path(file).expanduser() for file in extra_files])
        finally:
            _reading.pop()

    # ------------------------------------------------------------------------------------------------ names
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
        """Return the descriptor called ``name`` (or ``plugin:name``); SkelbenchError names the nearest or the cause."""
        if self not in _reading:
            self.check_requested()
            self._note_failures()
        if not isinstance(name, str):
            raise SkelbenchError(f"{SINGULAR[kind]} {name!r} is not a name; `skelbench plugins list` shows all")
        namesakes = self._discovery.named(kind, name)
        usable = [entry for entry in namesakes if not entry.clash or ":" in name]
        if len(usable) == 1:
            return usable[0].descriptor
        if namesakes:
            raise SkelbenchError(namesakes[0].clash)
        for plugin in self.plugins:
            if plugin.might_have(name):
                raise SkelbenchError(
                    f"{SINGULAR[kind]} {name!r} is not available: plugin {plugin.name!r} ({plugin.source}) "
                    f"has a problem ({plugin.state}): {plugin.error}"
                )
        raise SkelbenchError(did_you_mean(name, self.names(kind), SINGULAR[kind]))

    def method(self, name: str) -> tuple[MethodSpec, str]:
        """Return the method that ``METHOD`` or ``METHOD:VARIANT`` names, and the variant ("" = none).

        A name of a method as a whole has no variant; the last part of ``plugin:method:variant`` is one.
        """
        if not isinstance(name, str) or ":" not in name or self._discovery.named("methods", name):
            return self.get("methods", name), ""
        method_name, _, variant = name.rpartition(":")
        if variant in self.names("methods") and not self._discovery.named("methods", method_name):
            return self.get("methods", name), ""  # raises: the plugin is misspelt
        method = self.get("methods", method_name)
        if variant not in method.variants:
            if not method.variants:
                raise SkelbenchError(f"method {method_name} has no variants; leave out ':{variant}'")
            nearest = did_you_mean(variant, list(method.variants), f"variant of {method_name}")
            raise SkelbenchError(f"{nearest} See `skelbench plugins info {method_name}`.")
        return method, variant

    def _entry(self, descriptor: Descriptor) -> Entry:
        return next(entry for entry in self.entries if entry.descriptor is descriptor)

    def name(self, descriptor: Descriptor) -> str:
        """Return the name that :meth:`get` knows ``descriptor`` by: with its plugin if it clashes."""
        return self._entry(descriptor).shown

    def spelling(self, title: str) -> str:
        """Return the name of a method in papers: ``SLiM:glcl-only`` for ``slim:glcl-only``. ``title`` itself if the
        method is unknown, has no spelling, or shares its spelling with another."""
        try:
            method, variant = self.method(title)
        except SkelbenchError:
            return title
        if not method.spelling or self._spellings[method.spelling] > 1:
            return title
        return f"{method.spelling}:{variant}" if variant else method.spelling

    @cached_property
    def _spellings(self) -> Counter[str]:
        return Counter(getattr(entry.descriptor, "spelling", "") for entry in self.entries)

    def names(self, kind: str) -> list[str]:
        """Return every name :meth:`get` accepts for ``kind``, sorted; names that clash appear as ``plugin:name``."""
        return sorted(entry.shown for entry in self.entries if entry.kind == kind)

    def all(self, kind: str) -> list[Descriptor]:
        """Return the usable descriptors of ``kind`` in the order of :meth:`names`."""
        return [self.get(kind, name) for name in self.names(kind)]

    def origin(self, descriptor: Descriptor) -> PluginStatus:
        """Return the plugin that announced ``descriptor``."""
        return self._entry(descriptor).plugin

    def identity(self, descriptor: Descriptor) -> str:
        """Return ``"2"``, its version; for a single file, whose code has no version, ``"1 <sha256>"``."""
        return " ".join(filter(None, (str(descriptor.version), self.origin(descriptor).source_hash)))

    def setting_names(self, descriptor: Descriptor) -> tuple[str, ...]:
        """Return names of the settings that :meth:`config` has; nothing is imported."""
        return self._entry(descriptor).settings

    # ------------------------------------------------------------------------------------------------ code
    def load(self, descriptor: Descriptor, field: str = "target") -> Any:
        """Import the class or function that ``descriptor.target`` (or another such ``field``, ``"config"``) names.

        Raises:
            SkelbenchError: the import fails; names plugin and cause.
        """
        target = getattr(descriptor, field)
        module_name, _, attribute = target.partition(":")
        file = self._discovery.single.get(module_name)
        failed = f"cannot import {self.shown(target)!r} of plugin {self.origin(descriptor).name!r}"
        try:
            value = file.load() if file else importlib.import_module(module_name)
        except (Exception, SystemExit) as error:
            if self.strict:
                raise
            raise SkelbenchError(f"{failed}: {one_line(error)}") from error
        for part in attribute.split("."):
            if not hasattr(value, part):
                hint = did_you_mean(part, [name for name in vars(value) if not name.startswith("_")], "name")
                raise SkelbenchError(f"{failed}: {hint}")
            value = getattr(value, part)
        return value

    def find(self, kind: str, name: str) -> Any:
        """Import the thing called ``name``: the class of a component, the object of a topology."""
        return self.load(self.get(kind, name))

    def of_class(self, component: Any) -> Descriptor:
        """Return the descriptor of a component's class; SkelbenchError if no plugin announces it."""
        namesakes = [entry.descriptor for entry in self._discovery.named(component.family, component.kind)]
        for descriptor in namesakes:
            if len(namesakes) == 1 or self.load(descriptor) is component:
                return descriptor
        return self.get(component.family, component.kind)

    def config(self, descriptor: Descriptor) -> type[Spec]:
        """Return the pydantic class of the settings of ``descriptor``, an empty one if it has none.

        A component and a protocol are their own. SkelbenchError if the class is no :class:`Spec`.
        """
        from skelbench.core.component import Spec  # pydantic

        field = descriptor.settings_from
        return self.subclass(descriptor, Spec, field) if getattr(descriptor, field, "") else Spec

    def subclass(self, descriptor: Descriptor, base: type[Class], field: str = "target") -> type[Class]:
        """Import the class that a ``field`` names; SkelbenchError if it is no subclass of ``base``."""
        cls = self.load(descriptor, field)
        if isinstance(cls, type) and issubclass(cls, base):
            return cls
        kind = SINGULAR[self._entry(descriptor).kind]
        name = "Config" if field == "config" else base.__name__
        shown = where(cls) or self.shown(getattr(descriptor, field))
        raise Mistake(f"{kind} {descriptor.name!r}: {shown} is no subclass of {name}; make it one")

    def checked(self, descriptor: Descriptor, value: Any, cls: type, what: str) -> Any:
        """Return ``value``, which ``descriptor``'s code gave; SkelbenchError if it is no ``cls``."""
        if isinstance(value, cls):
            return value
        entry, target = self._entry(descriptor), self.load(descriptor)
        place, did = where(target) or self.shown(descriptor.target), "returned" if callable(target) else "is"
        raise SkelbenchError(
            f"{SINGULAR[entry.kind]} {descriptor.name!r} of plugin {entry.plugin.name!r}: {place}: {did} a "
            f"{type(value).__name__}, not a {what}"
        )

    def shown(self, target: str) -> str:
        """Return ``target`` with the file name of a single file in place of its module name."""
        module, _, attribute = target.partition(":")
        file = self._discovery.single.get(module)
        return f"{file.path.name}:{attribute}" if file else target

    # ------------------------------------------------------------------------------------------------ observers
    def notify(self, hook_name: str, **values: Any) -> None:
        """Call every observer of ``hook_name``; one that raises is logged once, counted, and changes nothing."""
        for status, file, hooks in self._discovery.observers:
            if hook_name in hooks:
                try:
                    hook = getattr(file.load(), hook_name)
                    hook(**{name: values[name] for name in inspect.signature(hook).parameters})
                except (Exception, SystemExit) as error:
                    if self.strict:
                        raise
                    self.observer_failures[status.name] += 1
                    if self.observer_failures[status.name] == 1:
                        message = "%s of plugin %r failed, the run goes on: %s"
                        log.warning(message, hook_name, status.name, one_line(error))
                        log.debug("traceback of the failed observer", exc_info=error)

    def check_requested(self) -> None:
        """Raise SkelbenchError if a file of the command line cannot be used."""
        for plugin in self.plugins:
            if plugin.requested and plugin.state not in USABLE:
                raise SkelbenchError(f"plugin {plugin.source} cannot be used ({plugin.state}): {plugin.error}")

    def _note_failures(self) -> None:
        """Before the first use, log what failed."""
        for plugin in () if self._noted else self.plugins:
            if plugin.state != "ok":
                log.warning("note: plugin %r (%s): %s", plugin.name, plugin.state, plugin.error)
        self._noted = True


_reading: list[Host] = []
"""Hosts whose plugins are being read: a plugin that asks for another while it is imported gets what was read so far."""
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
def requesting(files: Iterable[str | os.PathLike[str]]) -> Iterator[None]:
    """Have :func:`get_host` load single files as well until the block ends."""
    before = _requested
    request_files(dict.fromkeys([*before, *map(str, files)]))
    try:
        yield
    finally:
        request_files(before)


def requested_files() -> tuple[str, ...]:
    """Return the files of :func:`request_files`."""
    return _requested


def forget_hosts() -> None:
    """Have the next :func:`get_host` read every plugin again: in a notebook a file is edited while Python runs."""
    _hosts.clear()


def get_host(extra_files: Iterable[str] = ()) -> Host:
    """Return the host of this process, built on first use and kept for the same files and environment."""
    if _reading:
        return _reading[-1]
    files = (*_requested, *map(str, extra_files))
    variables = (os.environ.get(SETTINGS[key].variable) for key in ("entry_points", "plugins", "strict"))
    key = (files, builtins.PLACES, os.getcwd(), *variables)
    if key not in _hosts:
        _hosts[key] = Host(files)
    return _hosts[key]
