"""Compact letter display: which rows of a table are significantly different."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

import numpy as np


def letters(different: np.ndarray) -> list[str]:
    """Letters of each row: two rows share a letter exactly if they are not significantly different.

    ``different``: bool [rows, rows], symmetric. The first rows have the first letters. Insert and absorb (Piepho 2004,
    "An algorithm for a letter-based representation of all-pairwise comparisons").

    >>> letters(np.array([[False, False, True], [False, False, False], [True, False, False]]))
    ['a', 'ab', 'b']
    """
    groups = [frozenset(range(len(different)))] if len(different) else []
    for i, j in zip(*np.nonzero(np.triu(different, 1))):
        together = [group for group in groups if i in group and j in group]
        groups = [group for group in groups if group not in together]
        for half in (group - {member} for group in together for member in (i, j)):
            if not any(half <= group for group in groups):
                groups = [group for group in groups if not group <= half] + [half]
    groups.sort(key=sorted)
    names = [_name(place) for place in range(len(groups))]
    return ["".join(name for name, group in zip(names, groups) if row in group) for row in range(len(different))]


def _name(place: int) -> str:
    return ascii_letters[place] if place < len(ascii_letters) else f"({place + 1})"


def ranks(values: Sequence[float]) -> list[int]:
    """1 for the largest; equal values share a rank, as in 1, 2, 2, 4."""
    return [1 + sum(rival > value for rival in values) for value in values]
