"""Mutated texts for the readers of raw files (:mod:`campaign.mutate` tries them).

Every input must be read or refused with a reason, within a second, and exactly as a slow and obvious reader does it:
the same inputs accepted, the same values. The bases are small files with everything a real one has.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from skelbench.data.raw.files import BadFile
from skelbench.data.raw.ntu.clip import make_clip
from skelbench.data.raw.ntu.text import Recording, parse
from skelbench.data.raw.pku.names import parse_split
from skelbench.data.raw.pku.text import parse_frames, parse_labels

from .ntu import cut_track, wild_scene, write_recording
from .pku import labels, split_file, video, write_labels, write_video

SECONDS = 1.0
"""Longest an input of some 20 KB may take."""

TOKENS = """nan NaN inf -Infinity 1e999 1e-400 -0 -0.0 0x1 1_0 1e5 +5 5. .5 . - + e 1e 0 1 2 24 25 25.0 026 -1
999999999 9999999999 123456789.123 0.12345678 0.123456789 9.12345678901234 9.123456789012345 9.99999999999999999999 12.5
7205759403793 99999999999999999999 999999999999999999999 \u00e9 , ,, 1,2 A01N01-L""".split()
BLANKS = [b" ", b"  ", b"\t", b"\r", b"\n", b"\r\n", b"", b"\0", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xa0"]


# ------------------------------------------------------------------------------------------------ obvious readers
def _lines(data: bytes) -> list[list[str]] | None:
    """Fields of every line; None if there is anything but printable ASCII and usual blanks."""
    text = data.decode("latin-1")
    if any(not (" " <= c <= "~" or c in "\t\r\n") for c in text):
        return None
    return [line.split() for line in text.split("\n")]


def _number(field: str) -> float:
    if "_" in field:
        raise ValueError
    return float(field)


def _count(field: str) -> int:
    if not field.isdigit() or len(field) > 9:
        raise ValueError
    return int(field)


def literal_recording(data: bytes) -> Any:
    """(frames, [(frame, id, 75 float32 values), ...]) of a `.skeleton` text; None if it is not one."""
    lines = _lines(data)
    if lines is None:
        return None
    place = 0

    def take(count: int) -> list[str]:
        nonlocal place
        fields = lines[place]
        place += 1
        if len(fields) != count:
            raise ValueError
        return fields

    try:
        frames, seen = _count(take(1)[0]), []
        if frames > 10_000:
            return None
        for frame in range(frames):
            for _ in range(_count(take(1)[0])):
                identity = take(10)[0]
                if not identity.removeprefix("-").isdigit() or len(identity.removeprefix("-")) > 20:
                    raise ValueError
                if take(1) != ["25"]:
                    raise ValueError
                values = [np.float32(_number(field)) for _ in range(25) for field in take(12)[:3]]
                seen.append((frame, identity, np.array(values).tobytes()))
    except (ValueError, IndexError):
        return None
    if any(lines[place:]) or not seen:
        return None
    return frames, seen


def literal_frames(data: bytes) -> Any:
    """Rows of float32 of a PKU-MMD video, as bytes; None if it is not one."""
    try:
        rows = [[np.float32(_number(field)) for field in line] for line in _lines(data) or [] if line]
    except ValueError:
        return None
    return np.array(rows).tobytes() if rows and all(len(row) == 150 for row in rows) else None


def literal_labels(data: bytes) -> Any:
    """(action, start, end) of every row; None if a row is something else."""
    if _lines(data) is None:
        return None
    actions = []
    for line in data.decode("ascii").split("\n"):
        if line.strip():
            try:
                fields = [field.strip() for field in line.split(",")][:3]
                for field in fields:
                    whole, _, zeros = field.partition(".")
                    if not whole.lstrip("+-").isdigit() or len(whole.lstrip("+-")) > 9 or zeros.strip("0"):
                        raise ValueError
                action, start, end = (int(field.partition(".")[0]) for field in fields)
            except ValueError:
                return None
            actions.append((action, start, end))
    return actions


# ------------------------------------------------------------------------------------------------ ours, comparable
def comparable(recording: Recording) -> Any:
    """What a reader made of a `.skeleton` text, as :func:`literal_recording` gives it."""
    ids = [identity.decode() for identity in recording.id_K]
    return recording.frames, list(zip(recording.frame_K, ids, [x.tobytes() for x in recording.x_KJC], strict=True))


def our_recording(data: bytes) -> Any:
    """As :func:`literal_recording`, by the reader under test, which must also survive what follows it."""
    recording = parse(data)
    with suppress(BadFile):
        clip = make_clip(recording)
        assert np.isfinite(clip.x_MTJC).all() and 0 not in clip.x_MTJC.shape
    return comparable(recording)


def our_frames(data: bytes) -> Any:
    """As :func:`literal_frames`."""
    return parse_frames(data).tobytes()


def our_labels(data: bytes) -> Any:
    """As :func:`literal_labels`."""
    return [tuple(action) for action in parse_labels(data)]


def our_split(data: bytes) -> Any:
    """A split file: whatever is accepted must be disjoint and made of names that stand in the file."""
    rule = parse_split("pku2", data)
    if rule is not None:
        assert rule.train and rule.test and not set(rule.train) & set(rule.test)
        assert all(name.encode() in data for name in (*rule.train, *rule.test))
    return rule


# ------------------------------------------------------------------------------------------------ inputs
def bases(seed: int) -> list[tuple[Callable[[bytes], Any], Callable[[bytes], Any] | None, list[bytes]]]:
    """(reader under test, obvious reader, texts) per kind."""
    rng = np.random.default_rng(seed)
    recordings = []
    for i in range(24):
        frames = 13 if i % 12 == 0 else int(rng.integers(1, 4))
        tracks = [cut_track(track, frames) for track in wild_scene(rng, 13)[: 1 if frames == 13 else 3]]
        end, digits = ("\r\n", "\n")[i % 2], (7, 7, 3, 9, 17)[i % 5]
        recordings.append(write_recording(tracks, frames, end, digits))
    videos = [write_video(video(rng, int(rng.integers(1, 6)), 0.5)) for _ in range(12)]
    rows = [write_labels(labels(rng, 500, int(rng.integers(1, 9)))) for _ in range(12)]
    names = [f"A{a:02}N{n:02}-{v}" for a in range(1, 4) for n in range(1, 4) for v in "LMR"]
    splits = [split_file(names[:k], names[k:]) for k in (1, 9, 20)]
    return [
        (our_recording, literal_recording, recordings),
        (our_frames, literal_frames, videos),
        (our_labels, literal_labels, rows),
        (our_split, None, splits),
    ]


def mutate(random_: random.Random, text: bytes, other: bytes) -> bytes:
    """One to four changes, from a digit for a digit to whole stretches of lines."""
    for _ in range(random_.choice((1, 1, 1, 2, 4))):
        at = random_.randrange(len(text) + 1)
        to = min(len(text), at + random_.choice((1, 1, 2, 8, 60, 600)))
        kind = random_.randrange(13)
        near = range(at, min(at + 60, len(text)))
        if kind == 0:  # another digit, so that the layout stays
            if digits := [i for i in near if 48 <= text[i] < 58]:
                at = random_.choice(digits)
                text = text[:at] + bytes([random_.randrange(48, 58)]) + text[at + 1 :]
        elif kind in (1, 2, 3):  # another field
            start = max(text.rfind(b" ", 0, at), text.rfind(b"\n", 0, at), text.rfind(b",", 0, at)) + 1
            ends = [i for i in (text.find(c, start) for c in (b" ", b"\r", b"\n", b",")) if i >= 0]
            number = f"{random_.gauss(0, 2):.{random_.randrange(16)}f}"
            field = random_.choice(TOKENS) if kind > 1 else number
            text = text[:start] + field.encode("latin-1") + text[min(ends, default=len(text)) :]
        elif kind == 4:
            text = text[:at] + bytes([random_.randrange(256)]) + text[at + 1 :]
        elif kind == 5:
            text = text[:at] + text[to:]
        elif kind == 6:
            text = text[:at] + text[at:to] * 2 + text[to:]
        elif kind == 7:
            text = text[:at]
        elif kind == 8:
            text = text[:at] + b"\0" * (to - at) + text[to:]
        elif kind == 9:  # other blanks
            if places := [i for i in near if text[i] <= 32]:
                at = random_.choice(places)
                text = text[:at] + random_.choice(BLANKS) + text[at + 1 :]
        elif kind == 10:
            text = text[:at] + other[random_.randrange(len(other) + 1) :]
        elif kind == 11:  # lines lost, doubled or exchanged
            lines = text.split(b"\n")
            i, j = sorted(random_.randrange(len(lines) + 1) for _ in range(2))
            j = min(j, i + random_.choice((1, 1, 27, 28)))
            lines[i:j] = random_.choice(([], lines[i:j] * 2, lines[i:j][::-1]))
            text = b"\n".join(lines)
        else:
            text = text.replace(b"\r\n", b"\n") if b"\r" in text else text.replace(b"\n", b"\r\n")
    return text


def check(ours: Callable[[bytes], Any], literal: Callable[[bytes], Any] | None, text: bytes) -> bool:
    """Whether the text is accepted; raises AssertionError if the two readers disagree or it takes too long."""
    begin = time.perf_counter()
    try:
        result = ours(text)
    except BadFile as error:
        assert str(error) and "\n" not in str(error), repr(str(error))
        result = None
    seconds = time.perf_counter() - begin
    assert seconds < SECONDS, f"took {seconds:.1f} s"
    if literal is not None:
        assert result == literal(text), "the two readers disagree"
    return result is not None
