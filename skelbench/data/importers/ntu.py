"""NTU RGB+D in files of other projects: facts in sample names, and the sample names of an npz without names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

from skelbench.data.raw.ntu.names import ACTIONS, SPLITS, official_missing, sample_of
from skelbench.data.store.splits import FieldRule, by_field

PERFORMERS = {
    1: "1-8", 2: "3 7-14", 3: "1-2 7-8 15-19", 4: "3 7-8 20", 5: "4 10 13 15-18 21", 6: "1 7-8 15-17 19 22-24",
    7: "1 7-8 15-19 25-28", 8: "1 7-8 15 19 25 29-36", 9: "7-8 15-17 19 25", 10: "7-8 13 15-19 21 25",
    11: "1-2 7-8 15-19 25 27-28 38", 12: "7-8 15-19 25 27-28 37", 13: "7-8 15-19 25 27-28 37",
    14: "7-8 15 17 19 25 27 37 39", 15: "7-8 15-17 19 25 37", 16: "7-8 19 21 25 39-40", 17: "3 7-9 15-17 20",
    18: "8 41-45", 19: "8 41-42 46-51", 20: "8 41 43-44 52-54", 21: "55-60", 22: "61-67", 23: "55-68",
    24: "57 60-64 67", 25: "55-56 58-59 65-66 68", 26: "8 41 44 49-51 69-72 74-77", 27: "6 8 11 41 43-44 78-86",
    28: "8 41-43 46 48 70 73 87", 29: "6 8 41 43-44 48-49 51 67 74-75 80 88-90",
    30: "8 11 41 43-44 48 67 75-76 81 85 88 91-96", 31: "6 8 41-44 51 67 82 85 96-101", 32: "8 41 43-44 67 102-106",
}  # fmt: skip
"""Subjects of each setup. Each subject did all actions of this half twice, before three cameras."""


@cache
def all_names(data: str) -> tuple[str, ...]:
    """Names of the samples of "ntu60" or "ntu120" that have complete skeletons, ascending."""
    names: list[str] = []
    for setup, performers in PERFORMERS.items():
        if data == "ntu60" and setup > 17:
            break
        actions = range(1, 61) if setup <= 17 else range(61, 121)
        for camera in (1, 2, 3):
            for performer in _numbers(performers):
                for replication in (1, 2):
                    prefix = f"S{setup:03}C{camera:03}P{performer:03}R{replication:03}"
                    names.extend(f"{prefix}A{action:03}" for action in actions)
    missing = official_missing()
    return tuple(name for name in names if name not in missing)


def _numbers(text: str) -> list[int]:
    ends = [tuple(map(int, part.split("-"))) for part in text.split()]
    return [number for part in ends for number in range(part[0], part[-1] + 1)]


def index_of(names: Iterable[str]) -> dict[str, np.ndarray] | None:
    """The index fields of clips with these names, and "action" (from 1); None unless all are sample names."""
    samples = [sample_of(name) for name in names]
    if not samples or not all(samples):
        return None
    setup, camera, subject, trial, action = np.array(samples).T
    return {"subject": subject, "camera": camera, "setup": setup, "trial": trial, "action": action}


def data_of(index: Mapping[str, np.ndarray]) -> str:
    """ "ntu60" or "ntu120", whichever the samples are part of."""
    return "ntu60" if index["setup"].max() <= 17 else "ntu120"


def splits_of(index: Mapping[str, np.ndarray]) -> dict[str, FieldRule]:
    """Return the dataset's splits that have training and test clips among these samples."""
    usable: dict[str, FieldRule] = {}
    for name, rule in SPLITS[data_of(index)].items():
        train, test = by_field(rule, index)
        if train.any() and test.any():
            usable[name] = rule
    return usable


def restore(train: np.ndarray, test: np.ndarray) -> tuple[str, list[str], list[str]] | None:
    """Return the split and the names of an npz's rows; None if a label differs from the label that the scripts write.

    The CTR-GCN and MAMP scripts order rows by the split's field, then by name.
    """
    for data, splits in SPLITS.items():
        names = np.array(all_names(data))
        if len(train) + len(test) != len(names):
            continue
        index = index_of(names.tolist())
        assert index is not None
        for split, rule in splits.items():
            order = np.argsort(index[rule.field], kind="stable")  # names are in order already
            rows = [order[side[order]] for side in by_field(rule, index)]
            if all(np.array_equal(index["action"][side] - 1, labels) for side, labels in zip(rows, (train, test))):
                first, second = (names[side].tolist() for side in rows)
                return split, first, second
    return None


def class_names(labels: np.ndarray, index: Mapping[str, np.ndarray] | None, count: int = 0) -> tuple[str, ...]:
    """Return names of actions if the labels agree with the samples' names, else numbers (at least ``count``)."""
    if index is None or not np.array_equal(labels, index["action"] - 1):
        return tuple(f"label {label}" for label in range(max(count, int(labels.max()) + 1)))
    return ACTIONS[:60] if data_of(index) == "ntu60" else ACTIONS
