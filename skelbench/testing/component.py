"""One generic check of parts: crops, augmentations, masks, degradations, optimizers, schedules, targets, skeletons.

A part is built from its default settings, its settings survive a record, and its draws depend on seed, clip and view
only. :mod:`skelbench.testing.families` has further checks for each family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from skelbench.plugin.descriptors import Descriptor, TargetSpec
from skelbench.plugin.host import Host
from skelbench.testing.check import Check, Failed, Skipped
from skelbench.testing.clips import differs, twice
from skelbench.testing.families import FAMILIES, PARENT, Family
from skelbench.testing.settings import check_settings, check_summary
from skelbench.views.skeleton.topology import Topology

GUESSES: Mapping[str, Any] = {"parent": PARENT, "lo": 0.3, "hi": 0.8}
"""Values of required settings."""


@dataclass
class ComponentSubject:
    """A part with its default settings, or with ``settings``."""

    host: Host
    descriptor: Descriptor
    family: Family
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cls(self) -> Any:
        """Object that the target of the descriptor names: a class, or a Topology."""
        return self.host.load(self.descriptor)

    @property
    def config(self) -> Any:
        """Class of the settings; a component is its own settings class."""
        return getattr(self.cls, "Config", self.cls)

    @property
    def required(self) -> dict[str, Any]:
        """Values for settings without a default."""
        fields = self.config.model_fields
        return {name: x for name, x in GUESSES.items() if name in fields and fields[name].is_required()}

    def make(self, **changes: Any) -> Any:
        """Return the part with these settings."""
        values = {**self.required, **self.settings, **changes}
        return self.family.build(self.cls, values, self.descriptor.name)

    def rows(self, which: Sequence[int] | None = None) -> list[Tensor]:
        """Return the result for each of the rows ``which``, by default for all."""
        if self.family.rows is None:
            raise Skipped("it draws nothing")
        return self.family.rows(self.make(), range(self.family.count) if which is None else which)


def form(subject: ComponentSubject) -> None:
    if isinstance(subject.descriptor, TargetSpec):
        check_summary(subject.descriptor)
    cls = subject.cls
    if not isinstance(cls, Topology):
        subject.host.subclass(subject.descriptor, subject.family.base)
    name = cls.name if isinstance(cls, Topology) else getattr(cls, "kind", subject.descriptor.name)
    if name != subject.descriptor.name:
        raise Failed(f"the name {subject.descriptor.name!r}, as announced", repr(name), "its kind or name")


def settings(subject: ComponentSubject) -> None:
    if isinstance(subject.cls, Topology):
        raise Skipped("it has no settings")
    fields, required = subject.config.model_fields, subject.required
    if missing := [name for name, x in fields.items() if x.is_required() and name not in required]:
        raise Failed("defaults for its settings", f"{missing[0]} has none", subject.config.__name__)
    check_settings(subject.config, required, subject.descriptor.name)


def keyed(subject: ComponentSubject) -> None:
    if any(differs(a, b, 0) for a, b in zip(*twice(subject.rows), strict=True)):
        look = f"random numbers: {subject.family.draws_by}, never torch.rand"
        raise Failed("the same result from the same key", "another result", look)


def rows_apart(subject: ComponentSubject) -> None:
    together = subject.rows()
    if subject.family.count < 2:
        raise Skipped("it has one result for all rows")
    for row, expected in enumerate(together):
        (single,) = subject.rows([row])
        if difference := differs(single, expected, 1e-5):
            message, look = f"row {row} differs by {difference:.1%}", "draws and statistics that mix rows"
            raise Failed("the same result for a row alone and among others", message, look)


def kit(kind: str, host: Host, descriptor: Descriptor) -> tuple[ComponentSubject, Sequence[Check[ComponentSubject]]]:
    """Return the subject of the checks of a part, and the checks: generic checks, then checks of its family."""
    family = FAMILIES[kind]
    about = (family.contract.__doc__ or "").rstrip(".")
    return ComponentSubject(host, descriptor, family), [*GENERIC, Check("contract", about, family.contract)]


GENERIC: tuple[Check[ComponentSubject], ...] = (
    Check("form", "it derives from the base class of its family and has the announced name", form),
    Check("settings", "its settings have defaults, survive a record, and unknown names are rejected", settings),
    Check("keyed", "random numbers come from the given key, not from a global generator", keyed),
    Check("rows-apart", "a row has the same result alone and in a batch", rows_apart),
)
