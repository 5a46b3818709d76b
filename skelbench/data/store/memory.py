"""Clips in memory as a clip store, so that code that reads stores can read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.version import __version__
from skelbench.data.store.clip_store import FIELDS, FORMAT, ClipStore, Meta
from skelbench.views.skeleton.topology import Topology


def store_of(clips: Sequence[np.ndarray] | np.ndarray, topology: Topology, slots: int = 1) -> ClipStore:
    """A store of ``clips``, each [T, J, 3] or [M, T, J, 3] in meters, that is not on disk. T may differ between clips.

    Bodies that are 0 throughout and come after all other bodies are absent. ``slots``: smallest number of body
    slots. Labels, subjects and other unknown fields are 0.
    """
    if not len(clips):
        raise SkelbenchError("there is no clip among those given; give one at least")
    present = [_bodies(np.asarray(clip), place, topology) for place, clip in enumerate(clips)]
    length = np.array([x_MTJC.shape[1] for x_MTJC in present])
    bodies = np.array([x_MTJC.shape[0] for x_MTJC in present])
    rows = [x_MTJC.transpose(0, 3, 1, 2).reshape(-1, topology.num_joints) for x_MTJC in present]
    frames_FJ = np.concatenate(rows).astype(np.float32, copy=False)
    meta = Meta(
        format=FORMAT,
        name="clips in memory",
        topology=topology.name,
        classes=("",),
        clips=len(present),
        rows=len(frames_FJ),
        body_frames=len(frames_FJ) // 3,
        written_by=f"skelbench {__version__}",
        dimensions=3 if any(x_MTJC[..., 2].any() for x_MTJC in present) else 2,
    )
    index = {name: np.zeros(len(present), np.int32) for name in (*FIELDS, "flags")}
    index |= {"length": length, "bodies": bodies, "name": np.full(len(present), "")}
    index["origin"] = np.zeros((len(present), 3), np.float32)
    index["crc32"] = np.zeros(len(present), np.uint32)
    store = ClipStore(Path("memory"), meta, index, frames_FJ)
    store.topology, store.max_bodies = topology, max(slots, int(bodies.max()))
    store.compared[:] = True  # nothing was written, so there is nothing to compare with
    return store


def _bodies(clip: np.ndarray, place: int, topology: Topology) -> np.ndarray:
    """Return the present bodies [M, T, J, 3], at least the first one."""
    joints = topology.num_joints
    if clip.ndim not in (3, 4) or clip.shape[-2:] != (joints, 3) or 0 in clip.shape:
        raise SkelbenchError(
            f"clip {place} has shape {list(clip.shape)}; give [frames, {joints} joints, 3], or with bodies first"
        )
    x_MTJC = clip.reshape(-1, *clip.shape[-3:]).astype(np.float32, copy=False)
    if not np.isfinite(x_MTJC).all():
        raise SkelbenchError(f"clip {place} holds coordinates that are not finite; repair it or leave it out")
    last = np.flatnonzero(x_MTJC.any(axis=(1, 2, 3)))
    return x_MTJC[: 1 + (last[-1] if len(last) else 0)]
