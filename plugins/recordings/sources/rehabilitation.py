"""Rehabilitation exercises: IntelliRehabDS (Kinect v2) and REHAB24-6 (motion capture)."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from skelbench_plugins.recordings.clips import Item, Motion, files_in, recording
from skelbench_plugins.recordings.joint_names import common_names

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.recording import ImportOptions, Recording
from skelbench.views.skeleton.topology import NTU25

GESTURES = (
    "elbow flexion left", "elbow flexion right", "shoulder flexion left", "shoulder flexion right",
    "shoulder abduction left", "shoulder abduction right", "shoulder forward elevation", "side tap left",
    "side tap right",
)  # fmt: skip
_IRDS = re.compile(r"(\d+)_(\d+)_([0-8])_(\d+)_([12])_(stand|chair|wheelchair|stand-frame)")
_JOINT = re.compile(r"\((\w+),(\w+),([^,]+),([^,]+),([^,]+),[^)]*\)")
KINECT = (
    "SpineBase SpineMid Neck Head ShoulderLeft ElbowLeft WristLeft HandLeft ShoulderRight ElbowRight WristRight "
    "HandRight HipLeft KneeLeft AnkleLeft FootLeft HipRight KneeRight AnkleRight FootRight SpineShoulder HandTipLeft "
    "ThumbLeft HandTipRight ThumbRight"
).split()
"""Joints of Kinect v2 in the order of ``ntu25``."""


def read_irds(path: Path) -> Motion:
    """Return a clip [1, T, 25, 3] in meters of a text file: a line per frame, a tuple per joint."""
    frames = []
    for line in path.read_text().splitlines():
        joints = {name: (float(x), float(y), float(z)) for name, _, x, y, z in _JOINT.findall(line)}
        if joints:
            frames.append([joints[name] for name in KINECT])
    x_TJC = np.array(frames, dtype=np.float32).reshape(-1, len(KINECT), 3)
    whole_T = np.all(x_TJC.any(axis=2), axis=1)  # one file of the original has a frame with joints at the origin
    if not whole_T.any():
        raise ValueError("no frame has all joints")
    return Motion(x_TJC[None, whole_T])


def irds(files: Sequence[Path], options: ImportOptions) -> Recording:
    """Return IntelliRehabDS: nine gestures, correct or not, subject by subject.

    The names of gestures follow the authors' list. In one-sided gestures the joints of the other side move.
    """
    matches = [(path, _IRDS.fullmatch(path.stem)) for path in files_in(files, ".txt")]
    entries = [
        Item(
            path,
            path.stem,
            f"{GESTURES[int(match[3])]} / {'correct' if match[5] == '1' else 'incorrect'}",
            {"subject": int(match[1]), "trial": int(match[4])},
        )
        for path, match in matches
        if match is not None
    ]
    return recording("IntelliRehabDS, text files", entries, read_irds, NTU25, options, fps=30.0, where=str(files[0]))


def rehab24(files: Sequence[Path], options: ImportOptions) -> Recording:
    """Return REHAB24-6: a clip per repetition of Segmentation.csv, from ``3d_joints`` npy files [T, 26, 3]."""
    tables = [path for path in files_in(files, ".csv") if path.name.lower() == "segmentation.csv"]
    lists = [path for path in files_in(files, ".txt") if path.name.lower() == "joints_names.txt"]
    lists += [path for path in files_in(files, ".txt") if path.name.lower() == "joint_names.txt"]
    arrays = {path.stem.partition("-")[0]: path for path in files_in(files, ".npy") if "3d" in path.as_posix().lower()}
    if not tables or not lists or not arrays:
        raise SkelbenchError(f"{files[0]} needs Segmentation.csv, joint_names.txt and 3d_joints; unzip them there")
    names = common_names([line.split()[-1] for line in lists[0].read_text().splitlines() if line.strip()])
    text = tables[0].read_text()
    rows = list(csv.DictReader(text.splitlines(), dialect=csv.Sniffer().sniff(text.partition("\n")[0], ";,\t")))
    pieces: dict[Path, tuple[Path, slice]] = {}
    entries = []
    for row in rows:
        if array := arrays.get(row["video_id"]):
            name = f"{row['video_id']}_{int(row['repetition_number']):03}"
            place = array.with_name(name)
            pieces[place] = array, slice(int(row["first_frame"]), int(row["last_frame"]) + 1)
            label = f"exercise {row['exercise_id']} / {'correct' if int(row['correctness']) else 'incorrect'}"
            entries.append(Item(place, name, label, {"subject": int(row["person_id"])}))

    def read(place: Path) -> Motion:
        array, piece = pieces[place]
        return Motion(np.load(array, mmap_mode="r", allow_pickle=False)[None, piece])

    kind = "REHAB24-6, repetitions"
    return recording(kind, entries, read, NTU25, options, joints=names, up="auto", fps=30.0, where=str(files[0]))
