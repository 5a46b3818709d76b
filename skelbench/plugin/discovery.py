"""Finds plugins: every one is read and called on its own, a broken one is a status line.

Sources, in order: the places inside skelbench (``skelbench.plugin.builtins``), installed distributions that announce
an entry
point of group ``skelbench``, and single files (``--plugin FILE``, ``SKELBENCH_PLUGIN_PATH``).

``SKELBENCH_PLUGINS="a,b"`` loads only these entry points ("" loads none), ``SKELBENCH_STRICT=1`` raises what would
otherwise become a status; :mod:`skelbench.core.user_config` reads them.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from skelbench.core import user_config
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.version import __version__
from skelbench.plugin import builtins
from skelbench.plugin.collect import Announced, Manager
from skelbench.plugin.descriptors import API_VERSION, KINDS, ComponentSpec
from skelbench.plugin.files import PluginFile, files_on_path, installed_files
from skelbench.plugin.hookspecs import PROJECT, SURFACE
from skelbench.plugin.plugin_errors import GROUP
from skelbench.plugin.slices import FAMILIES
from skelbench.plugin.status import SINGULAR, Entry, PluginStatus, Refusal, names_of, one_line, strict, unavailable
from skelbench.plugin.undisturbed import limit_s, undisturbed
from skelbench.plugin.validate import descriptor_problem, needs_api

BUILTIN, OWN_DIST = "builtin", "skelbench"
ANNOUNCES_NOTHING = (
    "announces nothing: no function of it is decorated with @hookimpl, no class is a component with a kind"
)


class Discovery:
    """The plugins of this process, read once."""

    def __init__(self, extra_files: list[Path]) -> None:
        limit_s()  # that it is no number is not a plugin's fault
        self.plugins: list[PluginStatus] = []
        self.entries: list[Entry] = []
        self.refusals: list[Refusal] = []
        self.single: dict[str, PluginFile] = {}
        """Single files by the name of their module."""
        self.unimported: list[tuple[PluginStatus, PluginFile, list[str]]] = []
        """Files with observers, which hooks of them; imported when the first of these is called."""
        self.manager = Manager(PROJECT)
        self.manager.add_hookspecs(SURFACE)
        self._modules: dict[str, PluginStatus] = {}
        self._families = dict(FAMILIES)
        builtin = PluginStatus(BUILTIN, OWN_DIST, __version__, BUILTIN)
        self.plugins.append(builtin)
        for place in builtins.PLACES:
            for file in installed_files(place, self._families):
                if file.announces(self._families):
                    self._admit_file(builtin, file)
        components = [entry for entry in self.entries if isinstance(entry.descriptor, ComponentSpec)]
        self._families |= {entry.descriptor.target.partition(":")[2]: entry.kind for entry in components}
        for entry_point in self._selected_entry_points():
            self._admit_entry_point(entry_point)
        for path in dict.fromkeys([*extra_files, *files_on_path()]):
            self._admit_single(path, requested=path in extra_files)
        self._refuse_clashes()

    def _selected_entry_points(self) -> list[importlib.metadata.EntryPoint]:
        found = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: e.name)
        wanted, source = user_config.found("entry_points")
        if wanted is None:
            return found
        for name in wanted:
            if name not in [e.name for e in found]:
                status = PluginStatus(name, source=source)
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
                inside = file.module.replace(".", "/")
                source = f"{inside}/__init__.py" if file.path.name == "__init__.py" else f"{inside}{file.path.suffix}"
                self._admit_file(status(file.module.removeprefix(f"{entry_point.module}."), source), file)

    def _admit_single(self, path: Path, requested: bool) -> None:
        status = PluginStatus(self._free_name(path.stem, path.name, str(path)), source=str(path), requested=requested)
        file = PluginFile(path)
        try:
            status.source_hash = file.sha256
        except OSError as error:
            self.plugins.append(status)
            why = "the folder holds no plugin file (*.py)" if path.is_dir() else error.strerror or error
            where = "--plugin" if requested else user_config.found("plugins").source
            status.fail("import-error", f"cannot read {path}: {why}; correct {where}", error)
            return
        if file.module_name in self.single:
            return  # the same content under another path
        self.plugins.append(status)
        self.single[file.module_name] = file
        self._admit_file(status, file)

    def _admit_file(self, status: PluginStatus, file: PluginFile) -> None:
        status.path = str(file.path)
        with _reading(status, file):
            if file.module and (twin := self._modules.setdefault(file.module, status)) is not status:
                status.fail("invalid", f"names the same module as plugin {twin.name!r}")
                return
            announced = Announced.by_file(
                file, self.manager, self._families, named=status.requested or not status.source_hash
            )
            if announced.observers:
                self.unimported.append((status, file, announced.observers))
            self._record(status, announced, file)
        if status.state != "ok":
            self._refuse_unread(status, file)

    def _refuse_unread(self, status: PluginStatus, file: PluginFile) -> None:
        """What the text of a file that failed names is not available, which is said to who asks for it."""
        known = {(each.kind, each.names) for each in self.entries} | {(each.kind, each.names) for each in self.refusals}
        for spec, name in file.named():
            for kind in (kind for kind, descriptor in KINDS.items() if descriptor.__name__ == spec):
                if (kind, names_of(name, status)) not in known:
                    self.refusals.append(Refusal(kind, names_of(name, status), unavailable(kind, name, status), status))

    def _admit_object(self, status: PluginStatus, load: Callable[[], Any]) -> None:
        with _reading(status):
            plugin = load()
            announced = Announced.by_object(plugin, self.manager)
            if announced.observers:
                self.manager.register(plugin, status.name)
            self._record(status, announced)

    def _record(self, status: PluginStatus, announced: Announced, file: PluginFile | None = None) -> None:
        """Enter the descriptors that hold; the others become problems of the plugin."""
        status.renamed += announced.renamed
        if announced.problems and file and (newer := _newer(file)):
            status.fail("api-mismatch", newer)
        for sentence, error in announced.problems:
            status.fail("invalid", sentence, error)
        if announced.empty and status.state == "ok":
            status.fail("invalid", ANNOUNCES_NOTHING)
        for kind, values in announced.values.items():
            names: set[str] = set()
            for value in values:
                problem = descriptor_problem(kind, value, own_file=file is not None)
                status.renamed += getattr(value, "renamed", ())
                if problem is None and value.name in names:
                    problem = "invalid", f"{SINGULAR[kind]} {value.name!r} is announced twice"
                if problem is None:
                    try:
                        self.entries.append(Entry(kind, value.name, file.own(value) if file else value, status))
                        names.add(value.name)
                    except SkelbenchError as error:
                        problem = "invalid", str(error)
                if problem is not None:
                    status.fail(*problem)
                    if isinstance(name := getattr(value, "name", None), str):
                        sentence = f"{SINGULAR[kind]} {name!r} of plugin {status.name!r} is refused: {problem[1]}"
                        self.refusals.append(Refusal(kind, names_of(name, status), sentence, status))

    def _refuse_clashes(self) -> None:
        groups: dict[tuple[str, str], list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault((entry.kind, entry.name), []).append(entry)
        for (kind, name), entries in groups.items():
            if len(entries) < 2:
                continue
            owners = " and ".join(f"{e.plugin.name!r} ({e.plugin.source})" for e in entries)
            choices = " or ".join(repr(e.names[1]) for e in entries)
            sentence = f"{SINGULAR[kind]} {name!r} is announced by plugins {owners}; write {choices}"
            own = [entry for entry in entries if entry.plugin.dist == OWN_DIST]
            if len(own) == 1 and not any(entry.plugin.requested for entry in entries):
                # A file that merely lies on the path does not take a name away: runs go on meaning what they meant.
                entries = [entry for entry in entries if entry not in own]
                choices = " or ".join(repr(e.names[1]) for e in entries)
                sentence = f"{SINGULAR[kind]} {name!r} is skelbench's own; write {choices} for the one of the plugin"
            for entry in entries:
                entry.clash = sentence
                entry.plugin.fail("conflict", sentence)


@contextmanager
def _reading(status: PluginStatus, file: PluginFile | None = None) -> Iterator[None]:
    """Times what is done for one plugin, of which the process notices nothing; what it raises becomes its status.

    Also what is no ``Exception``: a file of tests that is skipped, a limit of time. Ctrl-C ends the reading.
    """
    started = time.perf_counter()
    try:
        with nullcontext() if status.source == BUILTIN else undisturbed(status.remarks, limit_s()):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if strict():
            raise
        if file and (newer := _newer(file)):
            status.fail("api-mismatch", newer)
        status.fail("import-error", one_line(error), error)
    finally:
        status.seconds += time.perf_counter() - started


def _newer(file: PluginFile) -> str:
    """Why a file that says it is for a newer plugin API may fail here; "" where it does not say so."""
    return f"it is {needs_api(file.api)}" if file.api > API_VERSION else ""
