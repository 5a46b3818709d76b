"""Clips padded to one length: the npz files of CTR-GCN and MAMP, and SGN's HDF5 files, which share their layout.

``x_*`` float [N, T, M * J * 3], frame -> body -> joint -> xyz, zeros behind the last frame; ``y_*`` one-hot [N, K] or
whole numbers [N]. A clip ends with its last frame that is not zero. In files that repeat single bodies (NTU RGB+D 120)
an equal second body is dropped, and a second body of zeros is an empty one that the pipeline kept. In other files a
body that is zero throughout is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import ntu
from skelbench.data.importers.bodies import ALL_ZERO, Pose, Unusable, choose_topology, find_pose, seen_longest
from skelbench.data.importers.labels import random_split
from skelbench.data.importers.options import ImportOptions
from skelbench.data.importers.recording import Recording
from skelbench.data.importers.tables import Table
from skelbench.data.raw.ntu.names import who
from skelbench.data.raw.ntu.prepare import LICENCE as NTU_LICENCE
from skelbench.data.raw.ntu.prepare import LINEAGE as NTU_LINEAGE
from skelbench.data.raw.origin import centre
from skelbench.data.store.clip_store import Flag
from skelbench.data.store.splits import NameRule, Rule
from skelbench.data.store.writer import Clip
from skelbench.views.skeleton.topology import get_topology, topologies

_PEEK = 1000
"""Clips of each part that are looked at to learn whether single bodies are repeated."""


@dataclass
class Part:
    """Training, validation or test rows of a file."""

    name: str
    x: Table
    labels: np.ndarray
    classes: int
    names: list[str] = field(default_factory=list)
    """Names of the clips, restored or made up."""

    def __post_init__(self) -> None:
        if len(self.x.shape) != 3 or self.x.dtype.kind != "f":
            raise SkelbenchError(
                f"{self.x.where}: expected floating-point [clips, frames, bodies x joints x 3], not {self.x.dtype} "
                f"{list(self.x.shape)}; convert the array"
            )
        if len(self.labels) != self.x.shape[0]:
            raise SkelbenchError(
                f"{self.x.where} has {self.x.shape[0]} clips but {len(self.labels)} labels; the file is incomplete"
            )


def padded(parts: list[Part], kind: str, options: ImportOptions) -> Recording:
    """Return the recording in these parts."""
    where = parts[0].x.where
    widths = {part.x.shape[2] for part in parts}
    if len(widths) > 1:
        raise SkelbenchError(f"{where} and the other parts differ in their last axis; the file is not whole")
    bodies, joints = _layout(widths.pop(), options.topology, where)
    topology = choose_topology(joints, options.topology, where)
    sample = (_clip(row, bodies) for row in parts[0].x.first(64))
    pose = find_pose(sample, topology, options.up, options.units, where)
    repeated = bodies == 2 and any(_repeats(_clip(row, 2)) for part in parts for row in part.x.first(_PEEK))
    details: dict[str, Any] = {"frames_longest": max(part.x.shape[1] for part in parts)}
    about = _describe(parts, details)
    details |= {"single_bodies_repeated": repeated, "up_axis_of_file": pose.up}

    def read() -> Iterator[tuple[str, Callable[[], Clip]]]:
        for part in parts:
            for row, values in enumerate(part.x.rows()):
                x_MTJC = _clip(values, bodies).astype(np.float32)
                make = partial(_made, part, row, x_MTJC, pose, topology.center, repeated, options.max_bodies, details)
                yield part.names[row], make

    return Recording(
        kind=kind,
        clips=read,
        total=sum(part.x.shape[0] for part in parts),
        topology=topology,
        fps=options.fps,
        details=details,
        **about,
    )


def _layout(width: int, requested: str | None, where: str) -> tuple[int, int]:
    """Bodies (two if that is possible) and joints of a row of ``width`` values."""
    known = topologies().values() if requested is None else [get_topology(requested)]
    wanted = {topology.num_joints for topology in known}
    for bodies in (2, 1):
        if width % (3 * bodies) == 0 and width // (3 * bodies) in wanted:
            return bodies, width // (3 * bodies)
    sizes = ", ".join(str(3 * bodies * joints) for joints in sorted(wanted) for bodies in (1, 2))
    raise SkelbenchError(f"{where}: {width} values a frame are no 1 or 2 bodies of 3-D joints (possible: {sizes})")


def _clip(row: np.ndarray, bodies: int) -> np.ndarray:
    """A row [T, M * J * 3] as a clip [M, T, J, 3], padding included."""
    return row.reshape(len(row), bodies, -1, 3).transpose(1, 0, 2, 3)


def _repeats(x_MTJC: np.ndarray) -> bool:
    return bool(x_MTJC[0].any()) and np.array_equal(x_MTJC[0], x_MTJC[1])


def _describe(parts: list[Part], details: dict) -> dict[str, Any]:
    """Return fields of the recording, and give every part the names of its clips."""
    found = ntu.restore(parts[0].labels, parts[1].labels) if len(parts) == 2 else None
    if found is not None:
        split, parts[0].names, parts[1].names = found
        details["names"] = "restored: rows and labels are those of the original scripts, one by one"
        index = ntu.index_of([*parts[0].names, *parts[1].names])
        assert index is not None  # restored names are sample names
        about: dict[str, Any] = {"classes": ntu.class_names(index["action"] - 1, index), "splits": ntu.splits_of(index)}
        about |= {"default_split": split, "sources": {split: _sources(parts, 1)}}
        return about | {"lineage": NTU_LINEAGE, "licence": NTU_LICENCE}
    details["names"] = "made up: the file has none"
    for part in parts:
        part.names = [f"{part.name}_{row:06}" for row in range(part.x.shape[0])]
    splits: dict[str, Rule] = {}
    names = tuple(part.name for part in parts)
    if len(parts) > 1:
        if names[0] != "train":
            raise SkelbenchError(
                f"{parts[0].x.where} and the other parts are none to train on; add x_train and y_train"
            )
        splits["given"] = NameRule(field="video", train=names[:-1], test=names[-1:])
        if len(parts) > 2:
            splits["validation"] = NameRule(field="video", train=names[:1], test=names[1:2])
    else:
        labels = np.concatenate([part.labels for part in parts])
        splits = random_split(labels, parts[0].x.where, "a file that holds the test part too")
    sources = {"given": _sources(parts, len(parts) - 1), "validation": _sources(parts[:2], 1)}
    lineage = "padded arrays as they are, centred at the centre joint of the first body's first frame"
    classes = [f"label {label}" for label in range(max(part.classes for part in parts))]
    return {"classes": classes, "splits": splits, "sources": sources, "lineage": lineage}


def _sources(parts: list[Part], training: int) -> tuple[str, str]:
    """Where the first ``training`` parts are, and the last one."""
    train, test = (", ".join(Path(part.x.where).name for part in side) for side in (parts[:training], parts[-1:]))
    return train, test


def _made(
    part: Part, row: int, x_MTJC: np.ndarray, pose: Pose, center: int, repeated: bool, most: int, details: dict
) -> Clip:
    name = part.names[row]
    seen_MT = np.any(x_MTJC, axis=(2, 3))  # not a number counts as seen
    frames = np.flatnonzero(seen_MT.any(axis=0))
    if not len(frames):
        raise Unusable(ALL_ZERO, expected=True)
    length = int(frames[-1]) + 1
    if repeated and most > 1 and not seen_MT[1].any():
        flags = int(Flag.EMPTY_BODY)
    else:
        different = 1 if repeated and _repeats(x_MTJC) else len(x_MTJC)
        bodies, flags = seen_longest(seen_MT[:different], most)
        x_MTJC = x_MTJC[bodies]
    details["empty_frames_kept"] = details.get("empty_frames_kept", 0) + length - len(frames)
    x_MTJC, origin = centre(pose.apply(x_MTJC[:, :length]), center)
    return Clip(x_MTJC, int(part.labels[row]), origin, name, who(name), flags)
