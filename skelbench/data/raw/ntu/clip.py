"""Clips from tracked bodies: the denoising and centering of the CTR-GCN / MAMP pipeline, value for value.

All steps of the pipeline are kept, including odd ones: later frames of a body move forward to close a hole; bodies
that follow each other in time become one; a frame shared by two does not count as overlap; a body that moves out of
range is kept (that filter is switched off in the original). Coordinates, the order of operations and their precision
(float32) are the original's, so both arrays are equal bit for bit.

K bodies seen over all frames, T frames, J = 25 joints, C = x, y, z, M = 1 or 2 bodies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skelbench.data.raw.files import BadFile
from skelbench.data.raw.ntu.text import Recording

MIN_FRAMES = 11
"""A body seen in no more frames than this is dropped, if there is another."""
MAX_SPREAD = 0.8
"""A frame shows no standing person if a body is wider than this fraction of its height."""
MAX_WIDE = 0.69754
"""A body is taken for furniture if at least this fraction of its frames shows no standing person."""
CENTER = 1
"""Joint at the origin: the middle of the spine."""

CONSTANTS = {"min_frames": MIN_FRAMES, "max_spread": MAX_SPREAD, "max_wide_share": MAX_WIDE, "center_joint": CENTER}


@dataclass(frozen=True)
class Clip:
    """A clip of M bodies."""

    x_MTJC: np.ndarray
    """float32, centered; a body that is absent from a frame is zero there."""
    origin: np.ndarray
    """float32 [3], added to ``x_MTJC`` gives camera coordinates."""
    empty_body: bool
    """Whether the second body is zero in every frame."""
    seen_frames: int
    """Frames of the file with a body; larger than the clip's length if denoising removed all bodies of a frame."""


@dataclass(eq=False)
class _Track:
    """One tracking id: the frames in which it was seen, counted among those with any body, without a gap."""

    x_TJC: np.ndarray
    start: int
    motion: np.floating

    @property
    def end(self) -> int:
        """Its last frame."""
        return self.start + len(self.x_TJC) - 1


def make_clip(recording: Recording) -> Clip:
    """Return the clip that the pipeline makes of a recording; :class:`BadFile` if it fails."""
    frame_K = np.array(recording.frame_K)
    seen_K = np.concatenate([[0], np.cumsum(np.diff(frame_K) > 0)])
    frames = int(seen_K[-1]) + 1
    with np.errstate(invalid="ignore", over="ignore"):  # values that are not finite are rejected below, if they matter
        if len(set(recording.id_K)) == 1:
            x_TD = np.zeros((frames, 75), dtype=np.float32)
            _put(x_TD, _Track(recording.x_KJC, 0, np.float32(0)))
        else:
            x_TD = _select(_tracks(recording, seen_K), frames)
            x_TD = x_TD[x_TD.sum(axis=1) != 0]
        x_MTJC, origin = _center(x_TD)
    if not np.isfinite(x_MTJC).all():
        body, frame, joint, _ = np.argwhere(~np.isfinite(x_MTJC))[0].tolist()
        raise BadFile(f"body {body}, joint {joint} in frame {frame} of the clip has a coordinate that is not finite")
    return Clip(x_MTJC, origin, len(x_MTJC) == 2 and not x_TD[:, 75:].any(), frames)


def _tracks(recording: Recording, seen_K: np.ndarray) -> list[_Track]:
    """Bodies by tracking id, in order of appearance."""
    places: dict[bytes, list[int]] = {}
    for place, identity in enumerate(recording.id_K):
        places.setdefault(identity, []).append(place)
    tracks = []
    for where in places.values():
        x_TJC = recording.x_KJC[where]
        tracks.append(_Track(x_TJC, int(seen_K[where[0]]), _motion(x_TJC)))
    return tracks


def _motion(x_TJC: np.ndarray) -> np.floating:
    """Variance of all its points about their common mean, summed over the axes."""
    return np.sum(np.var(x_TJC.reshape(-1, 3), axis=0))


def _select(tracks: list[_Track], frames: int) -> np.ndarray:
    """The one or two bodies of a clip with several tracking ids: float32 [T, 75 or 150]."""
    bodies = [track for track in tracks if len(track.x_TJC) > MIN_FRAMES]
    if not bodies:
        raise BadFile(f"no body is seen in more than {MIN_FRAMES} frames")
    if len(bodies) > 1:
        bodies = _without_furniture(bodies)
    if len(bodies) == 1:
        x_TD = np.zeros((frames, 75), dtype=np.float32)
        _put(x_TD, bodies[0])
        return x_TD
    bodies.sort(key=lambda track: track.motion, reverse=True)
    x_TD = np.zeros((frames, 150), dtype=np.float32)
    starts, ends = [bodies[0].start, 0], [bodies[0].end, 0]
    for track in bodies:
        for i, part_TD in enumerate((x_TD[:, :75], x_TD[:, 75:])):
            # The first track is body 1; body 2 begins as if it had been seen in frame 0 alone.
            if track is bodies[0] or min(ends[i], track.end) - max(starts[i], track.start) <= 0:
                _put(part_TD, track)
                starts[i], ends[i] = min(starts[i], track.start), max(ends[i], track.end)
                break
    return x_TD


def _without_furniture(tracks: list[_Track]) -> list[_Track]:
    bodies = list(tracks)
    for track in tracks:
        if len(bodies) == 1:
            break
        x_JCT = np.ascontiguousarray(track.x_TJC[..., :2].transpose(1, 2, 0))  # ten times as fast along the first axis
        width_T, height_T = (x_JCT.max(axis=0) - x_JCT.min(axis=0)).astype(np.float64)
        upright_T = width_T <= MAX_SPREAD * height_T
        wide = len(upright_T) - np.count_nonzero(upright_T)
        if wide / len(upright_T) >= MAX_WIDE:
            bodies.remove(track)
        elif wide:
            track.motion = min(track.motion, _motion(track.x_TJC[upright_T]))
    return bodies


def _put(part_TD: np.ndarray, track: _Track) -> None:
    if track.end >= len(part_TD):
        raise BadFile("a tracking id occurs more than once in the same frame")
    part_TD[track.start : track.end + 1] = track.x_TJC.reshape(-1, 75)


def _center(x_TD: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Subtract body 1's spine in its first frame that is not zero; [M, T, 25, 3] and the origin."""
    frames, bodies = len(x_TD), x_TD.shape[1] // 75
    there_T = (x_TD[:, :75] != 0).any(axis=1)
    if not there_T.any():
        raise BadFile("the first body is zero in every frame")
    origin = x_TD[np.argmax(there_T), 3 * CENTER : 3 * CENTER + 3].copy()
    x_TMJC = x_TD.reshape(frames, bodies, 25, 3) - origin
    if bodies == 2:
        for body in range(2):
            absent_T = x_TD[:, 75 * body : 75 * body + 75].sum(axis=1) == 0
            x_TMJC[absent_T, body] = 0
    return np.ascontiguousarray(x_TMJC.transpose(1, 0, 2, 3)), origin
