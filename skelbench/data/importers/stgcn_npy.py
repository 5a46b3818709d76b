"""Arrays [N, C, T, J, M] with a label file each: ST-GCN, 2s-AGCN (and CMD, SkeletonContrast), AimCLR and CrosSCLR.

``M`` = body slots, zeros where a slot is empty. The first clips show the kind: "raw" camera coordinates; "per frame"
(2s-AGCN), each clip repeated to the array's end; "resized" (AimCLR) to one length; "scores" (Kinetics-Skeleton),
fractions of the image with scores as third channel. docs/import_data.md says what each kind loses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import ALL_ZERO, METERS, Unusable, choose_topology
from skelbench.data.importers.parts import Part, describe
from skelbench.data.importers.pose2d import FlatPose, flat_clip
from skelbench.data.importers.recording import SAMPLE, ImportOptions, Recording
from skelbench.data.importers.tables import Table, open_npy, table_of
from skelbench.data.raw.ntu.names import who
from skelbench.data.store.writer import Clip
from skelbench.views.skeleton.topology import Topology

Kind = Literal["raw", "per frame", "resized", "scores"]

TITLES = {
    "raw": "ST-GCN arrays",
    "per frame": "2s-AGCN arrays",
    "resized": "AimCLR / CrosSCLR arrays",
    "scores": "Kinetics-Skeleton arrays",
}
_LINEAGE = {
    "raw": "ST-GCN: two body slots in file order, untracked; centered at the first frame",
    "per frame": "2s-AGCN: body 1's spine at the origin in every frame and upright in the first; turned to Y up",
    "resized": "AimCLR: resized to {frames} frames, each body centered and facing forwards in every frame",
    "scores": "Kinetics-Skeleton 2-D, ",
}
_SPINE, _UPPER_SPINE = 1, 20
SAME_POSE_M = 1e-5
"""Joints differ by less between a frame and its repetition; the sensor's noise is a hundred times larger."""


@dataclass(kw_only=True)
class Slots(Part):
    """An array of clips in body slots."""

    kind: Kind
    topology: Topology
    num_frame: np.ndarray | None


def look(path: Path, options: ImportOptions) -> tuple[Table, Kind, Topology]:
    """Return the array in an npy file, its kind and its skeleton; raise for another shape."""
    table = table_of(open_npy(path), str(path))
    shape = table.shape
    if table.dtype.kind != "f" or len(shape) != 5 or shape[1] != 3 or not 1 <= shape[4] <= 4 or 0 in shape:
        raise SkelbenchError(f"{path} holds {table.dtype} {list(shape)}, not clips [N, 3, frames, joints, bodies]")
    clips = [x_MTJC[:, x_MTJC.any(axis=(0, 2, 3))] for x_MTJC in map(_clip, islice(table.rows(), SAMPLE))]
    scored = all(_scored(x_MTJC) for x_MTJC in clips)
    sample = [x_MTJC[..., :2] if scored else x_MTJC for x_MTJC in clips]
    topology = choose_topology(shape[3], options.topology, table.where, sample)
    kind: Kind = "raw"
    if scored and topology.name in ("openpose18", "body25", "coco17"):
        kind = "scores"
    elif topology.name == "ntu25" and not any(x_MTJC[0][:, _SPINE].any() for x_MTJC in clips):
        kind = "per frame"
    elif topology.name == "ntu25" and not any(x_MTJC[:, :, _UPPER_SPINE].any() for x_MTJC in clips):
        kind = "resized"
    return table, kind, topology


def _scored(x_MTJC: np.ndarray) -> bool:
    """Whether the third channel is in [0, 1] and zero where the joint is at 0: a score, not a depth."""
    score_MTJ = x_MTJC[..., 2]
    nowhere_MTJ = ~x_MTJC[..., :2].any(axis=-1)
    return bool(((score_MTJ >= 0) & (score_MTJ <= 1)).all() and not (score_MTJ[nowhere_MTJ] > 0).any())


def slots(parts: list[Slots], options: ImportOptions) -> Recording:
    """Return the recording in one or two arrays; the first one trains."""
    first = parts[0]
    note = f"{first.side} alone by its name, the other is not here: the splits below divide its clips"
    flat = FlatPose(options) if first.kind == "scores" else None
    lineage = _LINEAGE[first.kind].format(frames=first.x.shape[2]) + (flat.lineage if flat else "")
    return Recording(
        kind=TITLES[first.kind],
        clips={part.x.where: partial(part.entries, partial(_read, part, flat, options)) for part in parts},
        topology=first.topology,
        lineage=lineage,
        flat=flat is not None,
        centered=first.kind == "raw",
        details={"part": note} if len(parts) == 1 and first.side else {},
        **describe(parts, ("train", "test"), 0, "name the files of the test part too"),
    )


def _clip(row: np.ndarray) -> np.ndarray:
    """[C, T, J, M] as [M, T, J, C]."""
    return row.transpose(3, 1, 2, 0)


def _read(part: Slots, flat: FlatPose | None, options: ImportOptions, row: int, values: np.ndarray) -> Clip:
    x_MTJC = _clip(values)
    frames = np.flatnonzero(x_MTJC.any(axis=(0, 2, 3)))
    if not len(frames):
        raise Unusable(ALL_ZERO, expected=True)
    name, stored = part.names[row], None if part.num_frame is None else int(part.num_frame[row])
    clip = Clip(x_MTJC, int(part.labels[row]), name=name, who=who(name))
    if flat is not None:
        clip = clip._replace(x_MTJC=x_MTJC[..., :2], confidence_MTJ=x_MTJC[..., 2])
        return flat_clip(clip, part.topology.center, flat, (1.0, 1.0))
    length = int(frames[-1]) + 1
    if part.kind == "per frame":
        length = stored or _period(x_MTJC, SAME_POSE_M / METERS[options.units])
    return clip._replace(x_MTJC=x_MTJC[:, :length])


def _period(x_MTJC: np.ndarray, tolerance: float) -> int:
    """Return the number of frames before every body repeats itself to the end; all frames if one does not.

    Poses are compared without their position: in the file, the position of a second body is relative to the first
    one, which may repeat itself earlier. Repeated poses are equal up to rounding; two recorded poses never are.
    """
    longest = 0
    for x_TJC in x_MTJC[x_MTJC.any(axis=(1, 2, 3))]:
        pose_TK = (x_TJC - x_TJC[:, :1]).reshape(len(x_TJC), -1)
        for period in (np.flatnonzero(np.abs(pose_TK[1:] - pose_TK[0]).max(axis=1) < tolerance) + 1).tolist():
            if (np.abs(pose_TK[period:] - pose_TK[:-period]) < tolerance).all():
                longest = max(longest, period)
                break
        else:
            return len(x_TJC)
    return longest
