"""UI-PRMD (Vakanski et al., Data 2018, 3(1):2), Kinect v2 part of the repository niemasd/UI-PRMD-Analysis.

The files hold an offset and three Euler angles per joint, relative to its parent, in centimeters and degrees. The
rotation is Rz Rx Ry along the whole chain of parents. Planted ankles then drift by 1.9 cm (with other orders by 15 to
23 cm), and limb distances agree with the Vicon recording of the same episode.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from skelbench_plugins.recordings.clips import Item, Motion, recording
from skelbench_plugins.recordings.kinematics import positions, rotation

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.recording import ImportOptions, Recording
from skelbench.data.store.splits import FieldRule, Rule
from skelbench.views.skeleton.topology import NTU25

MOVEMENTS = (
    "deep squat", "hurdle step", "inline lunge", "side lunge", "sit to stand", "standing active straight leg raise",
    "standing shoulder abduction", "standing shoulder extension", "standing shoulder internal-external rotation",
    "standing shoulder scaption",
)  # fmt: skip
COMMIT = "2c5bf130697b"
CONTENTS = "9498d7821576b6fa9139ea9590adc5b581f445a4ebb4c9926c10e084de503fd4"
"""sha256 of the files of that commit, in the order of the clips."""
PARENTS = (-1, 0, 1, 2, 3, 4, 2, 6, 7, 8, 2, 10, 11, 12, 0, 14, 15, 16, 0, 18, 19, 20)
SAME = (0, 1, 4, 5, 7, 8, 9, -1, 11, 12, 13, -1, 14, 15, 16, 17, 18, 19, 20, 21, 2, -1, -1, -1, -1)
"""Joint of the files for each joint of ``ntu25``; -1: it follows from wrist and orientation of the hand."""
HAND_M = {"hand": (0.07, 0.0), "hand tip": (0.145, 0.0), "thumb": (0.07, 0.045)}
"""Assumed place of a joint along the hand and to its side, meters from the wrist."""
WRISTS = {"left": (9, 1.0), "right": (13, -1.0)}
"""Wrist in the files, and the direction of the hand along its x axis."""
_NAME = re.compile(r"m(\d+)_s(\d+)_e(\d+)_positions(_inc)?\.txt(\.gz)?")


def read_clip(path: Path) -> Motion:
    """Return a clip [1, T, 25, 3] in meters, Y up, from a file of positions and its file of angles."""
    offset_TJC, angle_TJC = _table(path) / 100, _table(_angles(path))
    if offset_TJC.shape != angle_TJC.shape:
        raise ValueError(f"it has {len(offset_TJC)} frames, its angles {len(angle_TJC)}")
    z, x, y = (rotation(angle_TJC[..., "XYZ".index(axis)], axis) for axis in "ZXY")
    x_TJC, turn_TJCC = positions(PARENTS, offset_TJC, z @ x @ y)
    y_TJC = x_TJC[:, [max(joint, 0) for joint in SAME]]
    for side, (wrist, sign) in WRISTS.items():
        for joint, (along, across) in HAND_M.items():
            place_C = np.array([sign * along, 0.0, across])
            y_TJC[:, NTU25.joints.index(f"{side} {joint}")] = x_TJC[:, wrist] + turn_TJCC[:, wrist] @ place_C
    return Motion((y_TJC * np.array([-1.0, 1.0, -1.0]))[None])  # turned about Y: the left side at negative x


def _angles(path: Path) -> Path:
    return path.parent.with_name("Angles") / path.name.replace("_positions", "_angles")


def _table(path: Path) -> np.ndarray:
    """Numbers [T, 22, 3] of a text file, compressed or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        return np.loadtxt(file, delimiter=",", ndmin=2).reshape(-1, len(PARENTS), 3)


def uiprmd(files: Sequence[Path], options: ImportOptions) -> Recording:
    """Return the recording in the folders ``Kinect/Positions`` and ``Kinect/Angles``: 20 classes, ten subjects."""
    matches = [
        (path, match)
        for folder in files
        for path in sorted(folder.rglob("*_positions*"))
        if path.parent.parent.name == "Kinect" and (match := _NAME.fullmatch(path.name))
    ]
    entries = []
    for path, match in matches:
        movement, subject, trial = (int(number) for number in match.groups()[:3])
        label = f"{MOVEMENTS[movement - 1]} / {'incorrect' if match[4] else 'correct'}"
        entries.append(
            Item(
                path,
                path.name.partition("_positions")[0] + (match[4] or ""),
                label,
                {"subject": subject, "trial": trial},
            )
        )
    if entries and _digest(entries) != CONTENTS:
        raise SkelbenchError(f"{files[0]}: files differ from commit {COMMIT} of UI-PRMD-Analysis; download it again")
    result = recording("UI-PRMD, Kinect v2", entries, read_clip, NTU25, options, fps=30.0, where=str(files[0]))
    result.details["joints"] = (
        "19 recorded; hands, hand tips and thumbs follow from the wrists and an assumed hand size"
    )
    result.splits = splits()
    return result


def _digest(entries: Sequence[Item]) -> str:
    """sha256 of all files of positions and angles, one after another."""
    digest = hashlib.sha256()
    for item in entries:
        digest.update(item.path.read_bytes() + _angles(item.path).read_bytes())
    return digest.hexdigest()


def splits() -> dict[str, Rule]:
    """Splits: odd subjects train and even ones test, the reverse, and one split for each held-out subject."""
    everyone = range(1, 11)
    odd, even = (FieldRule(field="subject", train=train) for train in ("odd", "even"))
    one = {
        f"subject-{test:02}": FieldRule(field="subject", train=tuple(s for s in everyone if s != test), test=(test,))
        for test in everyone
    }
    return {"odd-even": odd, "even-odd": even, **one}
