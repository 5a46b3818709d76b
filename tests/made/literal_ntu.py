"""Slow, literal readers of raw texts, and the CTR-GCN / MAMP pipeline frame by frame, from its description."""

import numpy as np


def literal_clip(frames, seen):
    """``seen``: (frame, id, 75 float32 as bytes), as :func:`literal_recording` gives them.

    Returns [M][T] lists of 75 float32 values with the origin subtracted, and the origin; None if there is no clip.
    """
    kept_frames = sorted({frame for frame, _, _ in seen})
    tracks = {}
    for frame, identity, values in seen:
        track = tracks.setdefault(identity, {"start": kept_frames.index(frame), "rows": []})
        track["rows"].append(np.frombuffer(values, dtype=np.float32))
    total = len(kept_frames)
    zero = np.zeros(75, dtype=np.float32)
    for track in tracks.values():
        track["motion"] = motion(track["rows"])
        if track["start"] + len(track["rows"]) > total:
            return None
    if len(tracks) == 1:
        (track,) = tracks.values()
        bodies = [track["rows"]]
    else:
        left = [track for track in tracks.values() if len(track["rows"]) > 11]
        if not left:
            return None
        if len(left) > 1:
            left = without_furniture(left)
        if len(left) == 1:
            bodies = [[zero] * total]
            write(bodies[0], left[0])
        else:
            left = [left[i] for i in sorted(range(len(left)), key=lambda i: (-left[i]["motion"], i))]
            bodies = [[zero] * total, [zero] * total]
            write(bodies[0], left[0])
            span = [[left[0]["start"], left[0]["start"] + len(left[0]["rows"]) - 1], [0, 0]]
            for track in left[1:]:
                first, last = track["start"], track["start"] + len(track["rows"]) - 1
                for body in (0, 1):
                    if min(span[body][1], last) - max(span[body][0], first) <= 0:
                        write(bodies[body], track)
                        span[body] = [min(span[body][0], first), max(span[body][1], last)]
                        break
        full = [t for t in range(total) if any(body[t].any() for body in bodies)]
        bodies = [[body[t] for t in full] for body in bodies]
    there = [row for row in bodies[0] if row.any()]
    if not there:
        return None
    origin = there[0][3:6]
    shift = np.concatenate([origin] * 25)
    if len(bodies) == 1:
        return [[row - shift for row in bodies[0]]], origin
    return [[row - shift if row.any() else zero for row in body] for body in bodies], origin


def write(body, track):
    for i, row in enumerate(track["rows"]):
        body[track["start"] + i] = row


def motion(rows):
    points = np.concatenate(rows).reshape(-1, 3).astype(np.float64)
    return float(((points - points.mean(axis=0)) ** 2).mean(axis=0).sum())


def without_furniture(tracks):
    left = list(tracks)
    for track in tracks:
        if len(left) == 1:
            break
        upright = []
        for row in track["rows"]:
            x, y = row[0::3], row[1::3]
            if float(x.max() - x.min()) <= 0.8 * float(y.max() - y.min()):
                upright.append(row)
        wide = len(track["rows"]) - len(upright)
        if wide / len(track["rows"]) >= 0.69754:
            left = [other for other in left if other is not track]
        elif wide:
            track["motion"] = min(track["motion"], motion(upright))
    return left


def _lines(data):
    """Fields of every line; None if there is anything but printable ASCII and usual blanks."""
    text = data.decode("latin-1")
    if any(not (" " <= c <= "~" or c in "\t\r\n") for c in text):
        return None
    return [line.split() for line in text.split("\n")]


def _number(field):
    if "_" in field:
        raise ValueError
    return float(field)


def _count(field):
    if not field.isdigit() or len(field) > 9:
        raise ValueError
    return int(field)


def literal_recording(data):
    """(frames, [(frame, id, 75 float32 values), ...]) of a `.skeleton` text; None if it is not one."""
    lines = _lines(data)
    if lines is None:
        return None
    place = 0

    def take(count):
        nonlocal place
        fields = lines[place]
        place += 1
        if len(fields) != count:
            raise ValueError
        return fields

    try:
        frames, seen = _count(take(1)[0]), []
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


def literal_frames(data):
    """Rows of float32 of a PKU-MMD video, as bytes; None if it is not one."""
    try:
        rows = [[np.float32(_number(field)) for field in line] for line in _lines(data) or [] if line]
    except ValueError:
        return None
    return np.array(rows).tobytes() if rows and all(len(row) == 150 for row in rows) else None


def comparable(recording):
    """Result of the parser under test, in the form of :func:`literal_recording`."""
    ids = [identity.decode() for identity in recording.id_K]
    return recording.frames, list(zip(recording.frame_K, ids, [x.tobytes() for x in recording.x_KJC], strict=True))
