"""Reading one raw `.skeleton` text.

Lines: the number of frames; per frame the number of bodies, per body a line of 10 fields (the tracking id first), a
line ``25``, and 25 lines of 12 fields (x, y, z in metres first). Real files have one blank between fields and CRLF or
LF at the end of every line. Such a layout is read with a few array operations; any other goes to a reader that takes
line by line, accepts what ``str.split`` accepts, and says what is wrong with the rest. Both give the same numbers.

K bodies seen, over all frames; J = 25 joints; C = x, y, z.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from skelbench.data.raw.decimals import NotANumber, decode, number, shown, to_float32
from skelbench.data.raw.files import BadFile, check_text

MAX_BYTES = 16 << 20
"""No recording is larger; 300 frames of six bodies take 5 MB."""

MAX_FRAMES = 10_000
"""Nor has any more frames than this; the longest of the data set has 300."""

_JOINTS, _ID_FIELDS, _JOINT_FIELDS = 25, 10, 12
_COUNT = re.compile(rb"[0-9]{1,9}")
_ID = re.compile(rb"-?[0-9]{1,20}")
_BLANK, _LF, _CR = 32, 10, 13


@dataclass(frozen=True)
class Recording:
    """What a file holds: K times a body was seen, in the order of the text."""

    frames: int
    """Frames in the file, those without a body included."""
    frame_K: list[int]
    """Frame of the file, ascending."""
    id_K: list[bytes]
    """Tracking id as text: real ones exceed 2^53."""
    x_KJC: np.ndarray
    """float32 [K, 25, 3], camera coordinates in metres; may hold values that are not finite."""


def parse(data: bytes) -> Recording:
    """Read a `.skeleton` text; :class:`BadFile` with the line and the reason if it is not one."""
    if not data:
        raise BadFile("the file is empty")
    return _parse_usual(data) or _parse_any(data)


# ------------------------------------------------------------------------------------------------ the usual layout
class _Tile:
    """Where things stand among the separators (blank, CR, LF) of one body's 27 lines, first separator = 0."""

    def __init__(self, line_end: bytes) -> None:
        fields = (_ID_FIELDS, 1, *[_JOINT_FIELDS] * _JOINTS)
        self.kinds = b"".join(b" " * (count - 1) + line_end for count in fields)
        self.size = len(self.kinds)
        firsts = [i + 1 for i, kind in enumerate(self.kinds) if kind == _LF][1:-1]
        self.numbers = np.array([first + axis for first in firsts for axis in range(3)])
        """Separators after x, y and z of every joint."""
        self.count_line = (_ID_FIELDS - 2 + len(line_end), _ID_FIELDS - 1 + len(line_end))
        """Separators before and after the ``25``."""


_TILES = {line_end: _Tile(line_end) for line_end in (b"\n", b"\r\n")}


def _parse_usual(data: bytes) -> Recording | None:
    """The recording, or None if the layout is not the usual one or anything at all is wrong."""
    line_end = b"\r\n" if data[: data.find(b"\n") + 1].endswith(b"\r\n") else b"\n"
    tile, step = _TILES[line_end], len(line_end)
    if not data.endswith(line_end) or data[-step - 1 : -step].isspace():
        data = data.rstrip(b" \t\r\n") + line_end
    text = np.frombuffer(data, dtype=np.uint8)
    at = np.flatnonzero(text <= _BLANK)
    # Walk the frames in steps of whole bodies; that the separators in between are those of bodies is checked below.
    place, firsts, frame_K, expected = step, [], [], [line_end]
    try:
        frames = _count(data, 0, int(at[0]))
        if frames > MAX_FRAMES:
            return None
        for frame in range(frames):
            bodies = _count(data, int(at[place - 1]) + 1, int(at[place]))
            place += step
            if bodies * tile.size > len(at) - place:
                return None
            expected += line_end, tile.kinds * bodies
            for _ in range(bodies):
                firsts.append(place)
                frame_K.append(frame)
                place += tile.size
    except (IndexError, ValueError):
        return None
    if place != len(at) or not firsts:
        return None
    # No field is empty, and nothing stands between CR and LF.
    kinds = text.take(at)
    touching = np.diff(at) == 1
    if kinds.tobytes() != b"".join(expected) or not np.array_equal(touching, kinds[:-1] == _CR) or text.max() > 126:
        return None
    first_K = np.array(firsts)
    before_K, after_K = (at[first_K + i] for i in tile.count_line)
    if not ((after_K - before_K == 3) & (text[before_K + 1] == ord("2")) & (text[before_K + 2] == ord("5"))).all():
        return None
    begins, ends = (at[first_K - 1] + 1).tolist(), at[first_K].tolist()
    ids = [data[begin:end] for begin, end in zip(begins, ends, strict=True)]
    if not all(map(_ID.fullmatch, set(ids))):
        return None
    places_KN = first_K[:, None] + tile.numbers
    try:
        values = decode(data, at.take(places_KN - 1).ravel() + 1, at.take(places_KN).ravel())
    except NotANumber:
        return None
    return Recording(frames, frame_K, ids, to_float32(values).reshape(-1, _JOINTS, 3))


