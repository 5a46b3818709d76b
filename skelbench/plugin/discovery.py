"""Find plugins and read what they announce, from the descriptor cache or by importing them.

Sources, in order: the modules of skelbench (:mod:`skelbench.plugin.builtins`), installed distributions with an entry
point of group ``skelbench``, and single files (``--plugin FILE``, ``SKELBENCH_PLUGIN_PATH``). A broken plugin is one
status and disturbs nothing else.

``SKELBENCH_PLUGINS="a,b"`` loads only these entry points ("" loads none), ``SKELBENCH_STRICT=1`` raises problems
instead of recording them; :mod:`skelbench.core.user_config` reads both.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections import defaultdict
from functools import partial
from pathlib import Path

from skelbench.core import user_config
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.version import __version__
from skelbench.plugin import builtins
from skelbench.plugin.cache import Announcement, DescriptorCache, source_hash
from skelbench.plugin.files import PluginFile, files_on_path, module_file
from skelbench.plugin.plugin_errors import GROUP
from skelbench.plugin.status import SINGULAR, Entry, PluginStatus, State, one_line

Loadable = PluginFile | importlib.metadata.EntryPoint
BUILTIN, OWN_DIST = "builtin", "skelbench"
ANNOUNCEMENT = re.compile(rb"hookimpl|^[ \t]+kind\b", re.MULTILINE)
"""A file on the path without a match may be a script, and is not run."""
ANNOUNCES_NOTHING = "announces nothing: it has no function decorated with @hookimpl and no component with a kind"


class Discovery:
    """The plugins of this process. ``strict``: raise the first problem of a plugin."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.plugins: list[PluginStatus] = []
        self.entries: list[Entry] = []
        self.single: dict[str, PluginFile] = {}
        """Single files by the name of their module."""
        self.observers: list[tuple[PluginStatus, Loadable, list[str]]] = []
        """Plugins with observer hooks, and which; their code is loaded when the first of these is called."""
        self.by_name: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        """(kind, any of its names) -> entries."""

    def read(self, extra_files: list[Path]) -> None:
        """Read all plugins, ``extra_files`` among them."""
        builtin = PluginStatus(BUILTIN, OWN_DIST, __version__, BUILTIN)
        self.plugins.append(builtin)
        cache = DescriptorCache(Path(__file__).parents[1])
        for file in map(module_file, builtins.PLACES):
            self._record(builtin, file, self._announcement(builtin, file, cache, source_hash(file.path)))
        cache.save()
        for entry_point in self._selected_entry_points():
            self._read_entry_point(entry_point)
        for path in dict.fromkeys([*extra_files, *files_on_path()]):
            self._read_single(path, requested=path in extra_files)
        self._refuse_clashes()

    def add(self, entry: Entry) -> None:
        """Enter a descriptor under all of its names."""
        self.entries.append(entry)
        for name in dict.fromkeys(entry.names):
            self.by_name[entry.kind, name].append(entry)

    def remove(self, entry: Entry) -> None:
        """Undo :meth:`add`."""
        self.entries.remove(entry)
        for name in dict.fromkeys(entry.names):
            self.by_name[entry.kind, name].remove(entry)

    def _selected_entry_points(self) -> list[importlib.metadata.EntryPoint]:
        found = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: e.name)
        wanted, source = user_config.found("entry_points")
        if wanted is None:
            return found
        for name in wanted:
            if name not in [e.name for e in found]:
                status = PluginStatus(name, source=source)
                self.plugins.append(status)
                self._fail(status, "import-error", did_you_mean(name, [e.name for e in found], "entry point"))
        return [e for e in found if e.name in wanted]

    def _read_entry_point(self, entry_point: importlib.metadata.EntryPoint) -> None:
        """Read a module or an object as one plugin, a package as one plugin per public module."""
        dist = (entry_point.dist.name, entry_point.dist.version) if entry_point.dist else ("", "")
        status = PluginStatus(entry_point.name, *dist, f"entry point {entry_point.value}")
        try:
            file = module_file(entry_point.module)
            root = file.path
            while (root.parent / "__init__.py").exists():
                root = root.parent
            cache, source = DescriptorCache(root), source_hash(root)
        except (ImportError, OSError) as error:
            self.plugins.append(status)
            self._fail(status, "import-error", one_line(error), error)
            return
        if entry_point.attr:
            self.plugins.append(status)
            self._record(status, entry_point, self._announcement(status, entry_point, cache, source))
        elif not self._read_module(status, file, cache, source, file.module):
            self.plugins.append(status)
            why = f"the package {entry_point.module} holds no plugin file" if file.package else ANNOUNCES_NOTHING
            self._fail(status, "import-error" if file.package else "invalid", why)
        cache.save()

    def _read_module(
        self, status: PluginStatus, file: PluginFile, cache: DescriptorCache, source: str, top: str
    ) -> bool:
        """Read a module, or each public module of a package that announces nothing; return False if none is there."""
        announcement = self._announcement(status, file, cache, source)
        if announcement or status.state != "ok":
            status.name = self._free_name(status.name, f"{status.dist or GROUP}/{status.name}")
            self.plugins.append(status)
            self._record(status, file, announcement)
            return True
        for module in file.inside:
            part = module_file(module)
            shown = module.replace(".", "/") + ("/__init__.py" if part.package else part.path.suffix)
            each = PluginStatus(module.removeprefix(f"{top}."), status.dist, status.version, shown)
            if not self._read_module(each, part, cache, source, top) and not part.package:
                self.plugins.append(each)
                self._fail(each, "invalid", ANNOUNCES_NOTHING)
        return bool(file.inside)

    def _free_name(self, *names: str) -> str:
        """The first of ``names`` that no plugin has; the last if all are taken."""
        taken = {plugin.name for plugin in self.plugins}
        return next((name for name in names if name not in taken), names[-1])

    def _read_single(self, path: Path, requested: bool) -> None:
        status = PluginStatus(self._free_name(path.stem, path.name, str(path)), source=str(path), requested=requested)
        file = PluginFile(path)
        try:
            status.source_hash = file.sha256
        except OSError as error:
            self.plugins.append(status)
            why = "the folder holds no plugin file (*.py)" if path.is_dir() else error.strerror or error
            where = "--plugin" if requested else user_config.found("plugins").source
            self._fail(status, "import-error", f"cannot read {path}: {why}; correct {where}", error)
            return
        if file.module_name in self.single:
            return  # the same content under another path
        self.plugins.append(status)
        self.single[file.module_name] = file
        if requested or ANNOUNCEMENT.search(file.code):
            cache = DescriptorCache(path)
            announcement = self._announcement(status, file, cache, file.sha256)
            cache.save()
        else:
            announcement = Announcement()
        if not announcement and status.state == "ok":
            self._fail(status, "invalid", ANNOUNCES_NOTHING)
        self._record(status, file, announcement)

    def _announcement(
        self, status: PluginStatus, plugin: Loadable, cache: DescriptorCache, source: str
    ) -> Announcement:
        """Read an announcement from the cache, or by importing the plugin; what fails goes into ``status``."""
        file = plugin if isinstance(plugin, PluginFile) else None
        key = file.module_name if file else str(getattr(plugin, "value", ""))
        kept = cache.get(key, source)
        if kept is not None:
            return kept
        from skelbench.plugin.announcement import announced  # pydantic

        before = status.error
        try:
            announcement = announced(plugin.load(), file, partial(self._fail, status))
        except (Exception, SystemExit) as error:
            self._fail(status, "import-error", one_line(error), error)
            return Announcement()
        if status.error == before:
            cache.put(key, source, announcement)
        return announcement

    def _record(self, status: PluginStatus, plugin: Loadable, announcement: Announcement) -> None:
        """Enter the descriptors of a plugin."""
        if isinstance(plugin, PluginFile):
            status.path = str(plugin.path)
        if announcement.observers:
            self.observers.append((status, plugin, announcement.observers))
        for kind, descriptor in announcement.descriptors:
            target = getattr(descriptor, descriptor.settings_from, "")
            settings = announcement.settings.get(target, [])
            self.add(Entry(kind, descriptor.name, descriptor, status, settings=tuple(settings)))

    def _fail(self, status: PluginStatus, state: State, sentence: str, error: BaseException | None = None) -> None:
        status.fail(state, sentence, error)
        if self.strict:
            raise error or SkelbenchError(f"plugin {status.name!r}: {sentence}")

    def _refuse_clashes(self) -> None:
        groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in self.entries:
            groups[entry.kind, entry.name].append(entry)
        for (kind, name), entries in groups.items():
            if len(entries) < 2:
                continue
            owners = " and ".join(f"{e.plugin.name!r} ({e.plugin.source})" for e in entries)
            choices = " or ".join(repr(e.names[1]) for e in entries)
            sentence = f"{SINGULAR[kind]} {name!r} is announced by plugins {owners}; write {choices}"
            own = [entry for entry in entries if entry.plugin.dist == OWN_DIST]
            if len(own) == 1 and not any(entry.plugin.requested for entry in entries):
                # A file on the path does not take a name away: runs keep their meaning.
                entries = [entry for entry in entries if entry not in own]
                choices = " or ".join(repr(e.names[1]) for e in entries)
                sentence = f"{SINGULAR[kind]} {name!r} is skelbench's own; write {choices} for the one of the plugin"
            for entry in entries:
                entry.clash = sentence
                self._fail(entry.plugin, "conflict", sentence)
