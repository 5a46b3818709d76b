"""Clips that a data set holds more than once, and splits that have them on both sides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skelbench.data.store.clip_store import ClipStore


def first_copies(store: ClipStore) -> np.ndarray:
    """int64 [N]: for every clip the first one with the same coordinates and confidence, bit by bit; mostly itself.

    Only clips with equal checksums are compared.
    """
    first = np.arange(len(store))
    seen: dict[tuple[int, ...], list[int]] = {}
    for i, key in enumerate(store.keys(first)):
        others = seen.setdefault(key, [])
        first[i] = next((other for other in others if _equal(store, other, i)), i)
        if first[i] == i:
            others.append(i)
    return first


class Copies(NamedTuple):
    """Clips that a split has on both sides."""

    split: str
    test: int
    """Test clips that are training clips, too ..."""
    of: int
    """... of so many."""
    example: str


def on_both_sides(store: ClipStore) -> list[Copies]:
    """The splits of which test clips equal training clips."""
    first, found = first_copies(store), []
    for split in map(store.split, store.meta.splits):
        known = np.isin(first[split.test], first[split.train])
        if known.any():
            test = split.test[known][0]
            train = split.train[first[split.train] == first[test]][0]
            example = f"{store.title(test)} is {store.title(train)}"
            found.append(Copies(split.name, int(known.sum()), len(split.test), example))
    return found


def _equal(store: ClipStore, i: int, j: int) -> bool:
    return np.array_equal(store.clip(i), store.clip(j)) and np.array_equal(store.confidence(i), store.confidence(j))
