"""Answers for all plugins: their names, their code, their observers.

Listing reads descriptors only (:mod:`skelbench.plugin.discovery`); code is imported by :meth:`Host.load`.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import pluggy

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.user_config import SETTINGS, said
from skelbench.plugin import builtins
from skelbench.plugin.descriptors import DatasetSpec, Descriptor, EncoderSpec, MethodSpec, ProtocolSpec
from skelbench.plugin.discovery import Discovery
from skelbench.plugin.hookspecs import OBSERVERS, PROJECT, SURFACE
from skelbench.plugin.plugin_errors import Mistake, where
from skelbench.plugin.status import SINGULAR, USABLE, Entry, PluginStatus, one_line

if TYPE_CHECKING:
    from skelbench.core.component import Spec

log = logging.getLogger(__name__)
Class = TypeVar("Class")


class Host:
    """All plugins of this process.

    Args:
        extra_files: single files named on the command line.
        strict: raise problems of plugins instead of recording them; None = as ``SKELBENCH_STRICT`` says.
    """

    def __init__(self, extra_files: Iterable[str | os.PathLike[str]] = (), strict: bool | None = None) -> None:
        self.strict = bool(said("strict")) if strict is None else strict
        self._discovery = Discovery(self.strict)
        self.plugins: list[PluginStatus] = self._discovery.plugins
        self.entries: list[Entry] = self._discovery.entries
        self.add, self.remove = self._discovery.add, self._discovery.remove
        self.observer_failures: Counter[str] = Counter()
        self._noted = False
        self._observers = pluggy.PluginManager(PROJECT)
        self._observers.add_hookspecs(SURFACE)
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
        """The descriptor called ``name`` (or ``plugin:name``); SkelbenchError names the nearest or the culprit."""
        if self not in _reading:
            self.check_requested()
            self._note_failures()
        if not isinstance(name, str):
            raise SkelbenchError(f"{SINGULAR[kind]} {name!r} is not a name; `skelbench plugins list` shows all")
        namesakes = self._discovery.by_name.get((kind, name), [])
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
        """The method that ``METHOD`` or ``METHOD:VARIANT`` names, and the variant ("" = none).

        What names a method as a whole is no variant: in ``plugin:method:variant`` the last part is one.
        """
        if not isinstance(name, str):
            return self.get("methods", name), ""
        method_name, colon, variant = name.rpartition(":")
        misspelt_plugin = variant in self.names("methods") and not self._known("methods", method_name)
        if not colon or self._known("methods", name) or misspelt_plugin:
            return self.get("methods", name), ""
        method = self.get("methods", method_name)
        if variant not in method.variants:
            if not method.variants:
                raise SkelbenchError(f"method {method_name} has no variants; leave out ':{variant}'")
            nearest = did_you_mean(variant, list(method.variants), f"variant of {method_name}")
            raise SkelbenchError(f"{nearest} See `skelbench plugins info {method_name}`.")
        return method, variant

    def _known(self, kind: str, name: str) -> bool:
        return bool(self._discovery.by_name.get((kind, name)))

    def _entry(self, descriptor: Descriptor) -> Entry:
        return next(entry for entry in self.entries if entry.descriptor is descriptor)

    def name(self, descriptor: Descriptor) -> str:
        """The name that :meth:`get` knows ``descriptor`` by: with its plugin where it clashes."""
        return self._entry(descriptor).shown

    def spelling(self, title: str) -> str:
        """How papers write the method ``title``: ``SLiM:glcl-only`` for ``slim:glcl-only``. ``title`` itself if the
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
        """Every name :meth:`get` accepts for ``kind``, sorted; names that clash appear as ``plugin:name``."""
        return sorted(entry.shown for entry in self.entries if entry.kind == kind)

    def all(self, kind: str) -> list[Descriptor]:
        """Usable descriptors of ``kind`` in the order of :meth:`names`."""
        return [self.get(kind, name) for name in self.names(kind)]

    def origin(self, descriptor: Descriptor) -> PluginStatus:
        """The plugin that announced ``descriptor``."""
        return self._entry(descriptor).plugin

    def identity(self, descriptor: Descriptor) -> str:
        """``"2"``, its version; for a single file, whose code has no version, ``"1 <sha256>"``."""
        return " ".join(filter(None, (str(descriptor.version), self.origin(descriptor).source_hash)))

    def setting_names(self, descriptor: Descriptor) -> tuple[str, ...]:
        """Names of the settings that :meth:`config` has; nothing is imported."""
        return self._entry(descriptor).settings

    # ------------------------------------------------------------------------------------------------ code
    def load(self, descriptor: Descriptor, field: str = "target") -> Any:
        """Import the class or function that ``descriptor.target`` (or another such ``field``, ``"config"``) names.

        Raises:
            SkelbenchError: the import fails; names plugin and cause.
        """
        target, plugin = getattr(descriptor, field), self.origin(descriptor)
        module_name, _, attribute = target.partition(":")
        file = self._discovery.single.get(module_name)
        failed = f"cannot import {self.shown(target)!r} of plugin {plugin.name!r}"
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
        """The thing called ``name``, imported: the class of a component, the object of a topology."""
        return self.load(self.get(kind, name))

    def of_class(self, component: Any) -> Descriptor:
        """The descriptor of a component's class; if two clash, the descriptor of this very class.

        Raises:
            SkelbenchError: no plugin announces the class.
        """
        family, kind = component.family, component.kind
        namesakes = [entry.descriptor for entry in self._discovery.by_name.get((family, kind), [])]
        for descriptor in namesakes:
            if len(namesakes) == 1 or self.load(descriptor) is component:
                return descriptor
        return self.get(family, kind)

    def config(self, descriptor: Descriptor) -> type[Spec]:
        """The pydantic class of the settings of ``descriptor``, an empty one when it has none.

        A component and a protocol are their own. SkelbenchError if the class is no :class:`Spec`.
        """
        from skelbench.core.component import Spec  # pydantic

        field = descriptor.settings_from
        return self.subclass(descriptor, Spec, field) if getattr(descriptor, field, "") else Spec

    def subclass(self, descriptor: Descriptor, base: type[Class], field: str = "target") -> type[Class]:
        """The class that ``descriptor.target`` (or another ``field``) names; SkelbenchError if it is no subclass of
        ``base``."""
        cls = self.load(descriptor, field)
        if isinstance(cls, type) and issubclass(cls, base):
            return cls
        kind = SINGULAR[self._entry(descriptor).kind]
        name = "Config" if field == "config" else base.__name__
        shown = where(cls) or self.shown(getattr(descriptor, field))
        raise Mistake(f"{kind} {descriptor.name!r}: {shown} is no subclass of {name}; make it one")

    def checked(self, descriptor: Descriptor, value: Any, cls: type, what: str) -> Any:
        """``value``, which ``descriptor``'s code gave; SkelbenchError names plugin and target if it is no ``cls``."""
        if isinstance(value, cls):
            return value
        entry, target = self._entry(descriptor), self.load(descriptor)
        place, did = where(target) or self.shown(descriptor.target), "returned" if callable(target) else "is"
        raise SkelbenchError(
            f"{SINGULAR[entry.kind]} {descriptor.name!r} of plugin {entry.plugin.name!r}: {place}: {did} a "
            f"{type(value).__name__}, not a {what}"
        )

    def shown(self, target: str) -> str:
        """``target`` as readers know it: a single file by its name."""
        module, _, attribute = target.partition(":")
        file = self._discovery.single.get(module)
        return f"{file.path.name}:{attribute}" if file else target

    def import_all(self, plugin: PluginStatus) -> Iterator[tuple[str, BaseException]]:
        """Import everything that ``plugin`` announces; for each failure its title and the error."""
        calls: list[tuple[str, Callable[[], Any]]] = []
        for entry in (entry for entry in self.entries if entry.plugin is plugin):
            about = entry.descriptor
            for place in (place for place in about.places if getattr(about, place)):
                name = getattr(about, place).partition(":")[2]
                calls.append((f"{SINGULAR[entry.kind]} {entry.name}, {place} {name}", partial(self.load, about, place)))
        calls += [(", ".join(hooks), code.load) for each, code, hooks in self._discovery.observers if each is plugin]
        for title, call in calls:
            try:
                call()
            except (Exception, SystemExit) as error:
                yield title, error

    # ------------------------------------------------------------------------------------------------ observers
    def notify(self, hook_name: str, **values: Any) -> None:
        """Call every observer of ``hook_name``; one that raises is logged once, counted, and changes nothing."""
        if hook_name not in OBSERVERS:
            raise ValueError(f"{hook_name} is not an observer hook; observers: {', '.join(OBSERVERS)}")
        for status, code, hooks in self._discovery.observers:
            if hook_name in hooks:
                try:
                    if not self._observers.has_plugin(status.name):
                        self._observers.register(code.load(), status.name)
                    for each in getattr(self._observers.hook, hook_name).get_hookimpls():
                        if each.plugin_name == status.name:
                            each.function(**{name: values[name] for name in each.argnames})
                except (Exception, SystemExit) as error:
                    if self.strict:
                        raise
                    self._count_failure(hook_name, status, error)

    def _count_failure(self, hook_name: str, status: PluginStatus, error: BaseException) -> None:
        self.observer_failures[status.name] += 1
        if self.observer_failures[status.name] == 1:
            log.warning("%s of plugin %r failed, the run goes on: %s", hook_name, status.name, one_line(error))
            log.debug("traceback of the failed observer", exc_info=error)

    def check_requested(self) -> None:
        """SkelbenchError if a file that was asked for by name cannot be used."""
        for plugin in self.plugins:
            if plugin.requested and plugin.state not in USABLE:
                raise SkelbenchError(f"plugin {plugin.source} cannot be used ({plugin.state}): {plugin.error}")

    def _note_failures(self) -> None:
        """Before anything is used: mention, once, what failed."""
        if not self._noted:
            self._noted = True
            for plugin in self.plugins:
                if plugin.state != "ok":
                    log.warning("note: plugin %r (%s): %s", plugin.name, plugin.state, plugin.error)


