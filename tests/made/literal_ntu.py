"""The CTR-GCN / MAMP pipeline in plain words: slow, frame by frame, from its description. For comparison only."""

import numpy as np


def literal_clip(frames, seen):
    """``seen``: (frame, id, 75 float32 as bytes), as `fuzz_text.literal_recording` gives them.

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
