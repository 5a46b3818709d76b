"""Clips padded to one length: the npz files of CTR-GCN and MAMP, and SGN's HDF5 files, which share their layout.

``x_*`` float [N, T, M * J * 3], frame -> body -> joint -> xyz, zeros behind the last frame; ``y_*`` one-hot [N, K] or
whole numbers [N]. In files that repeat single bodies (NTU RGB+D 120) a second body of zeros is kept as an empty one.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import ntu
from skelbench.data.importers.bodies import ALL_ZERO, Unusable, choose_topology
from skelbench.data.importers.labels import read_labels
from skelbench.data.importers.parts import Part, Side, describe, side_of
from skelbench.data.importers.recording import ImportOptions, Recording
from skelbench.data.importers.tables import Npz, table_of
from skelbench.data.raw.ntu.names import who
from skelbench.data.raw.ntu.prepare import LINEAGE as NTU_LINEAGE
from skelbench.data.store.writer import Clip
from skelbench.views.skeleton.topology import get_topology, topologies

_SIDES: tuple[Side, ...] = ("train", "valid", "test")
_PEEK = 1000
"""Clips of each part that are read to find out whether single bodies are repeated."""


def read_npz(npz: Npz, options: ImportOptions) -> Recording:
    """Return the recording in an npz file with arrays ``x_train``, ``y_train`` and so on."""
    names = sorted({key[2:] for key in npz.keys if key[:2] in ("x_", "y_") and side_of(key)[0]})
    sides = {side_of(name)[0]: name for name in names}
    if missing := [key for name in names for key in (f"x_{name}", f"y_{name}") if key not in npz]:
        raise SkelbenchError(f"{npz.path} has no array {missing[0]}; the file is incomplete")
    parts, classes = [], 0
    for side in _SIDES:
        if name := sides.get(side):
            labels, count = read_labels(npz[f"y_{name}"], npz.where(f"y_{name}"))
            table = npz.table(f"x_{name}")
            parts.append(Part(table, labels, Path(table.where).name, side))
            classes = max(classes, count)
    return _padded(parts, classes, "padded npz", options)


def read_sgn(path: Path, options: ImportOptions) -> Recording:
    """Return the recording in an HDF5 file of SGN: ``x``, ``y``; ``valid_x``, ``valid_y``; ``test_x``, ``test_y``."""
    try:
        import h5py
    except ImportError:
        raise SkelbenchError(f"{path} is HDF5, which needs h5py; install it: pip install 'skelbench[h5]'") from None
    file, parts, classes = h5py.File(path, "r"), [], 0
    for side, prefix in zip(_SIDES, ("", "valid_", "test_")):
        x, y = file.get(f"{prefix}x"), file.get(f"{prefix}y")
        if isinstance(x, h5py.Dataset) and isinstance(y, h5py.Dataset):
            where = f"{path}, dataset {prefix}"
            labels, count = read_labels(y[:], f"{where}y")
            parts.append(Part(table_of(x, f"{where}x"), labels, Path(f"{where}x").name, side))
            classes = max(classes, count)
        elif x is not None or y is not None or side == "train":
            raise SkelbenchError(f"{path} has no datasets {prefix}x and {prefix}y; is it one of SGN's?")
    return _padded(parts, classes, "SGN HDF5", options)


def _padded(parts: list[Part], classes: int, kind: str, options: ImportOptions) -> Recording:
    """Return the recording in these parts."""
    where = parts[0].x.where
    for part in parts:
        if len(part.x.shape) != 3 or part.x.dtype.kind != "f":
            raise SkelbenchError(f"{part.x.where} is {part.x.dtype} {list(part.x.shape)}, not [clips, frames, values]")
    if len(parts) > 1 and parts[0].side != "train":
        raise SkelbenchError(f"{where} and the other parts are none to train on; add x_train and y_train")
    widths = {part.x.shape[2] for part in parts}
    if len(widths) > 1:
        raise SkelbenchError(f"{where} and the other parts differ in their last axis; the file is not whole")
    bodies, joints = _layout(widths.pop(), options.topology, where)
    repeated = bodies == 2 and any(_repeats(_clip(row, 2)) for part in parts for row in islice(part.x.rows(), _PEEK))
    details: dict[str, Any] = {"single_bodies_repeated": repeated}
    keeps_empty = repeated and options.max_bodies > 1

    def read(part: Part, row: int, values: np.ndarray) -> Clip:
        x_MTJC = _clip(values, bodies).astype(np.float32)
        frames = np.flatnonzero(np.any(x_MTJC, axis=(0, 2, 3)))  # NaN counts as seen
        if not len(frames):
            raise Unusable(ALL_ZERO, expected=True)
        x_MTJC, name = x_MTJC[:, : frames[-1] + 1], part.names[row]
        empty = keeps_empty and not x_MTJC[1].any()
        if repeated and _repeats(x_MTJC):
            x_MTJC = x_MTJC[:1]
        return Clip(x_MTJC, int(part.labels[row]), name=name, who=who(name), empty_body=empty)

    restored = ntu.restore(parts[0].labels, parts[1].labels) if len(parts) == 2 else None
    if restored is not None:
        _, parts[0].names, parts[1].names = restored
    details["names"] = f"{'restored' if restored else 'made up'}: the file has none"
    lineage = "padded arrays as they are, centered at the center joint of the first body's first frame"
    about = describe(parts, [part.side for part in parts], classes, "a file that holds the test part too")
    return Recording(
        kind=kind,
        clips={part.x.where: partial(part.entries, partial(read, part)) for part in parts},
        topology=choose_topology(joints, options.topology, where),
        lineage=NTU_LINEAGE if restored else lineage,
        empty_frames=True,
        details=details,
        **about,
    )


def _layout(width: int, requested: str | None, where: str) -> tuple[int, int]:
    """Bodies (two if that is possible) and joints of a row of ``width`` values."""
    skeletons = topologies().values() if requested is None else [get_topology(requested)]
    joint_counts = {topology.num_joints for topology in skeletons}
    for bodies in (2, 1):
        if width % (3 * bodies) == 0 and width // (3 * bodies) in joint_counts:
            return bodies, width // (3 * bodies)
    joints = ", ".join(map(str, sorted(joint_counts)))
    raise SkelbenchError(f"{where}: {width} values a frame are not 1 or 2 bodies of 3-D joints (joints: {joints})")


def _clip(row: np.ndarray, bodies: int) -> np.ndarray:
    """A row [T, M * J * 3] as a clip [M, T, J, 3], padding included."""
    return row.reshape(len(row), bodies, -1, 3).transpose(1, 0, 2, 3)


def _repeats(x_MTJC: np.ndarray) -> bool:
    return bool(x_MTJC[0].any()) and np.array_equal(x_MTJC[0], x_MTJC[1])
