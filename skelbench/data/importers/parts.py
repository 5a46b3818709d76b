"""Parts of a dataset in separate arrays: counts, names, splits and classes for any layout of the arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import ntu
from skelbench.data.importers.labels import random_split
from skelbench.data.importers.recording import Entries
from skelbench.data.importers.tables import Table
from skelbench.data.raw.ntu.prepare import LICENSE
from skelbench.data.store.splits import NameRule, Rule, by_field
from skelbench.data.store.writer import Clip

Side = Literal["train", "valid", "test", ""]

_SIDES: dict[str, Side] = {"training": "train", "train": "train"}
_SIDES |= {"validation": "valid", "valid": "valid", "val": "valid"}
_SIDES |= {"testing": "test", "test": "test", "evaluation": "test", "eval": "test"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^A-Za-z]+")
"""Pattern that cuts ``xsub_train``, ``trainData``, ``NTUVal`` into words and separators."""


def side_of(name: str) -> tuple[Side, str]:
    """Return the part that ``name`` names ("" = none, or several), and the name without this word."""
    words = _WORD.findall(name)
    sides = {_SIDES[word.lower()] for word in words if word.lower() in _SIDES}
    if len(sides) != 1:
        return "", name
    return sides.pop(), "".join(word for word in words if word.lower() not in _SIDES)


@dataclass
class Part:
    """An array of clips with its labels."""

    x: Table
    labels: np.ndarray
    place: str
    """Place of the clips in the files, in words."""
    side: str
    """"train", "valid" or "test" by its name; "" = the name names no part."""
    names: list[str] = field(default_factory=list)
    """Names of the clips; empty = the files have none."""

    def __post_init__(self) -> None:
        if not self.x.shape:
            raise SkelbenchError(f"{self.x.where} is one number, not an array of clips")
        if len(self.labels) != self.x.shape[0]:
            raise SkelbenchError(f"{self.x.where} has {self.x.shape[0]} clips but {len(self.labels)} labels")

    def entries(self, read: Callable[[int, np.ndarray], Clip]) -> Entries:
        """Iterate over names and clips; ``read`` makes a clip of a row's number and its values."""
        for row, values in enumerate(self.x.rows()):
            yield self.names[row], partial(read, row, values)


def describe(parts: Sequence[Part], sides: Sequence[str], classes: int, otherwise: str) -> dict[str, Any]:
    """Return fields of the recording of parts; the last one of several parts is the test part.

    Clips without names get the name of their part from ``sides``. ``classes``: the least number of classes.
    ``otherwise``: advice for a single part that cannot be divided.
    """
    named = all(part.names for part in parts)
    index = ntu.index_of([name for part in parts for name in part.names]) if named else None
    splits: dict[str, Rule] = {**ntu.splits_of(index)} if index is not None else {}
    if not named:
        for side, part in zip(sides, parts):
            part.names = [f"{side}_{row:06}" for row in range(part.x.shape[0])]
    labels, places = np.concatenate([part.labels for part in parts]), [part.place for part in parts]
    default, sources = "", {"random": (f"drawn from {places[0]}",) * 2}
    if len(parts) > 1:
        trains = np.arange(len(labels)) < len(labels) - len(parts[-1].labels)
        default = _as_given(splits, index, trains)
        sources = {default: (", ".join(places[:-1]), places[-1])}
    if default == "given":
        lists = [tuple(part.names) for part in parts] if named else [(side,) for side in sides]
        by: Literal["name", "video"] = "name" if named else "video"
        training = tuple(name for names in lists[:-1] for name in names)
        rules: dict[str, Rule] = {"given": NameRule(field=by, train=training, test=lists[-1])}
        if len(parts) > 2:
            rules["validation"] = NameRule(field=by, train=lists[0], test=lists[1])
            sources["validation"] = (places[0], places[1])
        splits = {**rules, **splits}
    return {
        "total": len(labels),
        "classes": ntu.class_names(labels, index, classes),
        "splits": splits or random_split(labels, parts[0].x.where, otherwise),
        "default_split": default,
        "sources": sources,
        "license": LICENSE if index is not None else "",
    }


def _as_given(splits: Mapping[str, Any], index: Mapping[str, np.ndarray] | None, trains: np.ndarray) -> str:
    """Return the NTU split that trains on exactly these clips, else "given"."""
    for name, rule in splits.items():
        if index is not None and np.array_equal(by_field(rule, index), (trains, ~trains)):
            return name
    return "given"
