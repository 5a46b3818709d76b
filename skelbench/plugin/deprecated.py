"""What plugins call by a name that was changed: the old name works for one release, with one warning per plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Renamed:
    """One changed name. The entry is taken out with the release that no longer knows the old one."""

    old: str
    """``"skelbench_encoder"``, a hook; ``"MethodSpec.paper"``, a field of a descriptor; ``"Method.post_step"``, what a
    plugin's class has that derives from skelbench's."""
    new: str
    """Of the same place: ``"skelbench_encoders"``, ``"readings"``, ``"after_step"``."""
    api: int
    """The plugin API that has the new name."""
    goes: str
    """The release of skelbench that no longer knows the old one."""

    def __str__(self) -> str:
        return f"{self.old} is called {self.new} since plugin API {self.api}, and goes with skelbench {self.goes}"


RENAMED: tuple[Renamed, ...] = ()


def hook(name: str) -> Renamed | None:
    """The change of a hook that was called ``name``."""
    return next((each for each in RENAMED if each.old == name), None)


def new_fields(descriptor: type, fields: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Renamed, ...]]:
    """``fields`` of a descriptor by their names of today, and which were given by their old ones.

    Raises:
        TypeError: one is given by both.
    """
    given = {each.old.partition(".")[2]: each for each in _of((descriptor, *descriptor.__bases__)) if "." in each.old}
    used = tuple(given[name] for name in fields if name in given)
    if both := [each for each in used if each.new in fields]:
        raise TypeError(f"{descriptor.__name__} is given {both[0].old} and {both[0].new}, which are the same")
    return {given[name].new if name in given else name: value for name, value in fields.items()}, used


def adapt(cls: type) -> tuple[Renamed, ...]:
    """Give a plugin's class, and those of the plugin that it derives from, what they have under old names alone."""
    used: dict[Renamed, None] = {}
    for each in _of(base for base in cls.__mro__ if base.__module__.partition(".")[0] == "skelbench"):
        name = each.old.partition(".")[2]
        for part in cls.__mro__:
            if part.__module__.partition(".")[0] != "skelbench" and name in vars(part) and each.new not in vars(part):
                setattr(part, each.new, vars(part)[name])
                used[each] = None
    return tuple(used)


def _of(classes: Iterable[type]) -> list[Renamed]:
    names = {cls.__name__ for cls in classes}
    return [each for each in RENAMED if each.old.partition(".")[0] in names]
