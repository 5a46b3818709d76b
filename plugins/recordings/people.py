"""2-D keypoints of several people per frame: OpenPose, AlphaPose, mmpose (RTMPose) and Kinetics-Skeleton JSON.

People are followed from frame to frame by the ids in the file. Without ids a person continues the person in the
previous frame whose box overlaps most (intersection over union above 0.1); otherwise a new person begins. A joint of
score 0 was not seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from skelbench_plugins.recordings.clips import Item, Motion, files_in, items, recording

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.recording import ImportOptions, Recording
from skelbench.views.skeleton.topology import Topology, topologies

Person = tuple[Any, np.ndarray]
"""(id, or None; keypoints [J, 3]: x, y, score)."""
OVERLAP = 0.1
KINETICS_IMAGE = (256, 340)
JOINTS = {17: "coco17", 18: "openpose18", 25: "body25"}
COCO_FIRST = 17
"""COCO-WholeBody (133) and Halpe (26, 136) begin with the joints of COCO."""


def follow(frames: Sequence[Sequence[Person]]) -> tuple[np.ndarray, np.ndarray]:
    """Return x [M, T, J, 2] and scores [M, T, J] of the people in ``frames``."""
    joints = next(points.shape[0] for people in frames for _, points in people)
    tracks: dict[Any, dict[int, np.ndarray]] = {}
    last: dict[Any, np.ndarray] = {}
    for t, people in enumerate(frames):
        now: dict[Any, np.ndarray] = {}
        free = [person for person in last if not isinstance(person, str)]
        for identity, points in sorted(people, key=lambda person: -person[1][:, 2].sum()):
            key: Any = None if identity is None else f"id {identity}"
            if key is None:
                overlaps = {person: _overlap(last[person], points) for person in free}
                key = max(overlaps, key=lambda person: overlaps[person], default=None)
                if key is None or overlaps[key] < OVERLAP:
                    key = len(tracks)
                else:
                    free.remove(key)
            now[key] = tracks.setdefault(key, {})[t] = points
        last = now or last
    x_MTJC = np.zeros((len(tracks), len(frames), joints, 3), dtype=np.float32)
    for m, track in enumerate(tracks.values()):
        for t, points in track.items():
            x_MTJC[m, t] = points
    return x_MTJC[..., :2], x_MTJC[..., 2]


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of the boxes around two people."""
    boxes = [points[points[:, 2] > 0, :2] for points in (a, b)]
    if not all(map(len, boxes)):
        return 0.0
    low, high = (np.array([edge(box, axis=0) for box in boxes]) for edge in (np.min, np.max))
    shared = np.prod(np.clip(high.min(0) - low.max(0), 0, None))
    return float(shared / max(np.prod(high - low, axis=1).sum() - shared, 1e-9))


def _points(values: Any, scores: Any = None) -> np.ndarray:
    """Return keypoints [J, 3] from a flat list of x, y, score, or from a list of [x, y] and a list of scores."""
    if scores is None:
        return np.array(values, dtype=np.float32).reshape(-1, 3)
    return np.column_stack([np.array(values, dtype=np.float32)[:, :2], np.array(scores, dtype=np.float32).ravel()])


def _openpose(folder: Path) -> list[list[Person]]:
    frames = []
    for file in sorted(folder.glob("*.json")):
        people = json.loads(file.read_text())["people"]
        ids = [_known((person.get("person_id") or [-1])[0]) for person in people]
        frames.append([(i, _points(person["pose_keypoints_2d"])) for i, person in zip(ids, people)])
    return frames


def _known(identity: Any) -> Any:
    return None if identity in (-1, None) else identity


def _alphapose(value: Any) -> list[list[Person]]:
    by_image: dict[str, list[Person]] = {}
    for person in value:
        by_image.setdefault(str(person["image_id"]), []).append((person.get("idx"), _points(person["keypoints"])))
    frames = sorted(by_image, key=lambda name: (len(name), name))
    return [by_image[name] for name in frames]


