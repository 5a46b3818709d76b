"""NW-UCLA as CTR-GCN and its successors read it: a folder, or a zip, with one JSON file for each clip.

``a01_s01_e00_v01.json`` (action, subject, trial, camera) holds ``skeletons`` [T, 20, 3], the joints of Kinect v1 in
metres in camera coordinates, ``label`` (1 to 10) and ``file_name``. Cameras 1 and 2 train, camera 3 tests.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import Unusable
from skelbench.data.importers.labels import random_split
from skelbench.data.importers.recording import Entries, ImportOptions, Recording
from skelbench.data.raw.files import BadFile, RawFile, list_all
from skelbench.data.store.splits import FieldRule, Rule
from skelbench.data.store.writer import Clip
from skelbench.views.skeleton.topology import KINECT20, get_topology

ACTIONS = {
    1: "pick up with one hand", 2: "pick up with two hands", 3: "drop trash", 4: "walk around", 5: "sit down",
    6: "stand up", 8: "donning", 9: "doffing", 11: "throw", 12: "carry",
}  # fmt: skip
"""By their numbers in file names; labels are their places in this list."""
LISTED = {"train": 1020, "test": 464}
"""Clips in the lists that CTR-GCN's code holds."""

_NAME = re.compile(r"(a([0-9]{2})_s([0-9]{2})_e([0-9]{2})_v0([123]))\.json")


class _Entry(NamedTuple):
    """A file of the dataset and the numbers in its name."""

    file: RawFile
    name: str
    action: int
    subject: int
    trial: int
    camera: int


def files_of(path: Path) -> list[RawFile]:
    """The files in a folder or zip, if some are called like NW-UCLA's; else none."""
    files = list_all([path])
    return files if any(_NAME.fullmatch(file.name) for file in files) else []


def nw_ucla(path: Path, files: Sequence[RawFile], options: ImportOptions) -> Recording:
    """Return the recording in these files; a file that cannot be used is skipped."""
    matches = [(file, match) for file in files if (match := _NAME.fullmatch(file.name))]
    entries = [_Entry(file, match[1], *map(int, match.groups()[1:])) for file, match in matches]
    known = [entry for entry in entries if entry.action in ACTIONS]
    if not known:
        raise SkelbenchError(f"{path} holds no action of NW-UCLA (a01 to a06, a08, a09, a11, a12); check the folder")
    topology = KINECT20 if options.topology is None else get_topology(options.topology)
    if topology.num_joints != KINECT20.num_joints:
        raise SkelbenchError(f"{path}: NW-UCLA has 20 joints, topology {topology.name} has {topology.num_joints}")
    cameras = Counter(entry.camera for entry in known)
    found = {"train": cameras[1] + cameras[2], "test": cameras[3]}
    splits: dict[str, Rule] = {"cross-view": FieldRule(field="camera", train=(1, 2), test=(3,))}
    if not all(found.values()):
        labels = np.array([_label(entry) for entry in known])
        splits = random_split(labels, str(path), "the files of all three cameras")

    def clips() -> Entries:
        seen: set[str] = set()
        for entry in entries:
            yield entry.name, partial(_clip, entry, entry.name in seen)
            seen.add(entry.name)

    of_lists = (f"{found[side]:,} of {count:,} for {side}" for side, count in LISTED.items())
    return Recording(
        kind="NW-UCLA, JSON files",
        clips={str(path): clips},
        total=len(entries),
        topology=topology,
        classes=tuple(ACTIONS.values()),
        splits=splits,
        sources={"cross-view": ("cameras 1 and 2", "camera 3")},
        lineage=f"NW-UCLA, JSON files of CTR-GCN, centred at {topology.joints[topology.center]} of the first frame",
        details={
            "other_files_passed_over": len(files) - len(entries),
            "of_the_public_lists": ", ".join(of_lists),
        },
    )


def _label(entry: _Entry) -> int:
    return list(ACTIONS).index(entry.action)


def _clip(entry: _Entry, again: bool) -> Clip:
    if again or entry.action not in ACTIONS:
        raise Unusable("another file of that name comes before it" if again else "NW-UCLA has no action of that number")
    x_TJC = _skeletons(entry)
    about = {"subject": entry.subject, "camera": entry.camera, "trial": entry.trial}
    return Clip(x_TJC[None], _label(entry), name=entry.name, who=about, source_frames=len(x_TJC))


def _skeletons(entry: _Entry) -> np.ndarray:
    """Return coordinates [T, 20, 3] as in the file."""
    wanted = _label(entry) + 1
    try:
        value = json.loads(entry.file.read())
        x_TJC = np.array(value["skeletons"])
        label, name = value.get("label", wanted), value.get("file_name", entry.name)
    except BadFile as error:
        raise Unusable(str(error)) from None
    except (ValueError, TypeError, KeyError):
        raise Unusable("it is no JSON object with a list of skeletons; download it again") from None
    if (label, name) != (wanted, entry.name):
        raise Unusable(f"it says that it is {name!r:.40} of label {label!r:.20}, by its name the label is {wanted}")
    if x_TJC.dtype.kind not in "iuf" or x_TJC.ndim != 3 or x_TJC.shape[1:] != (20, 3):
        raise Unusable(f"its skeletons are no numbers [frames, 20, 3] but {x_TJC.dtype} {list(x_TJC.shape)}")
    return x_TJC
