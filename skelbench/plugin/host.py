"""Answers for all plugins: what is there by which name, its code, its observers.

Listing runs announcements only (:mod:`skelbench.plugin.discovery`); code is imported by :meth:`Host.load`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import pluggy

from skelbench.core.component import Component, Spec
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.threads import uncollected
from skelbench.core.user_config import said
from skelbench.plugin import builtins, deprecated
from skelbench.plugin.descriptors import ComponentSpec, DatasetSpec, Descriptor, EncoderSpec, MethodSpec, ProtocolSpec
from skelbench.plugin.discovery import Discovery
from skelbench.plugin.fields import field_names
from skelbench.plugin.files import PluginFile, module_spec
from skelbench.plugin.hookspecs import OBSERVERS
from skelbench.plugin.plugin_errors import Mistake, where
from skelbench.plugin.status import SINGULAR, USABLE, Entry, PluginStatus, Refusal, one_line, strict, unavailable
from skelbench.plugin.undisturbed import limit_s, undisturbed

log = logging.getLogger(__name__)
Class = TypeVar("Class")


class Host:
    """All plugins of this process. ``extra_files``: single files asked for on the command line."""

    def __init__(self, extra_files: Iterable[str | os.PathLike[str]] = ()) -> None:
        self._discovery = Discovery([Path(file).expanduser() for file in extra_files])
        self.plugins: list[PluginStatus] = self._discovery.plugins
        self.entries: list[Entry] = self._discovery.entries
        self.refusals: list[Refusal] = self._discovery.refusals
        self.observer_failures: Counter[str] = Counter()
        self._noted = False
        self._warned: set[str] = set()

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
        self.check_requested()
        self._note_failures()
        if not isinstance(name, str):
            raise SkelbenchError(f"{SINGULAR[kind]} {name!r} is not a name; `skelbench plugins list` shows all")
        namesakes = [entry for entry in self.entries if entry.kind == kind and name in entry.names]
        usable = [entry for entry in namesakes if not entry.clash or ":" in name]
        if len(usable) == 1:
            return usable[0].descriptor
        reasons = [entry.clash for entry in namesakes] + [
            refusal.sentence for refusal in self.refusals if refusal.kind == kind and name in refusal.names
        ]
        if reasons:
            raise SkelbenchError(reasons[0])
        failed = [plugin for plugin in self.plugins if plugin.state not in USABLE]
        culprit = next((plugin for plugin in failed if plugin.name == name.partition(":")[0]), None)
        if culprit is not None:
            raise SkelbenchError(unavailable(kind, name, culprit))
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

    def name(self, descriptor: Descriptor) -> str:
        """The name that :meth:`get` knows ``descriptor`` by: with its plugin where it clashes."""
        entry = next(entry for entry in self.entries if entry.descriptor is descriptor)
        return entry.names[1] if entry.clash else entry.name

    def spelling(self, title: str) -> str:
        """How papers write what ``title`` names: ``SLiM:glcl-only`` for ``slim:glcl-only``. As it is of a method that
        is not here, that does not say, or that writes itself as another does."""
        try:
            method, variant = self.method(title)
        except SkelbenchError:
            return title
        spellings = [getattr(entry.descriptor, "spelling", "") for entry in self.entries]
        if not method.spelling or spellings.count(method.spelling) > 1:
            return title
        return f"{method.spelling}:{variant}" if variant else method.spelling

    def names(self, kind: str) -> list[str]:
        """Every name :meth:`get` accepts for ``kind``, sorted; names that clash appear as ``plugin:name``."""
        return sorted(entry.names[1] if entry.clash else entry.name for entry in self.entries if entry.kind == kind)

    def _known(self, kind: str, name: str) -> bool:
        known: list[Entry | Refusal] = [*self.entries, *self.refusals]
        return any(each.kind == kind and name in each.names for each in known)

    def all(self, kind: str) -> list[Descriptor]:
        """Usable descriptors of ``kind`` in the order of :meth:`names`."""
        return [self.get(kind, name) for name in self.names(kind)]

    def origin(self, descriptor: Descriptor) -> PluginStatus:
        """The plugin that announced ``descriptor``."""
        return next(entry.plugin for entry in self.entries if entry.descriptor is descriptor)

    def load(self, descriptor: Descriptor, field: str = "target") -> Any:
        """Import what ``descriptor.target`` (or another such ``field``, ``"config"``) names."""
        plugin = self.origin(descriptor)
        loaded = self.load_target(getattr(descriptor, field), plugin)
        if isinstance(loaded, type) and (renamed := deprecated.adapt(loaded)):
            plugin.renamed += renamed
            self._warn_of_old_names(plugin)
        return loaded

    def find(self, kind: str, name: str) -> Any:
        """What ``name`` stands for, imported: the class of a component, the object of a topology."""
        return self.load(self.get(kind, name))

    def of_class(self, component: type[Component]) -> Descriptor:
        """The descriptor of a component's class: of two that clash the one that is meant. SkelbenchError if no plugin
        announces the class."""
        family, kind = component.family, component.kind
        namesakes = [entry.descriptor for entry in self.entries if entry.kind == family and entry.name == kind]
        for descriptor in namesakes:
            if len(namesakes) == 1 or self.load(descriptor) is component:
                return descriptor
        return self.get(family, kind)

    def identity(self, descriptor: Descriptor) -> str:
        """``"2"``, its version; for a single file, whose code has none, ``"1 <sha256>"``."""
        return " ".join(filter(None, (str(descriptor.version), self.origin(descriptor).source_hash)))

    def config(self, descriptor: Descriptor) -> type[Spec]:
        """The pydantic class of the settings of a method, an encoder, a protocol; an empty one when it has none. A
        component and a protocol are their own. SkelbenchError if it is none."""
        field = "target" if isinstance(descriptor, ComponentSpec | ProtocolSpec) else "config"
        return self.subclass(descriptor, Spec, field) if getattr(descriptor, field, "") else Spec

    def subclass(self, descriptor: Descriptor, base: type[Class], field: str = "target") -> type[Class]:
        """The class that ``descriptor.target`` (or another ``field``) names; SkelbenchError if it is no subclass of
        ``base``."""
        cls = self.load(descriptor, field)
        if isinstance(cls, type) and issubclass(cls, base):
            return cls
        kind = next(entry.kind for entry in self.entries if entry.descriptor is descriptor)
        name = "Config" if base is Spec else base.__name__
        shown = where(cls) or self.shown(getattr(descriptor, field))
        raise Mistake(f"{SINGULAR[kind]} {descriptor.name!r}: {shown} is no subclass of {name}; make it one")

    def setting_names(self, descriptor: Descriptor) -> list[str]:
        """Names of the settings that :meth:`config` has, read from its text: nothing is imported."""
        place = "target" if isinstance(descriptor, ComponentSpec | ProtocolSpec) else "config"
        module, _, name = getattr(descriptor, place, "").partition(":")
        if not module:
            return []
        file = self._discovery.single.get(module)
        if file is None:
            spec = module_spec(module)
            file = PluginFile(Path(spec.origin or ""), module)
        return field_names(file, name)

    def checked(self, descriptor: Descriptor, value: Any, cls: type, what: str) -> Any:
        """``value``, which ``descriptor``'s code gave; SkelbenchError names plugin and target if it is no ``cls``."""
        if isinstance(value, cls):
            return value
        kind = next(entry.kind for entry in self.entries if entry.descriptor is descriptor)
        target = self.load(descriptor)
        place, did = where(target) or self.shown(descriptor.target), "returned" if callable(target) else "is"
        raise SkelbenchError(
            f"{SINGULAR[kind]} {descriptor.name!r} of plugin {self.origin(descriptor).name!r}: {place}: {did} a "
            f"{type(value).__name__}, not a {what}"
        )

    def shown(self, target: str) -> str:
        """``target`` as readers know it: a single file by its name."""
        module, _, attribute = target.partition(":")
        file = self._discovery.single.get(module)
        return f"{file.path.name}:{attribute}" if file else target

    def import_all(self, plugin: PluginStatus) -> Iterator[tuple[str, BaseException | None]]:
        """Import whatever ``plugin`` announces: what it is, and what that raised."""
        for entry in [entry for entry in self.entries if entry.plugin is plugin]:
            about = entry.descriptor
            for field in (place for place in about.places if getattr(about, place)):
                yield (
                    f"{SINGULAR[entry.kind]} {entry.name}, {field} {getattr(about, field).partition(':')[2]}",
                    _raised(partial(self.load, about, field)),
                )
        for status, file, hooks in self._discovery.unimported:
            if status is plugin:
                yield ", ".join(hooks), _raised(file.load)

    def load_target(self, target: str, plugin: PluginStatus | None = None) -> Any:
        """Import ``"package.module:Name"``; SkelbenchError with plugin and cause if that fails."""
        module_name, _, attribute = target.partition(":")
        file = self._discovery.single.get(module_name)
        shown = self.shown(target)
        whose = f" of plugin {plugin.name!r}" if plugin else ""
        try:
            value = file.load() if file else importlib.import_module(module_name)
        except (Exception, SystemExit) as error:
            if strict():
                raise
            raise SkelbenchError(f"cannot import {shown!r}{whose}: {one_line(error)}") from error
        for part in attribute.split("."):
            if not hasattr(value, part):
                hint = did_you_mean(part, [name for name in vars(value) if not name.startswith("_")], "name")
                raise SkelbenchError(f"cannot import {shown!r}{whose}: {hint}")
            value = getattr(value, part)
        return value

    # ------------------------------------------------------------------------------------------------ observers
    def notify(self, hook_name: str, **values: Any) -> None:
        """Call every observer of ``hook_name``; one that raises is logged once, counted, and changes nothing."""
        if hook_name not in OBSERVERS:
            raise ValueError(f"{hook_name} is not an observer hook; observers: {', '.join(OBSERVERS)}")
        unimported, manager = self._discovery.unimported, self._discovery.manager
        for item in [item for item in unimported if hook_name in item[2]]:
            unimported.remove(item)
            self._watched(item[0], hook_name, partial(_register, manager, item[0], item[1]))
        for implementation in getattr(manager.hook, hook_name).get_hookimpls():
            status = next(p for p in self.plugins if p.name == implementation.plugin_name)
            arguments = {name: values[name] for name in implementation.argnames}
            self._watched(status, hook_name, partial(implementation.function, **arguments))

    def _watched(self, status: PluginStatus, hook_name: str, call: Callable[[], Any]) -> None:
        try:
            call()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if strict():
                raise
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
                self._warn_of_old_names(plugin)

    def _warn_of_old_names(self, plugin: PluginStatus) -> None:
        """Once per plugin, of all that are known by then."""
        if plugin.renamed and plugin.name not in self._warned:
            self._warned.add(plugin.name)
            log.warning("note: plugin %r (%s): %s", plugin.name, plugin.source, plugin.old_names)


def _raised(call: Callable[[], Any]) -> BaseException | None:
    try:
        call()
    except (Exception, SystemExit) as error:
        return error
    return None


def _register(manager: pluggy.PluginManager, status: PluginStatus, file: PluginFile) -> None:
    with undisturbed(status.remarks, limit_s()):
        plugin = file.load()
    manager.register(plugin, status.name)


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
    files = tuple(str(file) for file in (*_requested, *extra_files))
    key = (files, builtins.PLACES, *map(said, ("entry_points", "plugins", "strict")))
    if key not in _hosts:
        with uncollected():
            _hosts[key] = Host(files)
    return _hosts[key]
