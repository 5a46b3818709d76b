"""Names of NTU RGB+D samples, the official list of incomplete ones, action names, and the splits."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from skelbench.data.store.splits import FieldRule

_NAME = re.compile(r"S(\d{3})C(\d{3})P(\d{3})R(\d{3})A(\d{3})", re.ASCII)
_LIMITS = (32, 3, 106, 2, 120)


class Sample(NamedTuple):
    """The numbers in a name such as S001C002P003R002A013, all from 1."""

    setup: int
    camera: int
    performer: int
    replication: int
    action: int


def sample_of(name: str) -> Sample | None:
    """Return the numbers of a sample name; None if it is no sample name, or a number is outside the dataset's range."""
    match = _NAME.fullmatch(name)
    numbers = tuple(map(int, match.groups())) if match else ()
    if not match or not all(1 <= number <= limit for number, limit in zip(numbers, _LIMITS, strict=True)):
        return None
    return Sample(*numbers)


def who(name: str) -> dict[str, int]:
    """Return subject, camera, setup and trial of a sample name; empty if it is no sample name."""
    sample = sample_of(name)
    if sample is None:
        return {}
    return dict(subject=sample.performer, camera=sample.camera, setup=sample.setup, trial=sample.replication)


@cache
def official_missing() -> frozenset[str]:
    """Names of the 535 samples (302 of them in NTU RGB+D 60) that the authors ask to exclude."""
    return frozenset(resources.files(__package__).joinpath("missing.txt").read_text(encoding="ascii").split())


_TRAIN_60 = (1, 2, 4, 5, 8, 9, 13, 14, 15, 16, 17, 18, 19, 25, 27, 28, 31, 34, 35, 38)
_TRAIN_120 = _TRAIN_60 + (
    45, 46, 47, 49, 50, 52, 53, 54, 55, 56, 57, 58, 59, 70, 74, 78, 80, 81, 82, 83, 84, 85, 86, 89, 91, 92, 93, 94, 95,
    97, 98, 100, 103,
)  # fmt: skip

SPLITS = {
    "ntu60": {
        "cross-subject": FieldRule(field="subject", train=_TRAIN_60),
        "cross-view": FieldRule(field="camera", train=(2, 3), test=(1,)),
    },
    "ntu120": {
        "cross-subject": FieldRule(field="subject", train=_TRAIN_120),
        "cross-setup": FieldRule(field="setup", train="even"),
    },
}

ACTIONS = (
    "drink water", "eat meal/snack", "brushing teeth", "brushing hair", "drop", "pickup", "throw", "sitting down",
    "standing up (from sitting position)", "clapping", "reading", "writing", "tear up paper", "wear jacket",
    "take off jacket", "wear a shoe", "take off a shoe", "wear on glasses", "take off glasses", "put on a hat/cap",
    "take off a hat/cap", "cheer up", "hand waving", "kicking something",
    "put something inside pocket / take out something from pocket", "hopping (one foot jumping)", "jump up",
    "make a phone call/answer phone", "playing with phone/tablet", "typing on a keyboard",
    "pointing to something with finger", "taking a selfie", "check time (from watch)", "rub two hands together",
    "nod head/bow", "shake head", "wipe face", "salute", "put the palms together", "cross hands in front (say stop)",
    "sneeze/cough", "staggering", "falling", "touch head (headache)", "touch chest (stomachache/heart pain)",
    "touch back (backache)", "touch neck (neckache)", "nausea or vomiting condition",
    "use a fan (with hand or paper)/feeling warm", "punching/slapping other person", "kicking other person",
    "pushing other person", "pat on back of other person", "point finger at the other person", "hugging other person",
    "giving something to other person", "touch other person's pocket", "handshaking", "walking towards each other",
    "walking apart from each other", "put on headphone", "take off headphone", "shoot at the basket", "bounce ball",
    "tennis bat swing", "juggling table tennis balls", "hush (quiet)", "flick hair", "thumb up", "thumb down",
    "make ok sign", "make victory sign", "staple book", "counting money", "cutting nails",
    "cutting paper (using scissors)", "snapping fingers", "open bottle", "sniff (smell)", "squat down", "toss a coin",
    "fold paper", "ball up paper", "play magic cube", "apply cream on face", "apply cream on hand back", "put on bag",
    "take off bag", "put something into a bag", "take something out of a bag", "open a box", "move heavy objects",
    "shake fist", "throw up cap/hat", "hands up (both hands)", "cross arms", "arm circles", "arm swings",
    "running on the spot", "butt kicks (kick backward)", "cross toe touch", "side kick", "yawn", "stretch oneself",
    "blow nose", "hit other person with something", "wield knife towards other person",
    "knock over other person (hit with body)", "grab other person's stuff", "shoot at other person with a gun",
    "step on foot", "high-five", "cheers and drink", "carry something with other person",
    "take a photo of other person", "follow other person", "whisper in other person's ear",
    "exchange things with other person",
    "support somebody with one's hand (someone is sick, help him to walk)",
    "finger-guessing game (playing rock-paper-scissors)",
)  # fmt: skip
"""Names of actions A1 to A120 (NTU RGB+D 60: the first 60)."""
