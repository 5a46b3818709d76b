"""Reading the two texts of a video: its frames, and which of them show which action.

Frames: one row each of 150 numbers with blanks between them, 2 bodies x 25 joints x (x, y, z) in metres; a body that
is not there is zero. Labels: rows ``action,start,end,confidence`` with actions from 1.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from skelbench.data.raw.decimals import NotANumber, decode, shown, to_float32
from skelbench.data.raw.files import BadFile, check_text

MAX_BYTES = 24 << 20
"""No video is larger; five minutes at 30 frames/s take 13 MB."""

_LABEL_BYTES = 64 << 10
_COLUMNS = 150
PIECE = 1 << 20
"""Bytes read at a time, so that memory does not grow with the video ..."""
_LONGEST_LINE = 1 << 14
"""... which needs an upper bound on a row; usual ones have 1,400 bytes."""
_BLANK = np.isin(np.arange(33), np.frombuffer(b"\t\n\r ", dtype=np.uint8))
_WHOLE = re.compile(rb"[+-]?[0-9]{1,9}(?:\.0*)?")


class Action(NamedTuple):
    """A row of a label file, its numbers as they stand."""

    action: int
    start: int
    end: int


def parse_frames(data: bytes, piece: int = PIECE) -> np.ndarray:
    """The rows of a video as float32 [T, 150], ``piece`` bytes of text at a time; :class:`BadFile` names a bad row."""
    pieces, place, rows = [], 0, 0
    while place < len(data):
        end = data.find(b"\n", place + piece, place + piece + _LONGEST_LINE) + 1
        if not end:
            end = len(data)
            if end - place > piece + _LONGEST_LINE:
                raise BadFile("it has a line too long to be a row of 150 numbers")
        pieces.append(_parse_rows(data[place:end], rows))
        rows += len(pieces[-1])
        place = end
    if not rows:
        raise BadFile("it has no rows")
    return np.concatenate(pieces)


def _parse_rows(data: bytes, before: int) -> np.ndarray:
    text = np.frombuffer(data, dtype=np.uint8)
    at = np.flatnonzero(text <= 32)
    if not _BLANK[text[at]].all() or text.max() > 126:
        check_text(data, before + 1)
    begin, end = np.concatenate([[0], at + 1]), np.concatenate([at, [len(data)]])
    there = end > begin
    begin, end = begin[there], end[there]
    # Numbers before every line end, and after the last; empty lines have none.
    counts = np.diff(np.searchsorted(begin, at[text[at] == ord("\n")]), prepend=0, append=len(begin))
    counts = counts[counts > 0]
    if (wrong := counts != _COLUMNS).any():
        row = int(np.argmax(wrong))
        raise BadFile(f"row {before + row + 1} has {counts[row]} numbers, not {_COLUMNS}")
    try:
        values = decode(data + b" " * 16, begin, end)
    except NotANumber as error:
        raise BadFile(f"row {before + error.index // _COLUMNS + 1}: {error}") from None
    return to_float32(values).reshape(-1, _COLUMNS)


def parse_labels(data: bytes) -> list[Action]:
    """The rows of a label file; :class:`BadFile` if one is not ``action,start,end`` with more or nothing behind."""
    check_text(data)
    if len(data) > _LABEL_BYTES:
        raise BadFile(f"the label file is larger than {_LABEL_BYTES >> 10} KB; no video has so many actions")
    actions = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(b",")]
        if len(fields) < 3 or not all(map(_WHOLE.fullmatch, fields[:3])):
            raise BadFile(f"line {number}: {shown(line.strip())} is not a label (action,start,end,confidence)")
        actions.append(Action(*(int(float(field)) for field in fields[:3])))
    return actions
