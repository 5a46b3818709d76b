"""Reading one raw `.skeleton` text.

Lines: the number of frames; per frame the number of bodies; per body a line of 10 fields (the tracking id first), a
line ``25``, and 25 lines of 12 fields (x, y, z in meters first).

K bodies seen, over all frames; J = 25 joints; C = x, y, z.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from skelbench.data.raw.files import BadFile, check_text

_JOINTS, _ID_FIELDS, _JOINT_FIELDS = 25, 10, 12


@dataclass(frozen=True)
class Recording:
    """Content of a file: K times a body was seen, in the order of the text."""

    frames: int
    """Frames in the file, including those without a body."""
    frame_K: list[int]
    """Frame of the file, ascending."""
    id_K: list[bytes]
    """Tracking id as text: real ones exceed 2^53."""
    x_KJC: np.ndarray
    """float32 [K, 25, 3], camera coordinates in meters; may hold values that are not finite."""


def parse(data: bytes) -> Recording:
    """Read a `.skeleton` text; raise :class:`BadFile` with the line and the reason if it is not one."""
    if not data:
        raise BadFile("the file is empty")
    check_text(data)
    lines = _Lines(data)
    frame_K, id_K, values = [], [], array("d")
    frames = lines.count("frames")
    for frame in range(frames):
        for _ in range(lines.count("bodies")):
            frame_K.append(frame)
            id_K.append(lines.fields(_ID_FIELDS, "a body's tracking id and state")[0])
            if lines.fields(1, "the number of joints") != [b"25"]:
                lines.refuse("the number of joints should be 25")
            for _ in range(_JOINTS):
                x, y, z, *_ = lines.fields(_JOINT_FIELDS, "a joint")
                try:
                    values.extend((float(x), float(y), float(z)))
                except ValueError as error:
                    lines.refuse(str(error))
    if any(line.strip() for line in lines.rest):
        lines.refuse("there is more text after the last frame")
    if not id_K:
        raise BadFile(f"there is no body in any of its {frames} frames")
    with np.errstate(over="ignore"):  # too large a number becomes infinite
        x_KJC = np.array(values).astype(np.float32)
    return Recording(frames, frame_K, id_K, x_KJC.reshape(-1, _JOINTS, 3))


class _Lines:
    """Lines of a text, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.rest, self.number = iter(data.split(b"\n")), 0

    def refuse(self, reason: str) -> NoReturn:
        raise BadFile(f"line {self.number}: {reason}")

    def fields(self, count: int, what: str) -> list[bytes]:
        """Return the fields of the next line, which must be ``count``."""
        line = next(self.rest, None)
        fields = [] if line is None else line.split()
        if line is None or (not fields and not any(rest.strip() for rest in self.rest)):
            raise BadFile(f"it ends after {self.number} lines where {what} should follow; the file is cut short")
        self.number += 1
        if len(fields) != count:
            self.refuse(
                f"{what} should be {count} field{'s' * (count > 1)}, found {len(fields)}; is the file cut short?"
            )
        return fields

    def count(self, what: str) -> int:
        """Return the next line as the number of something."""
        (field,) = self.fields(1, f"the number of {what}")
        if not field.isdigit():
            self.refuse(f"the number of {what} should be here, found {field[:20].decode()!r}")
        return int(field)
