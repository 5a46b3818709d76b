"""Reading the two texts of a video: its frames, and which of them show which action.

Frames: one row each of 150 numbers, 2 bodies x 25 joints x (x, y, z) in meters; an absent body is zero.
Labels: rows ``action,start,end,confidence`` with actions from 1.
"""

from __future__ import annotations

import math
from array import array
from typing import NamedTuple

import numpy as np

from skelbench.data.raw.files import BadFile, check_text

_COLUMNS = 150


class Action(NamedTuple):
    """Numbers of a row of a label file, as written."""

    action: int
    start: int
    end: int


def parse_frames(data: bytes) -> np.ndarray:
    """Return the rows of a video as float32 [T, 150]; :class:`BadFile` names a bad row."""
    check_text(data)
    values = array("d")
    for row, line in enumerate(filter(None, map(bytes.split, data.split(b"\n"))), start=1):
        if len(line) != _COLUMNS:
            raise BadFile(f"row {row} has {len(line)} numbers, not {_COLUMNS}")
        try:
            values.extend(map(float, line))
        except ValueError as error:
            raise BadFile(f"row {row}: {error}") from None
    if not values:
        raise BadFile("it has no rows")
    with np.errstate(over="ignore"):  # too large a number becomes infinite
        return np.array(values).astype(np.float32).reshape(-1, _COLUMNS)


def parse_labels(data: bytes) -> list[Action]:
    """Return the rows of a label file; :class:`BadFile` names a row that is not ``action,start,end`` and more."""
    check_text(data)
    actions = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            action, start, end = map(float, line.split(b",")[:3])
        except ValueError:  # not three, or not numbers
            action = start = end = math.nan
        if not (action.is_integer() and start.is_integer() and end.is_integer()):
            text = line.strip()[:40].decode()
            raise BadFile(f"line {number}: {text!r} is not a label (action,start,end,confidence)")
        actions.append(Action(int(action), int(start), int(end)))
    return actions
