"""Import all code of one plugin, and explain what is wrong with it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.plugin.files import PluginFile, named_file
from skelbench.plugin.host import Host
from skelbench.plugin.plugin_errors import own_places
from skelbench.plugin.status import SINGULAR, PluginStatus, one_line


@dataclass(frozen=True)
class Finding:
    """One problem of a plugin."""

    message: str
    todo: str
    """The nearest fix; "" = the message says it."""
    own: str = ""
    """Lines of the plugin that the error came through, as a traceback shows them."""


def host_for(name: str) -> tuple[Host, str]:
    """Return the host that knows plugin ``name``, and the path if ``name`` is a file."""
    if not name.endswith(".py"):
        host = Host(strict=False)
        if os.sep not in name or any(plugin.name == name for plugin in host.plugins):  # PACKAGE/MODULE
            return host, ""
    path = named_file(name, f"plugin file {name}")
    return Host([path], strict=False), str(path)


def find(host: Host, name: str, path: str = "") -> list[PluginStatus]:
    """Return the plugins called ``name``, or that announce something called ``name``; SkelbenchError if none does."""
    if path:
        sha256 = PluginFile(Path(path)).sha256
        return [plugin for plugin in host.plugins if plugin.source_hash == sha256]
    found = [plugin for plugin in host.plugins if plugin.name == name or plugin.might_have(name)]
    found += [entry.plugin for entry in host.entries if name in entry.names]
    if not found:
        known = {plugin.name for plugin in host.plugins} | {entry.name for entry in host.entries}
        raise SkelbenchError(did_you_mean(name, known, "plugin", others="A file is named by its path: mine.py."))
    return list(dict.fromkeys(found))


def diagnose(host: Host, plugin: PluginStatus) -> list[Finding]:
    """Import all code of ``plugin``; return what is wrong, each error once."""
    findings = [_finding("", error, plugin) for error in plugin.errors]
    place = plugin.path or plugin.source
    if plugin.state == "conflict":
        findings.append(Finding(plugin.error, f"rename one of them: in {place}, or in the other plugin"))
    elif plugin.state != "ok" and not plugin.errors:
        fix = f"correct {place}; `skelbench plugins new` writes one that works"
        findings.append(Finding(plugin.error, "upgrade skelbench" if plugin.state == "api-mismatch" else fix))
    for finding in (_finding(title, error, plugin) for title, error in _import_errors(host, plugin)):
        if not finding.own or finding.own not in [each.own for each in findings]:
            findings.append(finding)
    return findings


def _import_errors(host: Host, plugin: PluginStatus) -> Iterator[tuple[str, BaseException]]:
    for entry in (entry for entry in host.entries if entry.plugin is plugin):
        for place in entry.descriptor.places:
            if target := getattr(entry.descriptor, place):
                try:
                    host.load(entry.descriptor, place)
                except (Exception, SystemExit) as error:
                    yield f"{SINGULAR[entry.kind]} {entry.name}, {place} {target.partition(':')[2]}: ", error


def _finding(title: str, error: BaseException, plugin: PluginStatus) -> Finding:
    raised = error.__cause__ if isinstance(error, SkelbenchError) and error.__cause__ else error
    frames = traceback.StackSummary.extract(own_places(raised))
    own = "".join([*frames.format(), *traceback.format_exception_only(raised)]).rstrip()
    todo = f"correct {frames[-1].filename}, line {frames[-1].lineno}" if frames else f"correct {plugin.path}"
    if isinstance(raised, SyntaxError):
        todo = f"correct line {raised.lineno} of {raised.filename}"
    elif isinstance(raised, ModuleNotFoundError) and not str(raised.name).startswith("skelbench"):
        todo = f"install what has the module {raised.name} (pip install ...), or {todo}"
    return Finding(title + one_line(error), "" if isinstance(raised, SkelbenchError) else todo, own)
