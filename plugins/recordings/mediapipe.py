"""Landmarks of MediaPipe Pose: npy [T, 33, 3 or 4], CSV with a row per frame, or JSON; one person.

Image landmarks are fractions of the image's width and height, y down, with a visibility: 2-D keypoints. World landmarks
are meters with the hips at the origin, y down. A JSON file says which by its key ("landmarks" or "world_landmarks");
otherwise a median of x and y below 0.1 means world landmarks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from skelbench_plugins.recordings.clips import Motion, files_in, items, recording
from skelbench_plugins.recordings.skeletons import MEDIAPIPE33

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.recording import ImportOptions, Recording

SUFFIXES = (".npy", ".csv", ".json")
KEYS = {"world_landmarks": True, "pose_world_landmarks": True, "landmarks": False, "pose_landmarks": False}
"""Keys of a frame in JSON -> whether they are world landmarks."""
LANDMARKS = MEDIAPIPE33.num_joints


def read_landmarks(path: Path) -> tuple[np.ndarray, bool | None] | None:
    """Return landmarks [T, 33, 3 or 4] (x, y, z, visibility) and whether they are world landmarks (None = unknown).

    None for a file of another format. A frame without a person is 0.
    """
    if path.suffix == ".npy":
        array = np.load(path, allow_pickle=False)
        fits = array.ndim == 3 and array.shape[1] == LANDMARKS and array.shape[2] in (3, 4)
        return (np.nan_to_num(array.astype(np.float32)), None) if fits else None
    if path.suffix == ".csv":
        rows = np.genfromtxt(path, delimiter=",", dtype=np.float32, ndmin=2)
        rows = rows[~np.isnan(rows).all(axis=1)]  # the header
        extra = next((extra for extra in (0, 1) for size in (3, 4) if rows.shape[1] == LANDMARKS * size + extra), None)
        return (np.nan_to_num(rows[:, extra:].reshape(len(rows), LANDMARKS, -1)), None) if extra is not None else None
    value = json.loads(path.read_text())
    frames = value.get("frames") if isinstance(value, dict) else value
    if not isinstance(frames, list) or not frames:
        return None
    key = next((key for key in KEYS for frame in frames if isinstance(frame, dict) and frame.get(key)), None)
    if key is None and not any(isinstance(frame, list) and len(frame) == LANDMARKS for frame in frames):
        return None
    points = [_points(frame.get(key) if isinstance(frame, dict) else frame) for frame in frames]
    return np.stack(points), KEYS.get(key or "")


def _points(landmarks: Any) -> np.ndarray:
    """Return the landmarks [33, 4] of one frame."""
    if landmarks and isinstance(landmarks[0], list) and len(landmarks) == 1:  # one person of a list of people
        landmarks = landmarks[0]
    if not landmarks:
        return np.zeros((LANDMARKS, 4), dtype=np.float32)
    if isinstance(landmarks[0], dict):
        landmarks = [[p["x"], p["y"], p.get("z", 0), p.get("visibility", 1)] for p in landmarks]
    array = np.array(landmarks, dtype=np.float32)
    return np.concatenate([array, np.ones((LANDMARKS, 4 - array.shape[1]), np.float32)], axis=1)


def mediapipe(files: Sequence[Path], options: ImportOptions) -> Recording | None:
    """Return the recording in files of landmarks; None if the first file is of another format."""
    clips = [clip for suffix in SUFFIXES for clip in files_in(files, suffix) if clip.name != "labels.csv"]
    try:
        first = read_landmarks(clips[0]) if clips else None
    except (ValueError, KeyError, TypeError, AttributeError):
        first = None
    if first is None:
        return None
    seen = first[0][first[0].any(axis=(1, 2)), :, :2]
    world = first[1] if first[1] is not None else bool(len(seen) and np.median(seen) < 0.1)
    where = str(files[0])
    if not world and options.image_size is None:
        raise SkelbenchError(f"{where} has landmarks in fractions of the image; say its size: --image-size 1920x1080")
    width, height = options.image_size or (1, 1)  # not used for world landmarks

    def read(path: Path) -> Motion:
        entries = read_landmarks(path)
        if entries is None:
            raise ValueError("it has no 33 landmarks per frame")
        x_TJC = entries[0]
        score_TJ = np.asarray(x_TJC[..., 3] if x_TJC.shape[2] == 4 else x_TJC.any(axis=2), dtype=np.float32)
        if world:
            return Motion(x_TJC[None, ..., :3])
        pixels_TJC = np.asarray(x_TJC)[..., :2] * np.array([width, height], dtype=np.float32)
        return Motion(pixels_TJC[None], score_TJ[None], (height, width))

    kind = f"MediaPipe Pose, {'world' if world else 'image'} landmarks"
    entries = items(files, clips)
    return recording(kind, entries, read, MEDIAPIPE33, options, flat=not world, up="-y", where=where)
