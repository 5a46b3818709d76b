"""NW-UCLA as CTR-GCN and its successors read it: a folder, or a zip, with one JSON file for each clip.

``a01_s01_e00_v01.json`` (action, subject, trial, camera) holds ``skeletons`` [T, 20, 3], the joints of Kinect v1 in
metres in camera coordinates, ``label`` (1 to 10) and ``file_name``. Cameras 1 and 2 train, camera 3 tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import ALL_ZERO, Pose, fault, find_pose, solid_clip
from skelbench.data.importers.labels import random_split
from skelbench.data.importers.options import ImportOptions
from skelbench.data.importers.recording import Recording
from skelbench.data.raw.files import BadFile, RawFile, list_all
from skelbench.data.store.clip_store import Skipped
from skelbench.data.store.splits import FieldRule, Rule
from skelbench.data.store.writer import Clip
from skelbench.views.skeleton.topology import KINECT20, Topology, get_topology

ACTIONS = {
    1: "pick up with one hand", 2: "pick up with two hands", 3: "drop trash", 4: "walk around", 5: "sit down",
    6: "stand up", 8: "donning", 9: "doffing", 11: "throw", 12: "carry",
}  # fmt: skip
"""By their numbers in file names; labels are their places in this list."""
LISTED = {"train": 1020, "test": 464}
"""Clips in the lists that CTR-GCN's code holds."""

_NAME = re.compile(r"(a([0-9]{2})_s([0-9]{2})_e([0-9]{2})_v0([123]))\.json")


@dataclass(frozen=True)
class _Entry:
    """A file of the data set, and what its name tells."""

    file: RawFile
    name: str
    label: int
    subject: int
    trial: int
    camera: int


def is_clip(name: str) -> bool:
    """Whether a file is called like a clip of the data set."""
    return _NAME.fullmatch(name) is not None


def files_of(path: Path) -> list[RawFile]:
    """The files in a folder or zip, if some are called like NW-UCLA's; else none."""
    files = list_all([path])
    return files if any(is_clip(file.name) for file in files) else []


def nw_ucla(path: Path, files: Sequence[RawFile], options: ImportOptions) -> Recording:
    """The recording in these files. A file that cannot be used is left out."""
    entries, left_out, others = _sort(files)
    if not entries:
        raise SkelbenchError(f"{path} holds no action of NW-UCLA (a01 to a06, a08, a09, a11, a12); check the folder")
    topology = KINECT20 if options.topology is None else get_topology(options.topology)
    if topology.num_joints != KINECT20.num_joints:
        raise SkelbenchError(f"{path}: NW-UCLA has 20 joints, topology {topology.name} has {topology.num_joints}")
    arrays = (x[None] for x in map(_skeletons, entries) if isinstance(x, np.ndarray) and x.any())
    sample = list(islice(arrays, 64))
    if not sample and isinstance(reason := _skeletons(entries[0]), str):
        raise SkelbenchError(
            f"{path}: none of its {len(entries)} clips can be used (the first, {entries[0].name}: {reason}); check the "
            f"files"
        )
    pose = find_pose(sample, topology, options.up, options.units, str(path))
    details: dict[str, Any] = {"up_axis_of_file": pose.up, "other_files_passed_over": others}
    cameras = {entry.camera for entry in entries}
    splits: dict[str, Rule] = {"cross-view": FieldRule(field="camera", train=(1, 2), test=(3,))}
    if not cameras & {1, 2} or 3 not in cameras:
        labels = np.array([entry.label for entry in entries])
        splits = random_split(labels, str(path), "the files of all three cameras")
    return Recording(
        kind="NW-UCLA, JSON files",
        clips=lambda: _read(entries, left_out, topology, pose, details),
        total=len(entries) + len(left_out),
        topology=topology,
        classes=tuple(ACTIONS.values()),
        splits=splits,
        sources={"cross-view": ("cameras 1 and 2", "camera 3")},
        lineage=f"NW-UCLA, JSON files of CTR-GCN, centred at {topology.joints[topology.center]} of the first frame",
        fps=options.fps,
        details=details,
    )


def _sort(files: Sequence[RawFile]) -> tuple[list[_Entry], list[Skipped], int]:
    """Return the clips, the skipped ones, and the number of files that are none of the dataset's."""
    entries: dict[str, _Entry] = {}
    skipped: list[Skipped] = []
    for file in files:
        if match := _NAME.fullmatch(file.name):
            name, action, *numbers = match.groups()
            if int(action) not in ACTIONS:
                skipped.append(Skipped(name=name, reason="NW-UCLA has no action of that number"))
            elif name in entries:
                skipped.append(Skipped(name=name, reason="another file of that name comes before it"))
            else:
                entries[name] = _Entry(file, name, list(ACTIONS).index(int(action)), *map(int, numbers))
    return list(entries.values()), skipped, sum(not is_clip(file.name) for file in files)


def _read(
    entries: list[_Entry], left_out: list[Skipped], topology: Topology, pose: Pose, details: dict[str, Any]
) -> Iterator[Clip | Skipped]:
    yield from left_out
    found = dict.fromkeys(LISTED, 0)
    for entry in entries:
        x_TJC = _skeletons(entry)
        if isinstance(x_TJC, str):
            yield Skipped(name=entry.name, reason=x_TJC)
            continue
        clip = solid_clip(pose.apply(x_TJC)[None], 1, topology.center)
        if isinstance(clip, str):
            yield Skipped(name=entry.name, reason=clip, expected=clip == ALL_ZERO)
            continue
        x_MTJC, origin, flags, _ = clip
        if not fault(x_MTJC):  # else it will be left out
            found["test" if entry.camera == 3 else "train"] += 1
        about = {"subject": entry.subject, "camera": entry.camera, "trial": entry.trial}
        yield Clip(x_MTJC, entry.label, origin, entry.name, about, flags, len(x_TJC))
    counts = ", ".join(f"{found[side]:,} of {count:,} for {side}" for side, count in LISTED.items())
    details["of_the_public_lists"] = counts


def _skeletons(entry: _Entry) -> np.ndarray | str:
    """Return coordinates [T, 20, 3] as in the file, or the reason why they cannot be used."""
    try:
        value = json.loads(entry.file.read())
        x_TJC = np.array(value["skeletons"])
        label, name = value.get("label", entry.label + 1), value.get("file_name", entry.name)
    except BadFile as error:
        return str(error)
    except (ValueError, TypeError, KeyError):
        return "it is no JSON object with a list of skeletons; it may be cut short, download it again"
    if (label, name) != (entry.label + 1, entry.name):
        return f"it says that it is {name!r:.40} of label {label!r:.20}, by its name the label is {entry.label + 1}"
    if x_TJC.dtype.kind not in "iuf" or x_TJC.ndim != 3 or x_TJC.shape[1:] != (20, 3):
        return f"its skeletons are no numbers [frames, 20, 3] but {x_TJC.dtype} {list(x_TJC.shape)}"
    return x_TJC
