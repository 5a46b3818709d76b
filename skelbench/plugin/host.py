"""Finds plugins and answers for them: every plugin is loaded and called on its own, a broken one is a status line.

Sources, in order: the places that ship inside skelbench (``skelbench.builtins``), installed distributions that
announce an entry point of group ``skelbench``, and single files (``--plugin FILE``, ``SKELBENCH_PLUGIN_PATH``).

``SKELBENCH_PLUGINS="a,b"`` loads only these entry points ("" loads none), ``SKELBENCH_STRICT=1`` raises what would
otherwise become a status. Listing runs announcements only; code is imported by :meth:`Host.load`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pluggy

from skelbench import __version__, builtins
from skelbench.component import Spec
from skelbench.errors import SkelbenchError, did_you_mean
from skelbench.plugin import hookspecs
from skelbench.plugin.announced import Announced
from skelbench.plugin.descriptors import ComponentSpec, Descriptor, MethodSpec, ProtocolSpec
from skelbench.plugin.files import PluginFile, files_on_path, installed_files, unique
from skelbench.plugin.slices import FAMILIES
from skelbench.plugin.status import SINGULAR, Entry, PluginStatus, one_line, strict
from skelbench.plugin.validate import OBSERVERS, descriptor_problem

GROUP = "skelbench"
ANNOUNCES_NOTHING = (
    "announces nothing: no function of it is decorated with @hookimpl, no class is a component with a kind"
)

log = logging.getLogger(__name__)


class Host:
    """All plugins of this process. ``extra_files``: single files asked for on the command line."""

    def __init__(self, extra_files: Iterable[str | os.PathLike[str]] = ()) -> None:
        self.plugins: list[PluginStatus] = []
        self.entries: list[Entry] = []
        self.observer_failures: Counter[str] = Counter()
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._single: dict[str, PluginFile] = {}
        self._read: dict[Path, PluginStatus] = {}
        self._families = dict(FAMILIES)
        self._unimported: list[tuple[PluginStatus, PluginFile, list[str]]] = []
        self._noted = False
        self._discover([Path(file).expanduser() for file in extra_files])

    # ------------------------------------------------------------------------------------------------ reading
    def get(self, kind: str, name: str) -> Descriptor:
        """The descriptor called ``name`` (or ``plugin:name``); SkelbenchError names the nearest or the culprit."""
        self._note_failures()
        if not isinstance(name, str):
            raise SkelbenchError(f"{SINGULAR[kind]} {name!r} is not a name; `skelbench plugins list` shows all")
        found = [entry for entry in self.entries if entry.kind == kind and name in entry.names]
        usable = [e for e in found if e.descriptor is not None and not e.refused and (not e.clash or ":" in name)]
        if len(usable) == 1:
            return usable[0].descriptor
        if found:
            raise SkelbenchError(found[0].refused or found[0].clash)
        failed = [plugin for plugin in self.plugins if plugin.state not in ("ok", "conflict")]
        namesake = next((plugin for plugin in failed if plugin.name == name.partition(":")[0]), None)
        if namesake is not None:
            raise SkelbenchError(
                f"{SINGULAR[kind]} {name!r} is not available: plugin {namesake.name!r} ({namesake.source}) "
                f"failed ({namesake.state}): {namesake.error}"
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

    def name(self, descriptor: Descriptor) -> str:
        """The name that :meth:`get` knows ``descriptor`` by: with its plugin where it clashes."""
        entry = next(entry for entry in self.entries if entry.descriptor is descriptor)
        return entry.names[1] if entry.clash else entry.name

    def names(self, kind: str) -> list[str]:
        """Every name :meth:`get` accepts for ``kind``, sorted; names that clash appear as ``plugin:name``."""
        usable = [entry for entry in self.entries if entry.kind == kind and not entry.refused]
        return sorted(entry.names[1] if entry.clash else entry.name for entry in usable)

    def _known(self, kind: str, name: str) -> bool:
        return any(entry.kind == kind and name in entry.names for entry in self.entries)

    def all(self, kind: str) -> list[Descriptor]:
        """Usable descriptors of ``kind`` in the order of :meth:`names`."""
        return [self.get(kind, name) for name in self.names(kind)]

    def origin(self, descriptor: Descriptor) -> PluginStatus:
        """The plugin that announced ``descriptor``."""
        return next(entry.plugin for entry in self.entries if entry.descriptor is descriptor)

    def load(self, descriptor: Descriptor, field: str = "target") -> Any:
        """Import what ``descriptor.target`` (or another such ``field``, ``"config"``) names."""
        return self.load_target(getattr(descriptor, field), self.origin(descriptor))

    def find(self, kind: str, name: str) -> Any:
        """What ``name`` stands for, imported: the class of a component, the object of a topology."""
        return self.load(self.get(kind, name))

    def identity(self, descriptor: Descriptor) -> str:
        """``"2"``, its version; for a single file, whose code has none, ``"1 <sha256>"``."""
        return " ".join(filter(None, (str(descriptor.version), self.origin(descriptor).source_hash)))

    def config(self, descriptor: Descriptor) -> type[Spec]:
        """The pydantic class of the settings of a method, an encoder, a protocol; an empty one when it has none. A
        component and a protocol are their own."""
        if isinstance(descriptor, ComponentSpec | ProtocolSpec):
            return self.load(descriptor)
        return self.load(descriptor, "config") if getattr(descriptor, "config", "") else Spec

    def checked(self, descriptor: Descriptor, made: Any, cls: type, what: str) -> Any:
        """``made``, which ``descriptor``'s code gave; SkelbenchError names plugin and target if it is no ``cls``."""
        if isinstance(made, cls):
            return made
        kind = next(entry.kind for entry in self.entries if entry.descriptor is descriptor)
        raise SkelbenchError(
            f"{SINGULAR[kind]} {descriptor.name!r} of plugin {self.origin(descriptor).name!r}: {descriptor.target} "
            f"returned a {type(made).__name__}, not a {what}"
        )

    def load_target(self, target: str, plugin: PluginStatus | None = None) -> Any:
        """Import ``"package.module:Name"``; SkelbenchError with plugin and cause if that fails."""
        module_name, _, attribute = target.partition(":")
        file = self._single.get(module_name)
        shown = f"{file.path.name}:{attribute}" if file else target
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
        for item in [item for item in self._unimported if hook_name in item[2]]:
            self._unimported.remove(item)
            self._watched(item[0], hook_name, partial(self._register_observer, item[0], item[1]))
        for implementation in getattr(self._manager.hook, hook_name).get_hookimpls():
            status = next(p for p in self.plugins if p.name == implementation.plugin_name)
            arguments = {name: values[name] for name in implementation.argnames}
            self._watched(status, hook_name, partial(implementation.function, **arguments))

    def _register_observer(self, status: PluginStatus, file: PluginFile) -> None:
        self._manager.register(file.load(), status.name)

    def _watched(self, status: PluginStatus, hook_name: str, call: Callable[[], Any]) -> None:
        try:
            call()
        except (Exception, SystemExit) as error:
            if strict():
                raise
            self.observer_failures[status.name] += 1
            if self.observer_failures[status.name] == 1:
                log.warning("%s of plugin %r failed, the run goes on: %s", hook_name, status.name, one_line(error))
                log.debug("traceback of the failed observer", exc_info=error)

    # ------------------------------------------------------------------------------------------------ discovery
    def _discover(self, extra_files: list[Path]) -> None:
        builtin = PluginStatus("builtin", "skelbench", __version__, "builtin")
        self.plugins.append(builtin)
        for place in builtins.PLACES:
            for file in installed_files(place, self._families):
                if file.announces(self._families):
                    self._admit_file(builtin, file)
        self._families |= {
            e.descriptor.target.partition(":")[2]: e.kind
            for e in self.entries
            if e.descriptor is not None and isinstance(e.descriptor, ComponentSpec)
        }
        for entry_point in self._selected_entry_points():
            self._admit_entry_point(entry_point)
        for path in unique([*extra_files, *files_on_path()]):
            self._admit_single(path, requested=path in extra_files)
        self._refuse_clashes()

    def _selected_entry_points(self) -> list[importlib.metadata.EntryPoint]:
        found = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: e.name)
        if (choice := os.environ.get("SKELBENCH_PLUGINS")) is None:
            return found
        wanted = [name for item in choice.split(",") if (name := item.strip())]
        for name in wanted:
            if name not in [e.name for e in found]:
                status = PluginStatus(name, source="SKELBENCH_PLUGINS")
                self.plugins.append(status)
                status.fail("import-error", did_you_mean(name, [e.name for e in found], "entry point"))
        return [e for e in found if e.name in wanted]

    def _free_name(self, *names: str) -> str:
        """The first of ``names`` that no plugin has; the last if all are taken."""
        taken = {plugin.name for plugin in self.plugins}
        return next((name for name in names if name not in taken), names[-1])

    def _admit_entry_point(self, entry_point: importlib.metadata.EntryPoint) -> None:
        """Of a module: one plugin. Of a package: each of its plugin files is one. Of an object: the object."""
        dist = entry_point.dist
        owner = (dist.name, dist.version) if dist else ("", "")

        def status(name: str, source: str) -> PluginStatus:
            added = PluginStatus(self._free_name(name, f"{owner[0] or GROUP}/{name}"), *owner, source)
            self.plugins.append(added)
            return added

        source = f"entry point {entry_point.value}"
        if entry_point.attr:
            self._admit_object(status(entry_point.name, source), entry_point.load)
            return
        try:
            files = list(installed_files(entry_point.module, self._families))
            if not files:
                raise SkelbenchError(f"the package {entry_point.module} holds no plugin file: {ANNOUNCES_NOTHING}")
        except (Exception, SystemExit) as error:
            status(entry_point.name, source).fail("import-error", one_line(error), error)
            return
        for file in files:
            if file.module == entry_point.module:
                self._admit_file(status(entry_point.name, source), file)
            else:
                name = file.module.removeprefix(f"{entry_point.module}.")
                path = "/".join([entry_point.module, *name.split(".")[:-1], *file.path.parts[-1:]])
                self._admit_file(status(name, path), file)

    def _admit_single(self, path: Path, requested: bool) -> None:
        status = PluginStatus(self._free_name(path.stem, path.name, str(path)), source=str(path), requested=requested)
        file = PluginFile(path)
        try:
            status.source_hash = file.sha256
        except OSError as error:
            self.plugins.append(status)
            status.fail("import-error", f"cannot read {path}: {error.strerror or error}", error)
            return
        if file.module_name in self._single:
            return  # the same content under another path
        self.plugins.append(status)
        self._single[file.module_name] = file
        self._admit_file(status, file)

    def _admit_file(self, status: PluginStatus, file: PluginFile) -> None:
        started = time.perf_counter()
        try:
            if (twin := self._read.setdefault(file.path.resolve(), status)) is not status:
                raise SkelbenchError(f"names the same file as plugin {twin.name!r}")
            announced = Announced.by_file(file, self._manager, self._families)
            if announced.observers:
                self._unimported.append((status, file, announced.observers))
            self._record(status, announced, file)
        except (Exception, SystemExit) as error:
            if strict():
                raise
            status.fail("import-error", one_line(error), error)
        finally:
            status.seconds += time.perf_counter() - started

    def _admit_object(self, status: PluginStatus, load: Callable[[], Any]) -> None:
        started = time.perf_counter()
        try:
            plugin = load()
            announced = Announced.by_object(plugin, self._manager)
            if announced.observers:
                self._manager.register(plugin, status.name)
            self._record(status, announced)
        except (Exception, SystemExit) as error:
            if strict():
                raise
            status.fail("import-error", one_line(error), error)
        finally:
            status.seconds = time.perf_counter() - started

    def _record(self, status: PluginStatus, announced: Announced, file: PluginFile | None = None) -> None:
        """Enter the descriptors that hold; the others become problems of the plugin."""
        for sentence, error in announced.problems:
            status.fail("invalid", sentence, error)
        if announced.empty and status.state == "ok":
            status.fail("invalid", ANNOUNCES_NOTHING)
        for kind, values in announced.values.items():
            names: set[str] = set()
            for value in values:
                problem = descriptor_problem(kind, value, own_file=file is not None)
                if problem is None and value.name in names:
                    problem = "invalid", f"{SINGULAR[kind]} {value.name!r} is announced twice"
                try:
                    if problem is None:
                        descriptor = file.own(value) if file else value
                        names.add(value.name)
                        self.entries.append(Entry(kind, value.name, descriptor, status))
                except SkelbenchError as error:
                    problem = "invalid", str(error)
                if problem is not None:
                    status.fail(*problem)
                    if isinstance(name := getattr(value, "name", None), str):
                        refused = f"{SINGULAR[kind]} {name!r} of plugin {status.name!r} is refused: {problem[1]}"
                        self.entries.append(Entry(kind, name, None, status, refused=refused))

    def _refuse_clashes(self) -> None:
        groups: dict[tuple[str, str], list[Entry]] = {}
        for entry in self.entries:
            if not entry.refused:
                groups.setdefault((entry.kind, entry.name), []).append(entry)
        for (kind, name), entries in groups.items():
            if len(entries) < 2:
                continue
            owners = " and ".join(f"{e.plugin.name!r} ({e.plugin.source})" for e in entries)
            choices = " or ".join(repr(e.names[1]) for e in entries)
            for entry in entries:
                entry.clash = f"{SINGULAR[kind]} {name!r} is announced by plugins {owners}; write {choices}"
                entry.plugin.fail("conflict", entry.clash)

    def _note_failures(self) -> None:
        """Before anything is used: stop if a plugin of the command line failed, mention other failures once."""
        for plugin in self.plugins:
            if plugin.requested and plugin.state not in ("ok", "conflict"):
                raise SkelbenchError(f"plugin {plugin.source} cannot be used ({plugin.state}): {plugin.error}")
        if not self._noted:
            self._noted = True
            for plugin in self.plugins:
                if plugin.state != "ok":
                    log.warning("note: plugin %r (%s): %s", plugin.name, plugin.state, plugin.error)


_requested: tuple[str, ...] = ()
_hosts: dict[tuple[Any, ...], Host] = {}


def request_files(files: Iterable[str]) -> None:
    """Single files that every later :func:`get_host` loads as well (``--plugin FILE``)."""
    global _requested
    _requested = tuple(files)


def get_host(extra_files: Iterable[str] = ()) -> Host:
    """The host of this process, built on first use and kept for the same files and environment."""
    files = tuple(str(file) for file in (*_requested, *extra_files))
    variables = ("SKELBENCH_PLUGINS", "SKELBENCH_PLUGIN_PATH", "SKELBENCH_STRICT")
    key = (files, *map(os.environ.get, variables))
    if key not in _hosts:
        _hosts[key] = Host(files)
    return _hosts[key]
