"""Find plugins and read what they announce, from the descriptor cache or by importing them.

Sources, in order: the modules of skelbench, installed distributions with an entry point of group ``skelbench``, and
single files (``--plugin FILE``, ``SKELBENCH_PLUGIN_PATH``). A broken plugin gets a status and does not affect other
plugins.

``SKELBENCH_PLUGINS="a,b"`` loads only these entry points, "" none (:mod:`skelbench.core.user_config`).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from skelbench.core import user_config
from skelbench.core.errors import did_you_mean
from skelbench.core.hashing import hash_of_python
from skelbench.core.version import __version__
from skelbench.plugin.announcement import announced
from skelbench.plugin.cache import Announcement, DescriptorCache, source_hash
from skelbench.plugin.files import PluginFile, files_on_path
from skelbench.plugin.plugin_errors import GROUP
from skelbench.plugin.status import SINGULAR, Entry, PluginStatus, State

ROOT = Path(__file__).parents[1]
PLACES = ("data.synthetic", "evaluation", "models.optim", "models.vit", "pipeline.studies", "reporting", "views")
"""Modules and packages of skelbench that announce descriptors themselves."""
ANNOUNCES_NOTHING = "announces nothing: it has no function decorated with @hookimpl and no component with a kind"


class Discovery:
    """The plugins of this process."""

    def __init__(self) -> None:
        self.plugins: list[PluginStatus] = []
        self.entries: list[Entry] = []
        self.single: dict[str, PluginFile] = {}
        """Single files by the name of their module."""

    def read(self, extra_files: list[Path]) -> None:
        """Read all plugins, ``extra_files`` among them."""
        builtin = PluginStatus("builtin", "skelbench", __version__, "builtin", path=str(ROOT / "__init__.py"))
        self.plugins.append(builtin)
        cache = DescriptorCache(ROOT)
        for place in PLACES:
            path = ROOT / place.replace(".", "/")
            path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            for file in PluginFile(path, f"{ROOT.name}.{place}").modules():
                if announcement := self._announcement(builtin, file, cache, source_hash(file.path)):
                    self._record(builtin, announcement)
        cache.save()
        for entry_point in self._selected_entry_points():
            self._read_entry_point(entry_point)
        for path in dict.fromkeys([*extra_files, *files_on_path()]):
            self._read_single(path, requested=path in extra_files)

    def _unreadable(self, status: PluginStatus, problem: str | BaseException) -> None:
        self.plugins.append(status)
        status.fail("import-error", problem)

    def _selected_entry_points(self) -> list[importlib.metadata.EntryPoint]:
        points = {point.name: point for point in importlib.metadata.entry_points(group=GROUP)}
        chosen, source = user_config.found("entry_points")
        for name in chosen or ():
            if name not in points:
                self._unreadable(PluginStatus(name, source=source), did_you_mean(name, list(points), "entry point"))
        return [points[name] for name in sorted(points) if chosen is None or name in chosen]

    def _read_entry_point(self, entry_point: importlib.metadata.EntryPoint) -> None:
        dist = (entry_point.dist.name, entry_point.dist.version) if entry_point.dist else ("", "")
        status = PluginStatus(entry_point.name, *dist, f"entry point {entry_point.value}")
        try:
            spec = importlib.util.find_spec(entry_point.module)
            if spec is None or not spec.origin:
                raise ModuleNotFoundError(f"No module named {entry_point.module!r}", name=entry_point.module)
            file = PluginFile(Path(spec.origin), entry_point.module)
            root, status.path = file.path, spec.origin
            while (root.parent / "__init__.py").exists():
                root = root.parent
            cache, source = DescriptorCache(root), source_hash(root)
        except (Exception, SystemExit) as error:  # raised by a package around the plugin
            self._unreadable(status, error)
            return
        self._read_module(status, file, cache, source)
        cache.save()

    def _read_module(self, status: PluginStatus, file: PluginFile, cache: DescriptorCache, source: str) -> None:
        """Read a module as one plugin; a package that announces nothing as one plugin per public module."""
        announcement = self._announcement(status, file, cache, source)
        if announcement or status.state != "ok" or not file.inside:
            self._record(status, announcement)
        else:
            for part in file.inside:
                name = part.module.partition(".")[2]
                own = PluginStatus(name, status.dist, status.version, part.module, path=str(part.path))
                self._read_module(own, part, cache, source)

    def _read_single(self, path: Path, requested: bool) -> None:
        status = PluginStatus(path.stem, source=str(path), path=str(path), requested=requested)
        file = PluginFile(path)
        try:
            status.source_hash = hash_of_python(file.code)
        except OSError as error:
            self._unreadable(status, error)
            return
        if file.module_name in self.single:
            return  # the same content under another path
        self.single[file.module_name] = file
        cache = DescriptorCache(path)
        announcement = self._announcement(status, file, cache, file.sha256)
        cache.save()
        self._record(status, announcement)

    def _announcement(
        self, status: PluginStatus, file: PluginFile, cache: DescriptorCache, source: str
    ) -> Announcement:
        """Read an announcement from the cache, or by importing the plugin; nothing if that fails."""
        cached = cache.get(file.module_name, source)
        if cached is not None:
            return cached
        state: State = "import-error"
        try:
            module = file.load()
            state = "invalid"
            announcement = announced(module, file)
        except (Exception, SystemExit) as error:
            status.fail(state, error)
            return []
        cache.put(file.module_name, source, announcement)
        return announcement

    def _record(self, status: PluginStatus, announcement: Announcement) -> None:
        """Register a plugin and its descriptors, unless another plugin has announced one of the names."""
        if status not in self.plugins:
            self.plugins.append(status)
        if not announcement and status.state == "ok":
            status.fail("invalid", ANNOUNCES_NOTHING)
        owners = {(entry.kind, entry.name): entry.plugin for entry in self.entries}
        for kind, descriptor in announcement:
            if owner := owners.get((kind, descriptor.name)):
                text = f"{SINGULAR[kind]} {descriptor.name!r} is announced by {owner.name!r} ({owner.source}) already"
                status.fail("conflict", f"{text}; rename one of them")
                return
        self.entries += [Entry(kind, descriptor, status) for kind, descriptor in announcement]
