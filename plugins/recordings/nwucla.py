"""NW-UCLA as CTR-GCN and its successors read it: a folder, or a zip, with one JSON file for each clip.

``a01_s01_e00_v01.json`` (action, subject, trial, camera) holds ``skeletons`` [T, 20, 3], the joints of Kinect v1 in
meters in camera coordinates, ``label`` (1 to 10) and ``file_name``. Cameras 1 and 2 train, camera 3 tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skelbench.data.importers.bodies import Unusable, choose_topology
from skelbench.data.importers.recording import Entries, ImportOptions, Recording
from skelbench.data.raw.files import BadFile, RawFile, list_all
from skelbench.data.store.splits import FieldRule
from skelbench.data.store.writer import Clip
from skelbench.views.skeleton.topology import KINECT20

ACTIONS = {
    1: "pick up with one hand", 2: "pick up with two hands", 3: "drop trash", 4: "walk around", 5: "sit down",
    6: "stand up", 8: "donning", 9: "doffing", 11: "throw", 12: "carry",
}  # fmt: skip
"""Actions by their numbers in file names; labels are positions in this list."""

_NAME = re.compile(r"(a([0-9]{2})_s([0-9]{2})_e([0-9]{2})_v0([123]))\.json")


class _Entry(NamedTuple):
    """A file of the dataset and the numbers in its name."""

    file: RawFile
    name: str
    action: int
    subject: int
    trial: int
    camera: int


def nw_ucla(files: Sequence[Path], options: ImportOptions) -> Recording | None:
    """Return the recording in a folder or zip, None if no file is called like NW-UCLA's; unusable files are skipped."""
    path = files[0]
    if len(files) > 1 or not (path.is_dir() or path.suffix == ".zip"):
        return None
    matches = [(file, match) for file in list_all([path]) if (match := _NAME.fullmatch(file.name))]
    if not matches:
        return None
    entries = [_Entry(file, match[1], *map(int, match.groups()[1:])) for file, match in matches]
    topology = choose_topology(20, options.topology or KINECT20.name, str(path))

    def clips() -> Entries:
        for entry in entries:
            yield entry.name, partial(_clip, entry)

    return Recording(
        kind="NW-UCLA, JSON files",
        clips={str(path): clips},
        total=len(entries),
        topology=topology,
        classes=tuple(ACTIONS.values()),
        splits={"cross-view": FieldRule(field="camera", train=(1, 2), test=(3,))},
        sources={"cross-view": ("cameras 1 and 2", "camera 3")},
        lineage=f"NW-UCLA, JSON files of CTR-GCN, centered at {topology.joints[topology.center]} of the first frame",
    )


def _label(entry: _Entry) -> int:
    return list(ACTIONS).index(entry.action)


def _clip(entry: _Entry) -> Clip:
    if entry.action not in ACTIONS:
        raise Unusable("NW-UCLA has no action of that number")
    try:
        value = json.loads(entry.file.read())
        x_TJC, label = np.array(value["skeletons"]), value.get("label", _label(entry) + 1)
    except BadFile as error:
        raise Unusable(str(error)) from None
    except (ValueError, TypeError, KeyError):
        raise Unusable("it is no JSON object with a list of skeletons; download it again") from None
    if label != _label(entry) + 1:
        raise Unusable(f"its label is {label!r:.20}, by its name it is {_label(entry) + 1}")
    if x_TJC.dtype.kind not in "iuf" or x_TJC.ndim != 3 or x_TJC.shape[1:] != (20, 3):
        raise Unusable(f"its skeletons are no numbers [frames, 20, 3] but {x_TJC.dtype} {list(x_TJC.shape)}")
    who = {"subject": entry.subject, "camera": entry.camera, "trial": entry.trial}
    return Clip(x_TJC[None], _label(entry), name=entry.name, who=who)
