"""Names of PKU-MMD videos, the official split files, and action names."""

from __future__ import annotations

import re
from typing import NamedTuple

from skelbench.data.raw.files import BadFile
from skelbench.data.store.splits import NameRule

_CAMERAS = {"L": 1, "M": 2, "R": 3}
_VIDEOS = {
    "pku1": re.compile(r"(\d{4})()-([LMR])", re.ASCII),
    "pku2": re.compile(r"A(\d{2})N(\d{2})-([LMR])", re.ASCII),
}
_ANY_VIDEO = re.compile(r"\b(?:\d{4}|A\d{2}N\d{2})-[LMR]\b")
_SPLIT = re.compile(r"cross[-_ ]?(subject|view)(?:[-_ ]?v?\d)?\.txt", re.IGNORECASE)


class Video(NamedTuple):
    """Numbers in a name such as A07N03-L (phase II) or 0012-M (phase I; its names have no subject, so it is 0)."""

    sequence: int
    subject: int
    camera: int
    """L, M, R = 1, 2, 3."""


def video_of(which: str, name: str) -> Video | None:
    """Return the numbers of a video's name; None if it is no name of this phase."""
    match = _VIDEOS[which].fullmatch(name)
    return match and Video(int(match[1]), int(match[2] or 0), _CAMERAS[match[3]])


def split_of(file_name: str) -> str | None:
    """Return ``cross-subject`` or ``cross-view`` for a name of a split file, ``cross_subject_v2.txt``; else None."""
    match = _SPLIT.fullmatch(file_name)
    return match and f"cross-{match[1].lower()}"


def parse_split(which: str, data: bytes) -> NameRule | None:
    """Return the rule in a split file: a heading with "train", videos, a heading with "test" or "valid", videos.

    Line ends, blanks and commas do not matter. None if it lists no videos of this phase on one of the sides;
    :class:`BadFile` if both list the same video.
    """
    sides: dict[str, dict[str, None]] = {"": {}, "train": {}, "test": {}}
    side = ""
    for line in data.decode("ascii", "replace").lower().splitlines():
        side = "train" if "train" in line else "test" if "test" in line or "valid" in line else side
        sides[side] |= dict.fromkeys(name for name in _ANY_VIDEO.findall(line.upper()) if video_of(which, name))
    if both := sorted(sides["train"].keys() & sides["test"]):
        raise BadFile(f"it lists {both[0]} for training and for testing (videos in both: {len(both)})")
    if not sides["train"] or not sides["test"]:
        return None
    return NameRule(field="video", train=tuple(sides["train"]), test=tuple(sides["test"]))


ACTIONS = (
    "bow", "brushing hair", "brushing teeth", "check time (from watch)", "cheer up", "clapping",
    "cross hands in front (say stop)", "drink water", "drop", "eat meal/snack", "falling",
    "giving something to other person", "hand waving", "handshaking", "hopping (one foot jumping)",
    "hugging other person", "jump up", "kicking other person", "kicking something", "make a phone call/answer phone",
    "pat on back of other person", "pickup", "playing with phone/tablet", "point finger at the other person",
    "pointing to something with finger", "punching/slapping other person", "pushing other person", "put on a hat/cap",
    "put something inside pocket", "reading", "rub two hands together", "salute", "sitting down", "standing up",
    "take off a hat/cap", "take off glasses", "take off jacket", "take out something from pocket", "taking a selfie",
    "tear up paper", "throw", "touch back (backache)", "touch chest (stomachache/heart pain)", "touch head (headache)",
    "touch neck (neckache)", "typing on a keyboard", "use a fan (with hand or paper)/feeling warm", "wear jacket",
    "wear on glasses", "wipe face", "writing",
)  # fmt: skip
"""Names of actions 1 to 51."""
