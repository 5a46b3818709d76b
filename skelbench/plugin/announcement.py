"""Call the hooks of an imported plugin, collect its components, and check what both announce."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any, TypeVar

import pluggy

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.plugin.cache import Announcement
from skelbench.plugin.descriptors import KINDS, ComponentSpec, Descriptor
from skelbench.plugin.files import PluginFile
from skelbench.plugin.hookspecs import HOOKS, OBSERVERS, PROJECT, SURFACE
from skelbench.plugin.status import SINGULAR, State, one_line
from skelbench.plugin.validate import descriptor_problem

AnyDescriptor = TypeVar("AnyDescriptor", bound=Descriptor)
Report = Callable[[State, str, BaseException | None], None]
"""Called with state, sentence and exception of each problem."""


def announced(plugin: object, file: PluginFile | None, report: Report) -> Announcement:
    """Return everything that ``plugin`` announces, a module or another object; problems go to ``report``."""
    found = Announcement()
    values: list[tuple[str, Any]] = []
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(SURFACE)
    for sentence in _misspelt(plugin, manager):
        report("invalid", sentence, None)
    try:
        manager.register(plugin)
    except (pluggy.PluginValidationError, ValueError) as error:
        report("invalid", one_line(error), error)
    for caller in manager.get_hookcallers(plugin) or []:
        if caller.name in OBSERVERS:
            found.observers.append(caller.name)
        elif caller.name in HOOKS:
            kind = caller.name.removeprefix("skelbench_")
            try:
                values += [(kind, value) for value in _listed(caller.get_hookimpls()[0].function(), kind)]
            except (Exception, SystemExit) as error:
                report("invalid", f"{caller.name}: {one_line(error)}", error)
    by_hook = {(kind, getattr(value, "name", None)) for kind, value in values}
    for kind, component in _components(plugin):
        if (kind, component.name) not in by_hook:  # a hook may have more to say of a class
            values.append((kind, component))
    for kind, value in values:
        problem = descriptor_problem(kind, value, own_file=file is not None)
        if problem is None and any((kind, value.name) == (other, each.name) for other, each in found.descriptors):
            problem = "invalid", f"{SINGULAR[kind]} {value.name!r} is announced twice"
        if problem is not None:
            report(*problem, None)
            continue
        try:
            found.descriptors.append((kind, _with_modules(value, plugin, file) if file else value))
        except SkelbenchError as error:
            report("invalid", str(error), None)
    for target in [getattr(descriptor, descriptor.settings_from, "") for _, descriptor in found.descriptors]:
        module, _, name = target.partition(":")
        with suppress(Exception, SystemExit):  # the first use reports a target that cannot be imported
            found.settings[target] = list(attrgetter(name)(import_module(module)).model_fields)
    return found


def _misspelt(plugin: object, manager: pluggy.PluginManager) -> Iterator[str]:
    """Hooks that pluggy accepts or ignores without a word: unknown names, and functions without the decorator."""
    for attribute in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, attribute)
        name = (options and options["specname"]) or attribute
        undecorated = options is None and inspect.isfunction(inspect.getattr_static(plugin, attribute))
        if options is not None or (undecorated and attribute.startswith("skelbench_")):
            if name not in HOOKS:
                yield did_you_mean(name, HOOKS, "hook")
            elif undecorated:
                yield f"{name} lacks the decorator @hookimpl"


def _listed(value: Any, kind: str) -> list[Any]:
    if value is None or isinstance(value, Descriptor):
        raise SkelbenchError(f"returned {type(value).__name__}, not a list of {KINDS[kind].__name__}")
    return list(value)


def _components(plugin: object) -> Iterator[tuple[str, ComponentSpec]]:
    """Descriptors of the classes of a module that belong to a family and have a ``kind`` of their own."""
    for cls in vars(plugin).values() if isinstance(plugin, ModuleType) else ():
        if isinstance(cls, type) and cls.__module__ == getattr(plugin, "__name__", "") and vars(cls).get("kind"):
            family, kind = getattr(cls, "family", ""), vars(cls)["kind"]
            if KINDS.get(family) is ComponentSpec:
                summary = " ".join(inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].replace("``", "").split())
                summary = summary.partition(". ")[0].rstrip(".")
                version = getattr(cls, "version", 1)
                yield family, ComponentSpec(name=kind, target=f":{cls.__name__}", summary=summary, version=version)


def _with_modules(descriptor: AnyDescriptor, plugin: object, file: PluginFile) -> AnyDescriptor:
    """Return ``descriptor`` with ``":Name"`` (for a single file also ``"file:Name"``) naming the module of ``file``.

    Raises:
        SkelbenchError: the module has no such name; names the nearest class.
    """
    stems = ("", file.module_name) if file.module else ("", file.module_name, file.path.stem)
    targets: dict[str, Any] = {}
    for place in descriptor.places:
        stem, _, attribute = getattr(descriptor, place).partition(":")
        if attribute and stem in stems:
            if not hasattr(plugin, attribute.partition(".")[0]):
                classes = [name for name, value in vars(plugin).items() if isinstance(value, type)]
                raise SkelbenchError(did_you_mean(attribute, classes, f"name in {file.path.name},"))
            targets[place] = f"{file.module_name}:{attribute}"
    return replace(descriptor, **targets)
