"""What checks of crops, augmentations, masks, optimisers and schedules have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from skelbench.component import Component
from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.spec import validated
from skelbench.testing.check import Failed
from skelbench.testing.settings import check_settings

PARENT = "whole"
"""The view that crops with a ``parent`` are cut from."""
GUESSES: Mapping[str, Any] = {"parent": PARENT, "lo": 0.3, "hi": 0.8}
"""For settings that a component wants to be given."""


@dataclass
class ComponentSubject:
    """A component with its defaults, and ``settings`` over them."""

    host: Host
    descriptor: Descriptor
    base: type[Component]
    """Of its family."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def cls(self) -> Any:
        """What the target names."""
        return self.host.load(self.descriptor)

    @property
    def given(self) -> dict[str, Any]:
        """Settings that differ from the defaults, or have none."""
        fields = self.cls.model_fields
        guessed = {name: GUESSES[name] for name in GUESSES if name in fields and fields[name].is_required()}
        return guessed | dict(self.settings)

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
        look = f"{missing[0]}: give it a default, or hand settings to the check"
        raise Failed("defaults for its settings", f"{missing[0]} has none", look)


def settings(subject: ComponentSubject) -> None:
    check_settings(subject.cls, subject.given, subject.descriptor.name)
