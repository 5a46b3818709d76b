"""Labels in the forms of other projects: one-hot rows, whole numbers in any numeric type, label files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.pickles import load_pickle
from skelbench.data.importers.tables import is_npy, open_npy
from skelbench.data.store.splits import RandomRule, Rule

MAX_CLASSES = 100_000
"""Largest number of classes of a dataset; an array with more is no array of labels."""


def read_labels(array: np.ndarray, where: str) -> tuple[np.ndarray, int]:
    """Return labels [N] and the number of classes from one-hot rows [N, K] or whole numbers [N] or [N, 1]."""
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or 0 in array.shape:
        raise SkelbenchError(f"{where}: labels must be numbers [N] or one-hot [N, K], not {list(array.shape)}")
    if array.ndim == 1 or array.shape[1] == 1:
        return whole(array, where)
    good = ((array == 0) | (array == 1)).all(axis=1) & (np.count_nonzero(array, axis=1) == 1)
    if not good.all():
        raise SkelbenchError(f"{where}: row {int(np.argmin(good))} is not one-hot (a single 1, else 0); correct it")
    return array.argmax(axis=1).astype(np.int64), array.shape[1]


def whole(values: Any, where: str) -> tuple[np.ndarray, int]:
    """Return labels [N] and the number of classes (highest label + 1) from numbers in a list or an array."""
    try:
        array = np.asarray(values, dtype=np.float64).reshape(-1)  # None becomes NaN
    except (TypeError, ValueError):  # text, or lists of different lengths
        array = np.zeros(0)
    if not len(array):
        raise SkelbenchError(f"{where}: its labels are not numbers; correct them")
    wrong = ~((array >= 0) & (array < MAX_CLASSES) & (array == np.floor(array)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise SkelbenchError(f"{where}: clip {row} has label {array[row]:g}, not a whole number from 0; correct it")
    labels = array.astype(np.int64)
    return labels, int(labels.max()) + 1


def read_label_file(path: Path) -> tuple[np.ndarray, list[str]]:
    """Return labels [N] and names ([] = none) of an array or a pickle: labels, (names, labels, ...) or a dictionary."""
    if is_npy(path):
        return whole(open_npy(path), str(path))[0], []
    value = load_pickle(path)
    if isinstance(value, dict):
        value = list(value), list(value.values())
    if not isinstance(value, list | tuple) or len(value) < 2 or np.ndim(value[0]) != 1:
        return whole(value, str(path))[0], []
    if not all(isinstance(name, str | bytes) for name in value[0]):
        raise SkelbenchError(f"{path} is not a label file; it should hold the pair (names of clips, labels)")
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in value[0]]
    names = [name.removesuffix(".skeleton") for name in names]
    labels = whole(value[1], str(path))[0]
    if len(labels) != len(names):
        raise SkelbenchError(f"{path} has {len(names)} names but {len(labels)} labels; the file is incomplete")
    return labels, names


def random_split(labels: np.ndarray, where: str, otherwise: str) -> dict[str, Rule]:
    """Return the split for files without one; ``otherwise`` = advice if no class has a clip to spare."""
    rule = RandomRule(test=0.3)
    if not any(round(rule.test * count) for count in np.bincount(labels).tolist()):
        raise SkelbenchError(f"{where}: no class has two clips, so none can test; bring more clips, or {otherwise}")
    return {"random": rule}