_reading: list[Host] = []
"""Hosts whose plugins are being read: a plugin that asks for another while it is imported gets what was read so far."""
_requested: tuple[str, ...] = ()
_hosts: dict[tuple[Any, ...], Host] = {}


def request_files(files: Iterable[str]) -> None:
    """Single files that every later :func:`get_host` loads as well (``--plugin FILE``)."""
    global _requested
    _requested = tuple(files)


@contextmanager
def requesting(files: Iterable[str | os.PathLike[str]]) -> Iterator[None]:
    """Single files that :func:`get_host` loads as well until the block ends."""
    before = _requested
    request_files(dict.fromkeys((*before, *map(str, files))))
    try:
        yield
    finally:
        request_files(before)


def request_more(files: Iterable[str]) -> Host:
    """The host with ``files``, of a study or of settings, besides those requested already."""
    request_files(dict.fromkeys([*_requested, *files]))
    return get_host()


def requested_files() -> tuple[str, ...]:
    """The files of :func:`request_files`."""
    return _requested


def forget_hosts() -> None:
    """Have the next :func:`get_host` read every plugin anew: in a notebook a file is edited while Python goes on."""
    _hosts.clear()


def get_host(extra_files: Iterable[str] = ()) -> Host:
    """The host of this process, built on first use and kept for the same files and environment."""
    if _reading:
        return _reading[-1]
    files = tuple(str(file) for file in (*_requested, *extra_files))
    variables = (os.environ.get(SETTINGS[key].variable) for key in ("entry_points", "plugins", "strict"))
    key = (files, builtins.PLACES, os.getcwd(), *variables)
    if key not in _hosts:
        _hosts[key] = Host(files)
    return _hosts[key]
