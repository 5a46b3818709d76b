"""What checks of crops, augmentations, masks, optimisers and schedules have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from skelbench.core.spec import validated
from skelbench.plugin.component import Component
from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.testing.announcement import announcement
from skelbench.testing.check import Check, Failed
from skelbench.testing.settings import check_settings

PARENT = "whole"
"""The view that crops with a ``parent`` are cut from."""
GUESSES: Mapping[str, Any] = {"parent": PARENT, "lo": 0.3, "hi": 0.8}
"""For settings that a component wants to be given."""


@dataclass
class ComponentSubject:
    """A component with its defaults."""

    host: Host
    descriptor: Descriptor
    base: type[Component]
    """Of its family."""

    @cached_property
    def cls(self) -> Any:
        """What the target names."""
        return self.host.load(self.descriptor)

    @property
    def given(self) -> dict[str, Any]:
        """Settings that have no defaults."""
        fields = self.cls.model_fields
        return {name: GUESSES[name] for name in GUESSES if name in fields and fields[name].is_required()}

    def make(self, **changes: Any) -> Any:
        """An instance."""
        return validated(self.cls, self.given | changes, self.descriptor.name)


def form(subject: ComponentSubject) -> None:
    cls, base = subject.cls, subject.base
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise Failed(f"a subclass of {base.__module__}.{base.__name__}", f"{cls!r}", "its class line")
    if cls.kind != subject.descriptor.name:
        raise Failed(f"kind = {subject.descriptor.name!r}, its name", repr(cls.kind), f"kind of {cls.__name__}")
    if missing := [name for name, f in cls.model_fields.items() if f.is_required() and name not in subject.given]:
        raise Failed("defaults for its settings", f"{missing[0]} has none", f"{missing[0]}: give it a default")


def settings(subject: ComponentSubject) -> None:
    check_settings(subject.cls, subject.given, subject.descriptor.name)


def component_checks(base: type[Component], *own: Check[ComponentSubject]) -> tuple[Check[ComponentSubject], ...]:
    """Those of every component, and its family's ``own``."""
    return (
        announcement(),
        Check("form", f"it derives from {base.__name__} and has its kind and defaults", form),
        Check("settings", "its settings survive a record, and unknown ones are refused", settings),
        *own,
    )


def component_kit(
    base: type[Component], checks: Sequence[Check[ComponentSubject]]
) -> Callable[[Host, Descriptor], tuple[ComponentSubject, Sequence[Check[ComponentSubject]]]]:
    """The ``kit`` of a family of components (:mod:`skelbench.testing.kinds`)."""
    return lambda host, descriptor: (ComponentSubject(host, descriptor, base), checks)
