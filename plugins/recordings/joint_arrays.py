"""Joint positions of SMPL bodies in npz files (AMASS and others), and marker sets in C3D files.

AMASS stores rotations: positions follow from the body model, whose license allows no copy here.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from skelbench_plugins.recordings.clips import Motion, files_in, items, recording
from skelbench_plugins.recordings.skeletons import SMPL22

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.recording import ImportOptions, Recording
from skelbench.views.skeleton.topology import NTU25

POSITIONS = ("joints", "joints3d", "Jtr", "jtr", "joint_positions")
ADVICE = (
    "holds rotations of SMPL, not joint positions; compute them with the body model (smplx: body_model(...).joints) "
    "and save the first 22 as array 'joints' [frames, 22, 3] next to 'mocap_framerate'"
)
MARKERS: Mapping[str, tuple[str, ...]] = {
    "head": ("LFHD", "RFHD", "LBHD", "RBHD"),
    "spine shoulder": ("C7", "CLAV"),
    "spine mid": ("T10", "STRN"),
    "pelvis": ("LASI", "RASI", "LPSI", "RPSI", "SACR"),
    **{
        f"{side} {joint}": tuple(side[0].upper() + marker for marker in markers)
        for side in ("left", "right")
        for joint, markers in {
            "shoulder": ("SHO",),
            "elbow": ("ELB",),
            "wrist": ("WRA", "WRB"),
            "hand": ("FIN",),
            "hip": ("ASI", "PSI"),
            "knee": ("KNE",),
            "ankle": ("ANK",),
            "foot": ("TOE",),
        }.items()
    },
}
"""Joint -> markers of the Plug-in Gait set, whose mean stands for the joint (within centimeters)."""


def smpl(files: Sequence[Path], options: ImportOptions) -> Recording | None:
    """Return the recording in npz files with SMPL joints; None for other npz files."""
    clips = files_in(files, ".npz")
    if not clips or not zipfile.is_zipfile(clips[0]):
        return None
    with np.load(clips[0], allow_pickle=False) as first:
        keys, place = set(first.files), next((key for key in POSITIONS if key in first.files), "")
        rotations = {"poses", "trans"} <= keys
        has_positions = bool(place) and first[place].ndim == 3 and first[place].shape[1] >= SMPL22.num_joints
        fps = float(first["mocap_framerate"]) if "mocap_framerate" in keys else None
    if "offsets" in keys or not (rotations or (has_positions and "mocap_framerate" in keys)):
        return None
    if not has_positions:
        raise SkelbenchError(f"{clips[0]} {ADVICE}")

    def read(path: Path) -> Motion:
        with np.load(path, allow_pickle=False) as file:
            return Motion(np.asarray(file[place][None, :, : SMPL22.num_joints], dtype=np.float32))

    where = str(files[0])
    return recording("SMPL joints", items(files, clips), read, SMPL22, options, up="auto", fps=fps, where=where)


def joints_of(markers: Mapping[str, np.ndarray]) -> tuple[list[str], np.ndarray]:
    """Return names and positions [T, J, 3] of the joints that ``markers`` [T, 3] show; 0 in gaps."""
    bare = {name.rpartition(":")[2].upper(): x_TC for name, x_TC in markers.items()}
    names, places = [], []
    for joint, options in MARKERS.items():
        entries = [bare[name] for name in options if name in bare]
        if entries:
            seen = np.isfinite(entries).all(axis=-1, keepdims=True)
            total = np.where(seen, entries, 0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
            names.append(joint)
            places.append(total)
    return names, np.stack(places, axis=1) if places else np.zeros((0, 0, 3))


def c3d(files: Sequence[Path], options: ImportOptions) -> Recording | None:
    """Return the recording in C3D files with markers of the Plug-in Gait set, converted to ``ntu25``; needs ezc3d."""
    clips = files_in(files, ".c3d")
    if not clips:
        return None
    try:
        from ezc3d import c3d as load  # type: ignore[import-not-found]
    except ImportError:
        raise SkelbenchError("C3D files need the package ezc3d; pip install ezc3d") from None

    def markers(path: Path) -> tuple[list[str], np.ndarray]:
        file = load(str(path))
        labels, points = file["parameters"]["POINT"]["LABELS"]["value"], file["data"]["points"]
        return joints_of({name: points[:3, row].T for row, name in enumerate(labels)})

    names, _ = markers(clips[0])
    fps = float(load(str(clips[0]))["parameters"]["POINT"]["RATE"]["value"][0])

    def read(path: Path) -> Motion:
        own, x_TJC = markers(path)
        if own != names:
            raise ValueError(f"its markers differ from the markers of {clips[0].name}")
        return Motion(x_TJC[None])

    where, entries = str(files[0]), items(files, clips)
    return recording("C3D markers", entries, read, NTU25, options, joints=names, up="auto", fps=fps, where=where)