def _mmpose(value: Any) -> list[list[Person]]:
    def people(frame: Mapping[str, Any]) -> list[Person]:
        entries = frame["instances"]
        return [(p.get("track_id"), _points(p["keypoints"], p["keypoint_scores"])) for p in entries]

    return [people(frame) for frame in sorted(value["instance_info"], key=lambda frame: frame.get("frame_id", 0))]


def _kinetics(value: Any) -> list[list[Person]]:
    frames: dict[int, list[Person]] = {}
    for frame in value["data"]:
        pairs = [(p["pose"], p["score"]) for p in frame["skeleton"]]
        people = [(None, _points(np.reshape(pose, (-1, 2)), score)) for pose, score in pairs]
        frames[int(frame["frame_index"])] = people
    return [frames.get(t, []) for t in range(min(frames, default=0), max(frames, default=-1) + 1)]


def kind_of(value: Any) -> str:
    """Return the format of a JSON file's content: "OpenPose", "AlphaPose", "mmpose", "Kinetics-Skeleton", or ""."""
    if isinstance(value, list):
        return "AlphaPose" if value and isinstance(value[0], dict) and "image_id" in value[0] else ""
    keys = {"people": "OpenPose", "instance_info": "mmpose", "data": "Kinetics-Skeleton"}
    for key, kind in keys.items() if isinstance(value, dict) else ():
        if isinstance(value.get(key), list) and (key != "data" or "label_index" in value):
            return kind
    return ""


READERS = {"AlphaPose": _alphapose, "mmpose": _mmpose, "Kinetics-Skeleton": _kinetics}


def people(files: Sequence[Path], options: ImportOptions) -> Recording | None:
    """Return the recording in JSON files of one of these formats; None for other JSON files."""
    paths = files_in(files, ".json")
    kind = kind_of(_value(paths[0])) if paths else ""
    if not kind:
        return None
    where = str(files[0])
    clips = sorted({path.parent for path in paths}) if kind == "OpenPose" else paths
    entries = items(files, clips)
    if kind == "Kinetics-Skeleton":
        entries = [Item(item.path, item.name, _value(item.path)["label"]) for item in entries]
    topology = _topology(_frames(kind, clips), options, where)

    def read(path: Path) -> Motion:
        x_MTJC, score_MTJ = follow(_frames(kind, [path]))
        if len(topology.joints) == COCO_FIRST:
            x_MTJC, score_MTJ = x_MTJC[:, :, :COCO_FIRST], score_MTJ[:, :, :COCO_FIRST]
        image = options.image_size and options.image_size[::-1]
        if kind == "Kinetics-Skeleton":
            image = KINETICS_IMAGE
            x_MTJC = x_MTJC * np.array(KINETICS_IMAGE[::-1], dtype=np.float32)
        return Motion(x_MTJC, score_MTJ, image)

    return recording(f"{kind} JSON", entries, read, topology, options, flat=True, up="-y", where=where)


def _value(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise SkelbenchError(f"{path} is not a JSON file ({error}); download or copy it again") from error


def _frames(kind: str, clips: Sequence[Path]) -> list[list[Person]]:
    """People in the frames of the first of ``clips`` that shows anybody."""
    for clip in clips:
        frames = _openpose(clip) if kind == "OpenPose" else READERS[kind](_value(clip))
        if any(frames):
            return frames
    raise ValueError("no frame shows a person")


def _topology(frames: Sequence[Sequence[Person]], options: ImportOptions, where: str) -> Topology:
    """Return the skeleton with as many joints as the people in ``frames`` have."""
    joints = next(points.shape[0] for people in frames for _, points in people)
    name = options.topology or JOINTS.get(joints, "coco17" if joints in (26, 133, 136) else "")
    if not name:
        raise SkelbenchError(f"{where}: {joints} joints per person; known are {', '.join(map(str, JOINTS))}")
    return topologies()[name]
