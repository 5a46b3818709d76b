"""Checks of what a plugin announces: its hooks before they are called, its descriptors after."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pluggy

from skelbench.core.errors import nearest
from skelbench.core.version import __version__
from skelbench.plugin.descriptors import API_VERSION, KINDS, Descriptor, NativeProbe, Stage
from skelbench.plugin.hookspecs import HOOKS
from skelbench.plugin.space import space_problem
from skelbench.plugin.status import State

SLUG = re.compile(r"[a-z0-9][a-z0-9._@-]*")
VARIANT = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""Goes behind a colon on the command line and into the name of a directory, where ``@`` stands before an epoch."""
TARGET = re.compile(r"([A-Za-z_][\w.]*)?:[A-Za-z_][\w.]*")


def hook_problems(plugin: object, manager: pluggy.PluginManager) -> Iterator[str]:
    """What pluggy would accept in silence (misspelt hooks, hooks without ``@hookimpl``, wrappers), and parameters that
    no hook is given, which it refuses in words of its own."""
    for attribute in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, attribute)
        if options is None:
            yield from _undecorated(plugin, attribute)
            continue
        name = options.get("specname") or attribute
        if name not in HOOKS:
            yield f"there is no hook {name!r}{_nearest(name)}"
        elif options.get("wrapper") or options.get("hookwrapper"):
            yield f"{name} is declared as a wrapper: plugins may add and watch, not wrap"
        else:
            given = inspect.signature(HOOKS[name]).parameters
            wanted = inspect.signature(getattr(plugin, attribute)).parameters.values()
            unknown = [repr(each.name) for each in wanted if each.default is each.empty and each.name not in given]
            if unknown and all(each.kind is each.POSITIONAL_OR_KEYWORD for each in wanted):
                yield f"{name} is given no {', '.join(unknown)}; write def {attribute}({', '.join(given)})"


def _undecorated(plugin: object, attribute: str) -> Iterator[str]:
    if not attribute.startswith("skelbench_"):
        return
    value = inspect.getattr_static(plugin, attribute)
    if not inspect.isfunction(value) or value is HOOKS.get(attribute):
        return
    if attribute in HOOKS:
        yield f"{attribute} lacks the decorator @hookimpl"
    else:
        yield f"there is no hook {attribute!r}{_nearest(attribute)}"


def _nearest(name: str) -> str:
    near = nearest(name, HOOKS)
    return f"; did you mean {near!r}?" if near else f"; hooks: {', '.join(HOOKS)}"


def descriptor_problem(kind: str, value: Any, *, own_file: bool = False) -> tuple[State, str] | None:
    """(state, sentence) if ``value`` is no valid descriptor of ``kind``, else None.

    ``own_file``: targets may leave out the module (``":Class"``), as in every plugin file.
    """
    expected = KINDS[kind]
    if not isinstance(value, expected):
        return "invalid", f"skelbench_{kind} returned {_brief(value)} where {expected.__name__} is expected"
    what = f"{expected.__name__} {value.name!r}"
    if not isinstance(value.api, int) or isinstance(value.api, bool) or value.api < 1:
        return "invalid", f"{what} has api={value.api!r}, a positive integer is expected"
    if value.api > API_VERSION:
        return "api-mismatch", f"{what} is {needs_api(value.api)}"
    if not isinstance(value.name, str) or not SLUG.fullmatch(value.name):
        return "invalid", f"{what}: the name must be lower case letters, digits, '-', '_', '@' and '.'"
    return _field_problem(what, value, own_file)


def needs_api(api: int) -> str:
    """What is said of what is for a newer plugin API."""
    return f"for plugin API {api}, skelbench {__version__} has {API_VERSION}; upgrade skelbench"


def _field_problem(what: str, value: Descriptor, own_file: bool) -> tuple[State, str] | None:
    for field in value.places:
        text = getattr(value, field)
        if field != "target" and text == "":
            continue
        if not isinstance(text, str) or not TARGET.fullmatch(text) or (text.startswith(":") and not own_file):
            return "invalid", f"{what}: {field}={text!r} is not of the form 'package.module:Name'"
    for field in (
        "summary",
        "spelling",
        "citation",
        "licence",
        "default_split",
        "readings",
        "table",
        "file",
        "install",
    ):
        if not isinstance(getattr(value, field, ""), str):
            return "invalid", f"{what}: {field} must be text"
    excuses = value.expected_failures
    if not isinstance(excuses, Mapping) or not all(isinstance(t, str) and t for e in excuses.items() for t in e):
        return "invalid", f"{what}: expected_failures must map names of checks to reasons"
    if type(value.version) is not int or value.version < 0:
        return "invalid", f"{what}: version={value.version!r} is not an integer from 0 on"
    for field in ("trains", "elsewhere"):
        if not isinstance(getattr(value, field, True), bool):
            return "invalid", f"{what}: {field}={getattr(value, field)!r} is neither True nor False"
    requires = getattr(value, "requires", ())
    if not isinstance(requires, tuple | list) or not all(isinstance(ability, str) for ability in requires):
        return "invalid", f"{what}: requires={requires!r} is not a tuple of names of abilities"
    for field, of in (("packages", "modules"), ("files", "files"), ("splits", "splits")):
        names = getattr(value, field, ())
        if not isinstance(names, tuple | list) or not all(isinstance(name, str) and name for name in names):
            return "invalid", f"{what}: {field}={names!r} is not a tuple of names of {of}"
    layers = ("recipe", "native", "defaults", "notes", "presets", "variants")
    mappings = [getattr(value, name, {}) for name in layers]
    mappings.append(getattr(getattr(value, "stage", None), "alone", {}))
    for name in ("presets", "variants"):
        several = getattr(value, name, {})
        mappings += several.values() if isinstance(several, Mapping) else ()
    probe = getattr(value, "probe", None)
    if probe is not None and not (isinstance(probe, NativeProbe) and isinstance(probe.protocol, str)):
        return "invalid", f"{what}: probe={probe!r} is not a NativeProbe with the name of a protocol"
    mappings += [probe.settings] if probe is not None else []
    named = getattr(value, "variants", {})  # whose names are looked at below
    keys = (key for mapping in mappings if isinstance(mapping, Mapping) and mapping is not named for key in mapping)
    if not all(isinstance(mapping, Mapping) for mapping in mappings) or not all(isinstance(key, str) for key in keys):
        return "invalid", (
            f"{what}: recipe, native, defaults, notes, alone of a stage, settings of a probe, and every preset and "
            "variant must be mappings of keys to values; keys are text"
        )
    stage = getattr(value, "stage", None)
    after = getattr(stage, "after", ())
    names = isinstance(after, tuple | list) and after and all(isinstance(name, str) for name in after)
    if stage is not None and not (isinstance(stage, Stage) and names):
        return "invalid", f"{what}: stage={stage!r} is not a Stage after the names of other methods"
    if problem := space_problem(getattr(value, "space", {})):
        return "invalid", f"{what}: its space {problem}"
    for name in getattr(value, "variants", {}):
        if not isinstance(name, str) or not VARIANT.fullmatch(name):
            return "invalid", f"{what}: variant {name!r} must be named by lower case letters, digits, '-', '_' and '.'"
    return None


def _brief(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text}" if len(text) <= 60 else type(value).__name__
