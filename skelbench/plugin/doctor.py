"""What is wrong with one plugin: where it fails by its own lines, what it needs, and what to do."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import platform
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.version import __version__, installed
from skelbench.plugin.files import PluginFile
from skelbench.plugin.host import Host
from skelbench.plugin.plugin_errors import own_places
from skelbench.plugin.status import PluginStatus, lenient, one_line
from skelbench.plugin.undisturbed import SLOW_S


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    what: str
    """Of what: ``method my-idea, target MyIdea``; "" of the plugin as a whole."""
    sentence: str
    todo: str
    own: str = ""
    """The plugin's own lines that it came through, as a traceback shows them."""
    traceback: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """What is known of a plugin whose code was imported."""

    plugin: PluginStatus
    findings: list[Finding]
    import_seconds: float
    needs: list[tuple[str, str]]
    """(distribution or module, version or what is wrong with it)."""


def host_for(name: str) -> tuple[Host, str]:
    """The host that knows plugin ``name``, with the file if it names one, and the path of that.

    Raises:
        SkelbenchError: there is no such file.
    """
    path = Path(name).expanduser()
    if path.suffix != ".py":
        with lenient():
            host = Host()
        if os.sep not in name or any(plugin.name == name for plugin in host.plugins):  # PACKAGE/MODULE
            return host, ""
    if not path.is_file():
        what = "is a folder; name a file in it" if path.is_dir() else "is not there; check the path"
        raise SkelbenchError(f"plugin file {name} {what}")
    with lenient():
        return Host([path]), str(path)


def find(host: Host, name: str, path: str = "") -> list[PluginStatus]:
    """The plugins of that name, or that announce something of that name.

    Raises:
        SkelbenchError: there is none; names the nearest.
    """
    if path:
        sha256 = PluginFile(Path(path)).sha256
        return [plugin for plugin in host.plugins if plugin.source_hash == sha256]
    found = [plugin for plugin in host.plugins if plugin.name == name]
    found += [entry.plugin for entry in host.entries if name in entry.names]
    found += [refusal.plugin for refusal in host.refusals if name in refusal.names]
    if not found:
        known = {plugin.name for plugin in host.plugins} | {entry.name for entry in host.entries}
        raise SkelbenchError(did_you_mean(name, known, "plugin", others="A file is named by its path: mine.py."))
    return list({id(plugin): plugin for plugin in found}.values())


def diagnose(host: Host, plugin: PluginStatus) -> Diagnosis:
    """Import all code of ``plugin``, and say what is wrong with it."""
    findings = list(_of_announcement(host, plugin))
    started = time.perf_counter()
    with lenient():
        raised = [(what, error) for what, error in host.import_all(plugin) if error is not None]
    seconds = time.perf_counter() - started
    for what, error in raised:
        finding = _finding(what, error, plugin)
        if not finding.own or finding.own not in [each.own for each in findings]:
            findings.append(finding)
    if plugin.seconds > SLOW_S:
        findings.append(
            Finding("", f"announcing takes {plugin.seconds:.1f} s, for which every command waits", _quicker(plugin))
        )
    return Diagnosis(plugin, findings, seconds, list(_needs(plugin)))


def environment() -> tuple[list[tuple[str, str]], list[str]]:
    """Versions and places that decide what a plugin finds, and the variables of skelbench that are set."""
    facts = [
        ("python", f"{platform.python_version()} ({sys.executable})"),
        ("platform", platform.platform()),
        ("skelbench", f"{__version__} ({Path(__file__).parents[1]})"),
        ("torch", installed("torch") or "not installed"),
        ("folder", os.getcwd()),
    ]
    return facts, [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("SKELBENCH_")]


def _of_announcement(host: Host, plugin: PluginStatus) -> Iterator[Finding]:
    for error in plugin.errors:
        yield _finding("", error, plugin)
    told = [one_line(error) for error in plugin.errors]
    clashes = [entry.clash for entry in host.entries if entry.plugin is plugin and entry.clash]
    where = plugin.path or plugin.source
    for sentence in clashes:
        yield Finding("", sentence, f"rename one of them: in {where}, or in the other plugin")
    if plugin.state != "ok" and not told and not clashes:
        todo = (
            "" if plugin.state == "api-mismatch" else f"correct {where}; `skelbench plugins new` writes one that works"
        )
        yield Finding("", plugin.error, todo)


def _finding(what: str, error: BaseException, plugin: PluginStatus) -> Finding:
    wrapped = isinstance(error, SkelbenchError) and error.__cause__ is not None
    raised = error.__cause__ if wrapped and error.__cause__ else error
    frames = traceback.StackSummary.extract(own_places(raised))
    own = "".join([*frames.format(), *traceback.format_exception_only(raised)]).rstrip()
    full = "" if isinstance(raised, SkelbenchError) else "".join(traceback.format_exception(raised)).rstrip()
    place = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else plugin.path or plugin.source
    return Finding(what, one_line(error), _todo(raised, place), own, full)


def _todo(error: BaseException, place: str) -> str:
    match error:
        case SkelbenchError():
            return ""
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] == "skelbench":
            return (
                f"skelbench {__version__} has no module {name}: correct the import, or install the skelbench it is for"
            )
        case ModuleNotFoundError(name=str(name)):
            return f"install what has the module {name} (pip install ...), or correct the import: {place}"
        case ImportError(name=str(name)) if name.partition(".")[0] in ("skelbench", "skelbench_plugins"):
            return f"skelbench {__version__} has none in {name}: correct the import, or install the skelbench it is for"
        case SyntaxError():
            return f"correct line {error.lineno} of {error.filename}"
        case SystemExit():
            return (
                f"nothing may end the process while a plugin is read; put it under if __name__ == '__main__': {place}"
            )
        case OSError():
            return f"check the path, or read the file where it is needed and not while the plugin is read: {place}"
    return f"correct {place}"


def _quicker(plugin: PluginStatus) -> str:
    whole = plugin.path and PluginFile(Path(plugin.path)).top_level.slice() is None
    first = "it is imported whole, as its top level calls or decorates with functions of its own; " if whole else ""
    return f"{first}import inside the functions that need it what the hooks do not use: {plugin.path or plugin.source}"


def _needs(plugin: PluginStatus) -> Iterator[tuple[str, str]]:
    """What the distribution requires, and what the file imports besides."""
    named = set()
    for text in importlib.metadata.requires(plugin.dist) or () if plugin.dist not in ("", "skelbench") else ():
        needed = Requirement(text)
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            named.add(needed.name.lower())
            version = installed(needed.name)
            fits = version and needed.specifier.contains(version, prereleases=True)
            yield str(needed), version if version and fits else f"{version or 'not installed'}: does not fit"
    if not plugin.path:
        return
    try:
        body = PluginFile(Path(plugin.path)).top_level.body
    except (OSError, SyntaxError, ValueError):
        return
    imported = {alias.name for each in body if isinstance(each, ast.Import) for alias in each.names}
    imported |= {each.module for each in body if isinstance(each, ast.ImportFrom) and each.module and not each.level}
    for module in sorted({name.partition(".")[0] for name in imported} - sys.stdlib_module_names - {"skelbench"}):
        if module.lower() not in named:
            yield module, _version_of_module(module)


def _version_of_module(module: str) -> str:
    if version := installed(module):
        return version
    distributions = importlib.metadata.packages_distributions().get(module, [])
    return ", ".join(f"{name} {installed(name)}" for name in distributions) or "of no installed distribution"
