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
from skelbench.plugin.status import PluginStatus, one_line


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    title: str
    """``method my-idea, target MyIdea``; "" = the plugin as a whole."""
    sentence: str
    todo: str
    own: str = ""
    """Lines of the plugin that the error came through, as a traceback shows them."""
    traceback: str = ""


def host_for(name: str) -> tuple[Host, str]:
    """Return the host that knows plugin ``name``, and the path if ``name`` is a file."""
    if not name.endswith(".py"):
        host = Host(strict=False)
        if os.sep not in name or any(plugin.name == name for plugin in host.plugins):  # PACKAGE/MODULE
            return host, ""
    path = named_file(name, f"plugin file {name}")
    return Host([path], strict=False), str(path)


def find(host: Host, name: str, path: str = "") -> list[PluginStatus]:
    """Return the plugins called ``name``, or that announce something called ``name``.

    Raises:
        SkelbenchError: there is none; names the nearest.
    """
    if path:
        sha256 = PluginFile(Path(path)).sha256
        return [plugin for plugin in host.plugins if plugin.source_hash == sha256]
    found = [plugin for plugin in host.plugins if plugin.name == name]
    found += [entry.plugin for entry in host.entries if name in entry.names]
    found += [plugin for plugin in host.plugins if plugin.might_have(name)]
    if not found:
        known = {plugin.name for plugin in host.plugins} | {entry.name for entry in host.entries}
        raise SkelbenchError(did_you_mean(name, known, "plugin", others="A file is named by its path: mine.py."))
    return list({id(plugin): plugin for plugin in found}.values())


def diagnose(host: Host, plugin: PluginStatus) -> list[Finding]:
    """Import all code of ``plugin``; return what is wrong, each error once."""
    findings = list(_of_announcement(host, plugin))
    for title, error in host.import_all(plugin):
        finding = _finding(title, error, plugin)
        if not finding.own or finding.own not in [each.own for each in findings]:
            findings.append(finding)
    return findings


def _of_announcement(host: Host, plugin: PluginStatus) -> Iterator[Finding]:
    for error in plugin.errors:
        yield _finding("", error, plugin)
    clashes = [entry.clash for entry in host.entries if entry.plugin is plugin and entry.clash]
    where = plugin.path or plugin.source
    for sentence in clashes:
        yield Finding("", sentence, f"rename one of them: in {where}, or in the other plugin")
    if plugin.state != "ok" and not plugin.errors and not clashes:
        upgrade = plugin.state == "api-mismatch"
        todo = "upgrade skelbench" if upgrade else f"correct {where}; `skelbench plugins new` writes one that works"
        yield Finding("", plugin.error, todo)


def _finding(title: str, error: BaseException, plugin: PluginStatus) -> Finding:
    raised = error.__cause__ if isinstance(error, SkelbenchError) and error.__cause__ else error
    frames = traceback.StackSummary.extract(own_places(raised))
    own = "".join([*frames.format(), *traceback.format_exception_only(raised)]).rstrip()
    full = "" if isinstance(raised, SkelbenchError) else "".join(traceback.format_exception(raised)).rstrip()
    place = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else plugin.path or plugin.source
    match raised:
        case SkelbenchError():
            todo = ""
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] != "skelbench":
            todo = f"install what has the module {name} (pip install ...), or correct the import: {place}"
        case SyntaxError():
            todo = f"correct line {raised.lineno} of {raised.filename}"
        case _:
            todo = f"correct {place}"
    return Finding(title, one_line(error), todo, own, full)
