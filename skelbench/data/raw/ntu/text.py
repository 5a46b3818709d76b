"""Reading one raw `.skeleton` text.

Its words are: the number of frames; per frame the number of bodies; per body 10 fields (the tracking id first), the
number 25, and 25 joints of 12 fields (x, y, z in meters first).

K bodies seen, over all frames; J = 25 joints; C = x, y, z.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np

from skelbench.data.raw.files import BadFile

_BODY_FIELDS, _JOINT_FIELDS = 10, 12
_FIELDS = _BODY_FIELDS + 1 + 25 * _JOINT_FIELDS


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
    """Read a `.skeleton` text; raise :class:`BadFile` with the frame and the reason if it is not one."""
    words, frame, frame_K, id_K, values = data.split(), 0, list[int](), list[bytes](), array("d")
    try:
        frames, at = int(words[0]), 1
        for frame in range(frames):
            bodies, at = int(words[at]), at + 1
            for _ in range(bodies):
                body, at = words[at : at + _FIELDS], at + _FIELDS
                if len(body) < _FIELDS or body[_BODY_FIELDS] != b"25":
                    raise ValueError("there should be a body of 25 joints")
                frame_K.append(frame)
                id_K.append(body[0])
                for axis in range(3):
                    values.extend(map(float, body[_BODY_FIELDS + 1 + axis :: _JOINT_FIELDS]))
    except (IndexError, ValueError) as error:
        reason = "the file ends here" if isinstance(error, IndexError) else str(error)[:80]
        raise BadFile(f"frame {frame}: {reason}; the file is damaged or cut short") from None
    if at < len(words):
        raise BadFile("there is more text after the last frame")
    if not id_K:
        raise BadFile(f"there is no body in any of its {frames} frames")
    with np.errstate(over="ignore"):  # too large a number becomes infinite
        x_KCJ = np.array(values).astype(np.float32).reshape(-1, 3, 25)
    return Recording(frames, frame_K, id_K, np.ascontiguousarray(x_KCJ.transpose(0, 2, 1)))
