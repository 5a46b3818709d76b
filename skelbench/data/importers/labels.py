"""Labels as people store them: one-hot rows, or whole numbers in any numeric type."""

from __future__ import annotations

from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.tables import Table, pieces
from skelbench.data.store.splits import RandomRule, Rule

MAX_CLASSES = 100_000
"""Of a data set: more are taken for an array of something else."""


def read_labels(table: Table) -> tuple[np.ndarray, int]:
    """Labels [N] and the number of classes, from one-hot rows [N, K] or whole numbers [N] or [N, 1]."""
    shape = table.shape
    if table.dtype.kind not in "biuf" or len(shape) not in (1, 2) or 0 in shape:
        raise SkelbenchError(f"{table.where}: labels must be numbers [N] or one-hot [N, K], not {list(shape)}")
    if len(shape) == 1 or shape[1] == 1:
        return whole(np.concatenate([part.ravel() for part in pieces(table)]), table.where)
    if shape[1] > MAX_CLASSES:
        raise SkelbenchError(f"{table.where}: {shape[1]} classes are more than {MAX_CLASSES}; is this the right array?")
    labels: list[np.ndarray] = []
    for part in pieces(table):
        good = ((part == 0) | (part == 1)).all(axis=1) & (np.count_nonzero(part, axis=1) == 1)
        if not good.all():
            row = sum(map(len, labels)) + int(np.argmin(good))
            raise SkelbenchError(f"{table.where}: row {row} is not one-hot (a single 1, else 0); correct the labels")
        labels.append(part.argmax(axis=1))
    return np.concatenate(labels).astype(np.int64), shape[1]


def whole(values: Any, where: str) -> tuple[np.ndarray, int]:
    """Labels [N] and the number of classes (highest label + 1) from numbers in a list or an array."""
    if isinstance(values, list | tuple) and not all(type(value) in (int, float, bool) for value in values):
        raise SkelbenchError(f"{where}: its labels are not all numbers; correct them")
    try:
        array = np.asarray(values).reshape(-1)
    except (ValueError, OverflowError):
        array = np.array(["not numbers"])
    if array.dtype.kind not in "biuf" or not len(array):
        raise SkelbenchError(f"{where}: its labels are not numbers; correct them")
    wrong = ~((array >= 0) & (array < MAX_CLASSES) & (array == np.floor(array)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise SkelbenchError(
            f"{where}: clip {row} has label {array[row]}, which is not a whole number from 0 to {MAX_CLASSES - 1}; "
            f"correct the labels"
        )
    labels = array.astype(np.int64)
    return labels, int(labels.max()) + 1


def random_split(labels: np.ndarray, where: str, otherwise: str) -> dict[str, Rule]:
    """The split of files without one; refuses labels [N] without a clip to spare (``otherwise`` = what else helps)."""
    rule = RandomRule(test=0.3)
    if not any(round(rule.test * count) for count in np.bincount(labels).tolist()):
        raise SkelbenchError(
            f"{where}: no class has two clips, so none can be kept for testing; bring more clips of a class, or "
            f"{otherwise}"
        )
    return {"random": rule}
