"""Call the hooks of an imported plugin, collect its components, and check what both announce."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any

import pluggy
from pydantic import TypeAdapter, ValidationError

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.version import __version__
from skelbench.plugin.cache import Announcement
from skelbench.plugin.descriptors import API_VERSION, KINDS, ComponentSpec, Descriptor
from skelbench.plugin.files import PluginFile
from skelbench.plugin.hookspecs import HOOKS, OBSERVERS, PROJECT, SURFACE
from skelbench.plugin.space import space_problem
from skelbench.plugin.status import SINGULAR, State, one_line

ADAPTERS = {kind: TypeAdapter(descriptor) for kind, descriptor in KINDS.items()}
SLUG = re.compile(r"[a-z0-9][a-z0-9._@-]*")
VARIANT = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""Part of a directory name, in which ``@`` stands before an epoch."""
TARGET = re.compile(r"([A-Za-z_][\w.]*)?:[A-Za-z_][\w.]*")

Report = Callable[[State, str, BaseException | None], None]
"""Called with state, message and exception of each problem."""


def announced(module: ModuleType, file: PluginFile, report: Report) -> Announcement:
    """Return everything that the ``module`` of a plugin announces; problems go to ``report``."""
    found = Announcement()
    values: list[tuple[str, Any]] = []
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(SURFACE)
    for message in _misspelled(module, manager):
        report("invalid", message, None)
    try:
        manager.register(module)
    except pluggy.PluginValidationError as error:  # a hook with other arguments
        report("invalid", one_line(error), error)
    for caller in manager.get_hookcallers(module) or []:
        try:
            if caller.name in OBSERVERS:
                found.observers.append(caller.name)
            elif caller.name in HOOKS:
                values += _listed(caller)
        except (Exception, SystemExit) as error:
            report("invalid", f"{caller.name}: {one_line(error)}", error)
    by_hook = {(kind, getattr(value, "name", None)) for kind, value in values}
    values += [(kind, part) for kind, part in _components(module) if (kind, part.name) not in by_hook]
    for kind, value in values:
        problem = descriptor_problem(kind, value)
        if problem is None and any((kind, value.name) == (other, each.name) for other, each in found.descriptors):
            problem = "invalid", f"{SINGULAR[kind]} {value.name!r} is announced twice"
        try:
            if problem:
                report(*problem, None)
            else:
                found.descriptors.append((kind, _with_modules(value, module, file)))
        except SkelbenchError as error:
            report("invalid", str(error), None)
    for target in [getattr(descriptor, descriptor.settings_from, "") for _, descriptor in found.descriptors]:
        name, _, attribute = target.partition(":")
        with suppress(Exception, SystemExit):  # the first use reports a target that cannot be imported
            found.settings[target] = list(attrgetter(attribute)(import_module(name)).model_fields)
    return found


def _misspelled(module: ModuleType, manager: pluggy.PluginManager) -> Iterator[str]:
    """Yield messages about functions that look like hooks: unknown names, and hooks without the decorator."""
    for name, value in vars(module).items():
        if inspect.isfunction(value):
            decorated = manager.parse_hookimpl_opts(module, name) is not None
            if name not in HOOKS and (decorated or name.startswith("skelbench_")):
                yield did_you_mean(name, HOOKS, "hook")
            elif name in HOOKS and not decorated:
                yield f"{name} lacks the decorator @hookimpl"


def _listed(caller: pluggy.HookCaller) -> list[tuple[str, Any]]:
    """Call a hook of one plugin; return (kind, descriptor) of everything that it lists."""
    kind, (listed,) = caller.name.removeprefix("skelbench_"), caller() or (None,)
    if listed is None or isinstance(listed, Descriptor):
        raise SkelbenchError(f"returned {type(listed).__name__}, not a list of {KINDS[kind].__name__}")
    return [(kind, value) for value in listed]


def descriptor_problem(kind: str, value: Any) -> tuple[State, str] | None:
    """Return (state, message) if ``value`` is no valid descriptor of ``kind``, else None."""
    expected = KINDS[kind]
    if not isinstance(value, expected):
        return "invalid", f"skelbench_{kind} returned {value!r:.60} where {expected.__name__} is expected"
    what = f"{expected.__name__} {value.name!r}"
    if isinstance(value.api, int) and value.api > API_VERSION:
        message = f"{what} is for plugin API {value.api}, skelbench {__version__} has {API_VERSION}; upgrade skelbench"
        return "api-mismatch", message
    problem = next(_problems(kind, value), None)
    return ("invalid", f"{what}: {problem}") if problem else None


def _problems(kind: str, value: Any) -> Iterator[str]:
    if not SLUG.fullmatch(str(value.name)):
        yield "the name must be lower case letters, digits, '-', '_', '@' and '.'"
    if problem := space_problem(getattr(value, "space", {})):
        yield f"its space {problem}"
    try:
        ADAPTERS[kind].validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        yield f"{'.'.join(map(str, first['loc']))}={first['input']!r:.60}: {first['msg']}"
    for place in value.places:
        target = getattr(value, place)
        if (target or place == "target") and not TARGET.fullmatch(target):
            yield f"{place}={target!r} is not of the form 'package.module:Name'"
    if (stage := getattr(value, "stage", None)) and not stage.after:
        yield "its stage names no method that it starts from"
    for name in getattr(value, "variants", {}):
        if not VARIANT.fullmatch(name):
            yield f"variant {name!r} must be named by lower case letters, digits, '-', '_' and '.'"


def _components(module: ModuleType) -> Iterator[tuple[str, ComponentSpec]]:
    """Yield descriptors of the classes of a module that belong to a family and have a ``kind`` of their own."""
    for cls in vars(module).values():
        if not isinstance(cls, type) or cls.__module__ != module.__name__ or not vars(cls).get("kind"):
            continue
        if KINDS.get(family := getattr(cls, "family", "")) is ComponentSpec:
            first = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].replace("``", "")
            summary = " ".join(first.split()).partition(". ")[0].rstrip(".")
            names = {"name": vars(cls)["kind"], "target": f":{cls.__name__}"}
            yield family, ComponentSpec(**names, summary=summary, version=getattr(cls, "version", 1))


def _with_modules(descriptor: Descriptor, module: ModuleType, file: PluginFile) -> Descriptor:
    """Return ``descriptor`` with ``":Name"`` (for a single file also ``"file:Name"``) naming the module of ``file``.

    Raises:
        SkelbenchError: the module has no such name; names the nearest class.
    """
    stems = ("", file.module_name) if file.module else ("", file.module_name, file.path.stem)
    targets: dict[str, Any] = {}
    for place in descriptor.places:
        stem, _, attribute = getattr(descriptor, place).partition(":")
        if attribute and stem in stems:
            if not hasattr(module, attribute.partition(".")[0]):
                classes = [name for name, value in vars(module).items() if isinstance(value, type)]
                raise SkelbenchError(did_you_mean(attribute, classes, f"name in {file.path.name},"))
            targets[place] = f"{file.module_name}:{attribute}"
    return replace(descriptor, **targets)
