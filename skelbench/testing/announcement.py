"""What a plugin says of itself before any of its code is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.testing.check import Check, Failed


class Subject(Protocol):
    """What every subject has."""

    @property
    def host(self) -> Host:
        """Of all plugins."""

    @property
    def descriptor(self) -> Any:
        """Of the one that is checked."""


def announcement(**wanted: str) -> Check[Any]:
    """The check that ``descriptor`` has these fields, each with the reason why."""

    def run(subject: Subject) -> None:
        check_announcement(subject.host, subject.descriptor, wanted)

    return Check("announcement", "it says what it is", run)


def check_announcement(host: Host, descriptor: Descriptor, wanted: Mapping[str, str]) -> None:
    """``wanted``: fields that must not be empty -> why."""
    plugin = host.origin(descriptor)
    for name, why in wanted.items():
        if not getattr(descriptor, name).strip():
            look = f"the {type(descriptor).__name__} of {descriptor.name} in {plugin.source}"
            raise Failed(f"a {name}, {why}", f"{name} is empty", look)
