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
        self.observers: list[tuple[PluginStatus, PluginFile, list[str]]] = []
        """Plugins with observer hooks, and which; their code is loaded when the first of these is called."""

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
        self._mark_clashes()

    def named(self, kind: str, name: str) -> list[Entry]:
        """Return all entries of ``kind`` with this name, alone or with their plugin."""
        entries = (entry for entry in self.entries if entry.kind == kind and name.endswith(entry.name))
        return [entry for entry in entries if name in entry.names]

    def _selected_entry_points(self) -> list[importlib.metadata.EntryPoint]:
        found = {each.name: each for each in importlib.metadata.entry_points(group=GROUP)}
        wanted, source = user_config.found("entry_points")
        for name in wanted or ():
            if name not in found:
                message = did_you_mean(name, list(found), "entry point")
                self._fail(PluginStatus(name, source=source), "import-error", message)
        return [found[name] for name in sorted(found) if wanted is None or name in wanted]

    def _read_entry_point(self, entry_point: importlib.metadata.EntryPoint) -> None:
        """Read a module as one plugin, a package that announces nothing as one plugin per public module."""
        dist = (entry_point.dist.name, entry_point.dist.version) if entry_point.dist else ("", "")
        name = self._free_name(entry_point.name, f"{dist[0] or GROUP}/{entry_point.name}")
        status = PluginStatus(name, *dist, f"entry point {entry_point.value}")
        try:
            file = module_file(entry_point.module)
            root = file.path
            while (root.parent / "__init__.py").exists():
                root = root.parent
            cache, source = DescriptorCache(root), source_hash(root)
        except (ImportError, OSError) as error:
            self._fail(status, "import-error", one_line(error), error)
            return
        if not self._read_module(status, file, cache, source, file.module):
            why = f"the package {entry_point.module} holds no plugin file" if file.package else ANNOUNCES_NOTHING
            self._fail(status, "import-error" if file.package else "invalid", why)
        cache.save()

    def _read_module(
        self, status: PluginStatus, file: PluginFile, cache: DescriptorCache, source: str, top: str
    ) -> bool:
        """Read a module, or each public module of a package that announces nothing; return False if none is there."""
        announcement = self._announcement(status, file, cache, source)
        if announcement or status.state != "ok":
            self._record(status, file, announcement)
            return True
        for module in file.inside:
            part = module_file(module)
            shown = module.replace(".", "/") + ("/__init__.py" if part.package else part.path.suffix)
            name = module.removeprefix(f"{top}.")
            name = self._free_name(name, f"{status.dist or GROUP}/{name}")
            each = PluginStatus(name, status.dist, status.version, shown)
            if not self._read_module(each, part, cache, source, top) and not part.package:
                self._fail(each, "invalid", ANNOUNCES_NOTHING)
        return bool(file.inside)

    def _free_name(self, *names: str) -> str:
        """Return the first of ``names`` that no plugin has; the last if all are taken."""
        taken = {plugin.name for plugin in self.plugins}
        return next((name for name in names if name not in taken), names[-1])

    def _read_single(self, path: Path, requested: bool) -> None:
        status = PluginStatus(self._free_name(path.stem, path.name, str(path)), source=str(path), requested=requested)
        file = PluginFile(path)
        try:
            status.source_hash = file.sha256
        except OSError as error:
            why = "the folder holds no plugin file (*.py)" if path.is_dir() else error.strerror or error
            where = "--plugin" if requested else user_config.found("plugins").source
            self._fail(status, "import-error", f"cannot read {path}: {why}; correct {where}", error)
            return
        if file.module_name in self.single:
            return  # the same content under another path
        self.single[file.module_name] = file
        announcement = Announcement()
        if requested or ANNOUNCEMENT.search(file.code):
            cache = DescriptorCache(path)
            announcement = self._announcement(status, file, cache, file.sha256)
            cache.save()
        if not announcement and status.state == "ok":
            self._fail(status, "invalid", ANNOUNCES_NOTHING)
        self._record(status, file, announcement)

    def _announcement(
        self, status: PluginStatus, file: PluginFile, cache: DescriptorCache, source: str
    ) -> Announcement:
        """Read an announcement from the cache, or by importing the plugin; what fails goes into ``status``."""
        kept = cache.get(file.module_name, source)
        if kept is not None:
            return kept
        from skelbench.plugin.announcement import announced  # pydantic

        before = status.error
        try:
            announcement = announced(file.load(), file, partial(self._fail, status))
        except (Exception, SystemExit) as error:
            self._fail(status, "import-error", one_line(error), error)
            return Announcement()
        if status.error == before:
            cache.put(file.module_name, source, announcement)
        return announcement

    def _record(self, status: PluginStatus, file: PluginFile, announcement: Announcement) -> None:
        """Enter a plugin and its descriptors."""
        if status not in self.plugins:
            self.plugins.append(status)
        status.path = str(file.path)
        if announcement.observers:
            self.observers.append((status, file, announcement.observers))
        for kind, descriptor in announcement.descriptors:
            settings = announcement.settings.get(getattr(descriptor, descriptor.settings_from, ""), [])
            self.entries.append(Entry(kind, descriptor.name, descriptor, status, settings=tuple(settings)))

    def _fail(self, status: PluginStatus, state: State, message: str, error: BaseException | None = None) -> None:
        if status not in self.plugins:
            self.plugins.append(status)
        status.fail(state, message, error)
        if self.strict:
            raise error or SkelbenchError(f"plugin {status.name!r}: {message}")

    def _mark_clashes(self) -> None:
        """Mark entries of one name. A file on the path does not take a name of skelbench away: runs keep their
        meaning."""
        groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in self.entries:
            groups[entry.kind, entry.name].append(entry)
        for (kind, name), entries in groups.items():
            own = [entry for entry in entries if entry.plugin.dist == OWN_DIST]
            keeps = len(own) == 1 and not any(entry.plugin.requested for entry in entries)
            clashing = [entry for entry in entries if not (keeps and entry in own)]
            if len(entries) < 2:
                continue
            choices = " or ".join(repr(entry.names[1]) for entry in clashing)
            owners = " and ".join(f"{entry.plugin.name!r} ({entry.plugin.source})" for entry in entries)
            message = f"{SINGULAR[kind]} {name!r} is announced by plugins {owners}; write {choices}"
            if keeps:
                message = f"{SINGULAR[kind]} {name!r} is skelbench's own; write {choices} for the one of the plugin"
            for entry in clashing:
                entry.clash = message
                self._fail(entry.plugin, "conflict", message)
