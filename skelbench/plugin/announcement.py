"""Hooks of plugins, and the components of a module: collect and check everything that an imported plugin announces.

``skelbench_<kind>()`` returns a list of descriptors of one of :data:`~skelbench.plugin.descriptors.KINDS`
(``skelbench_methods`` of MethodSpec, ``skelbench_tables`` of TableSpec, ...).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any

import pluggy

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.plugin.descriptors import KINDS, ComponentSpec, Descriptor
from skelbench.plugin.files import PluginFile
from skelbench.plugin.space import space_problem
from skelbench.plugin.status import SINGULAR, one_line

hookimpl = pluggy.HookimplMarker("skelbench")
"""Marks a function ``skelbench_<kind>`` at the top level of a plugin as one that announces descriptors."""
SLUG = re.compile(r"[a-z0-9][a-z0-9._@-]*")


def announced(module: ModuleType, file: PluginFile) -> list[tuple[str, Descriptor]]:
    """Return (kind, descriptor) of everything that a plugin announces; targets name their module.

    Raise SkelbenchError if a hook fails or is misspelled, or a descriptor is not valid.
    """
    values: dict[tuple[str, str], Descriptor] = {}
    for kind, value in _listed(module):
        if problem := next(_problems(kind, value), ""):
            raise SkelbenchError(f"{KINDS[kind].__name__} {getattr(value, 'name', value)!r:.60}: {problem}")
        if (kind, value.name) in values:
            raise SkelbenchError(f"{SINGULAR[kind]} {value.name!r} is announced twice")
        values[kind, value.name] = value
    for family, component in _components(module):
        values.setdefault((family, component.name), component)
    return [(kind, _located(value, file.module_name)) for (kind, _), value in values.items()]


def _listed(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield (kind, value) of everything in the lists that the hooks of ``module`` return."""
    manager, kinds = pluggy.PluginManager("skelbench"), {f"skelbench_{kind}": kind for kind in KINDS}
    hooks = ModuleType("hooks")
    vars(hooks).update(dict.fromkeys(kinds, pluggy.HookspecMarker("skelbench")(lambda: None)))
    manager.add_hookspecs(hooks)
    for name in (name for name in vars(module) if manager.parse_hookimpl_opts(module, name) is not None):
        if name not in kinds:
            raise SkelbenchError(did_you_mean(name, list(kinds), "hook"))
    manager.register(module)
    for name, kind in kinds.items():
        try:
            values = [value for values in getattr(manager.hook, name)() for value in values]
        except (Exception, SystemExit) as error:
            raise SkelbenchError(f"{name}: {one_line(error)}") from error
        yield from ((kind, value) for value in values)


def _problems(kind: str, value: Any) -> Iterator[str]:
    from pydantic import TypeAdapter, ValidationError  # slow, and needed for new plugins only

    if not isinstance(value, KINDS[kind]):
        yield f"is a {type(value).__name__} that skelbench_{kind} returned; {KINDS[kind].__name__} is expected"
    for name in (value.name, *getattr(value, "variants", ())):
        if not SLUG.fullmatch(str(name)):
            yield f"the name {name!r} must be lower case letters, digits, '-', '_', '@' and '.'"
    try:
        TypeAdapter(KINDS[kind]).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        yield f"{'.'.join(map(str, first['loc']))}={first['input']!r:.60}: {first['msg']}"
    if problem := space_problem(getattr(value, "space", {})):
        yield f"its space {problem}"


def _components(module: ModuleType) -> Iterator[tuple[str, ComponentSpec]]:
    """Yield (family, descriptor) of each class of ``module`` that belongs to a family and has a ``kind`` of its own."""
    for cls in vars(module).values():
        if not isinstance(cls, type) or cls.__module__ != module.__name__ or not vars(cls).get("kind"):
            continue
        if KINDS.get(family := getattr(cls, "family", "")) is ComponentSpec:
            first = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].replace("``", "")
            summary = " ".join(first.split()).partition(". ")[0].rstrip(".")
            names = {"name": vars(cls)["kind"], "target": f":{cls.__name__}"}
            yield family, ComponentSpec(**names, summary=summary, version=getattr(cls, "version", 1))


def _located(descriptor: Descriptor, module: str) -> Descriptor:
    """Return ``descriptor`` with ``"module:Name"`` in place of ``":Name"``, and names of its settings."""
    targets = {place: getattr(descriptor, place) for place in descriptor.places}
    fields: dict[str, Any] = {place: module + target for place, target in targets.items() if target.startswith(":")}
    descriptor = replace(descriptor, **fields)
    with suppress(Exception, SystemExit):  # the first use reports a class that cannot be imported
        name, _, attribute = getattr(descriptor, descriptor.settings_from).partition(":")
        descriptor = replace(descriptor, setting_names=tuple(attrgetter(attribute)(import_module(name)).model_fields))
    return descriptor
