"""What a plugin returns from its hooks, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pluggy

from skelbench.core.errors import SkelbenchError
from skelbench.plugin import deprecated
from skelbench.plugin.descriptors import KINDS, Descriptor
from skelbench.plugin.files import PluginFile
from skelbench.plugin.hookspecs import OBSERVERS
from skelbench.plugin.status import one_line
from skelbench.plugin.validate import hook_problems


class Manager(pluggy.PluginManager):
    """Registers hooks that go by an old name as those they are today."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        options = super().parse_hookimpl_opts(plugin, name)
        if options is not None and (renamed := deprecated.hook(options.get("specname") or name)):
            options["specname"] = renamed.new
        return options


@dataclass
class Announced:
    """Values by kind as hooks return them, unchecked; names of observer hooks; sentences with what was raised."""

    values: dict[str, list[Any]] = field(default_factory=dict)
    observers: list[str] = field(default_factory=list)
    problems: list[tuple[str, BaseException | None]] = field(default_factory=list)
    renamed: list[deprecated.Renamed] = field(default_factory=list)
    """Old names of hooks."""

    @property
    def empty(self) -> bool:
        """Whether there is no hook and no problem."""
        return not (self.values or self.observers or self.problems)

    @classmethod
    def by_file(
        cls, file: PluginFile, manager: pluggy.PluginManager, families: Mapping[str, str], named: bool = True
    ) -> Announced:
        """From the slice of ``file`` that announces; where that fails, or finds nothing, from all of it, imported.

        Unless it was ``named``, a file that holds no hook and no component is not imported: it may be a script.
        """
        announced, components, twice = None, [], list[str]()
        try:
            twice = file.top_level.twice
            components = list(file.top_level.components(families))
            if not named and file.top_level.silent and not components:
                return cls()
            announced = cls.by_object(file.announcement(), manager)
        except (Exception, SystemExit):
            pass
        if announced is None or any(error for _, error in announced.problems) or (announced.empty and not components):
            announced = cls.by_object(file.load(), manager)
        by_hook = {
            (kind, getattr(value, "name", None)) for kind in announced.values for value in announced.values[kind]
        }
        for name in twice:
            announced.problems.append((f"{name} is defined twice, and only the last counts; return all in one", None))
        for kind, component in components:
            if isinstance(component, str):
                announced.problems.append((component, None))
            elif (kind, component.name) not in by_hook:  # a hook may have more to say of a class than its text
                announced.values.setdefault(kind, []).append(component)
        return announced

    @classmethod
    def by_object(cls, plugin: object, manager: pluggy.PluginManager) -> Announced:
        """From the hooks of a module or another object, which is left unregistered."""
        announced = cls(problems=[(sentence, None) for sentence in hook_problems(plugin, manager)])
        announced.renamed = [found for name in dir(plugin) if (found := deprecated.hook(name))]
        try:
            manager.register(plugin)
        except (pluggy.PluginValidationError, ValueError) as error:
            if not announced.problems:
                announced.problems.append((one_line(error), error))
        for caller in manager.get_hookcallers(plugin) or []:
            kind = caller.name.removeprefix("skelbench_")
            implementation = next(each for each in caller.get_hookimpls() if each.plugin is plugin)
            if caller.name in OBSERVERS:
                announced.observers.append(caller.name)
            elif not (implementation.wrapper or implementation.hookwrapper):
                try:
                    announced.values[kind] = _listed(implementation.function(), kind)
                except (Exception, SystemExit) as error:
                    announced.problems.append((f"{caller.name}: {one_line(error)}", error))
        if manager.is_registered(plugin):
            manager.unregister(plugin)
        return announced


def _listed(value: Any, kind: str) -> list[Any]:
    if value is None or isinstance(value, Descriptor):
        raise SkelbenchError(f"returned {type(value).__name__}, not a list of {KINDS[kind].__name__}")
    return list(value)