def _count(data: bytes, begin: int, end: int) -> int:
    if not _COUNT.fullmatch(data, begin, end):
        raise ValueError
    return int(data[begin:end])


# ------------------------------------------------------------------------------------------------ any layout
def _parse_any(data: bytes) -> Recording:
    lines = _Lines(data)
    frame_K, id_K, values = [], [], array("d")
    frames = lines.count("frames")
    if frames > MAX_FRAMES:
        lines.refuse(f"it says it has {frames:,} frames; no recording has more than {MAX_FRAMES:,}")
    for frame in range(frames):
        for _ in range(lines.count("bodies")):
            (identity, *_) = lines.fields(_ID_FIELDS, "a body's tracking id and state")
            if not _ID.fullmatch(identity):
                lines.refuse(f"the tracking id {shown(identity)} is not a whole number")
            frame_K.append(frame)
            id_K.append(identity)
            if lines.fields(1, "the number of joints") != [b"25"]:
                lines.refuse("the number of joints should be 25")
            for _ in range(_JOINTS):
                for field in lines.fields(_JOINT_FIELDS, "a joint")[:3]:
                    try:
                        values.append(number(field))
                    except NotANumber as error:
                        lines.refuse(str(error))
    lines.end()
    if not id_K:
        raise BadFile(f"there is no body in any of its {frames} frames")
    return Recording(frames, frame_K, id_K, to_float32(np.array(values)).reshape(-1, _JOINTS, 3))


class _Lines:
    """The lines of a text, one after the other; refuses what is not text."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place, self.line = data, 0, 0
        check_text(data)

    def refuse(self, reason: str) -> NoReturn:
        raise BadFile(f"line {self.line}: {reason}")

    def fields(self, count: int, what: str) -> list[bytes]:
        """The fields of the next line, ``count`` of them."""
        if self.place >= len(self.data):
            raise BadFile(f"it ends after {self.line} lines where {what} should follow; the file is cut short")
        end = self.data.find(b"\n", self.place)
        end = len(self.data) if end < 0 else end
        self.line += 1
        fields = self.data[self.place : end].split(None, count)
        self.place = end + 1
        if len(fields) != count:
            found = "more" if len(fields) > count else len(fields)
            cut = "; the file is cut short" if self.place > len(self.data) and len(fields) < count else ""
            self.refuse(f"{what} should be {count} field{'s' * (count > 1)}, found {found}{cut}")
        return fields

    def count(self, what: str) -> int:
        """The next line as the number of something."""
        (field,) = self.fields(1, f"the number of {what}")
        if not _COUNT.fullmatch(field):
            self.refuse(f"the number of {what} should stand here, found {shown(field)}")
        return int(field)

    def end(self) -> None:
        """Only blanks may follow."""
        rest = self.data[self.place :]
        if rest.strip():
            self.line += rest[: len(rest) - len(rest.lstrip())].count(b"\n") + 1
            self.refuse("there is more text after the last frame")
