"""Clips and views for checks of parts: bodies in motion, of any skeleton, in memory.

B clips, M body slots, T frames, J joints, C = 3 coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from skelbench.views.clips import ClipBatch
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import COCO17, NTU25, Topology
from skelbench.views.view import View

T = TypeVar("T")
SKELETONS = (NTU25, COCO17)
"""25 joints of Kinect v2, and 17 whose root is a nose."""
LENGTHS = (1, 2, 5, 40, 40, 150, 33, 16)
"""Frames of the clips: one frame, shorter and longer than a view, two equal."""


def bodies(topology: Topology, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Return float32 [*shape, J, 3] in meters, T the last of ``shape``: a pose, joints that swing, noise."""
    rng = np.random.default_rng(seed)
    *outer, frames = shape
    pose_J3 = topology.ancestors @ rng.normal(0, 0.15, (topology.num_joints, 3))
    swing_J3 = rng.normal(0, 0.1, (*outer, 1, topology.num_joints, 3))
    phase = rng.uniform(0, 2 * np.pi, (*outer, 1, 1, 1))
    wave_T = np.sin(np.arange(frames)[:, None, None] * 0.3 + phase)
    return (pose_J3 + swing_J3 * wave_T + rng.normal(0, 0.01, (*outer, frames, topology.num_joints, 3))).astype(
        np.float32
    )


def clip_batch(topology: Topology, lengths: Sequence[int] = LENGTHS, flat: bool = False, seed: int = 0) -> ClipBatch:
    """Return clips of these lengths, every third with a second body. ``flat``: 2-D poses, whose z is 0."""
    people = np.array([1 + (i % 3 == 2) for i in range(len(lengths))])
    rows = []
    for i, (frames, count) in enumerate(zip(lengths, people)):
        x_MTJC = bodies(topology, (count, frames), seed + i)
        x_MTJC[..., 2] *= not flat
        rows.append(x_MTJC.transpose(0, 3, 1, 2).reshape(-1, topology.num_joints))  # channel first, as a store has them
    ends = np.cumsum([len(part) for part in rows])
    return ClipBatch(
        ids=np.arange(len(lengths)) + 3,
        frames_FJ=torch.from_numpy(np.concatenate(rows)),
        offset=ends - [len(part) for part in rows],
        length=np.array(lengths),
        bodies=people,
        max_bodies=2,
    )


def twice(make: Callable[[], T]) -> tuple[T, T]:
    """Return the results of ``make`` under two states of PyTorch's global generator."""
    passes = []
    for seed in (0, 1):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            passes.append(make())
    return passes[0], passes[1]


def part_of(batch: ClipBatch, which: Sequence[int]) -> ClipBatch:
    """Return a batch of these clips of the store."""
    index = np.array(which)
    names = ("ids", "offset", "length", "bodies")
    return replace(batch, **{name: getattr(batch, name)[index] for name in names})


def view_of(topology: Topology, grid: Grid, valid: Sequence[Sequence[int]], seed: int = 0, **fields: Any) -> View:
    """Return a view of moving bodies of the grid's length; ``valid`` [B][M]: whether a body is present."""
    valid_BM = torch.tensor(valid, dtype=torch.bool)
    x_BMTJC = torch.from_numpy(bodies(topology, (*valid_BM.shape, grid.frames), seed))
    return View.of(x_BMTJC * valid_BM[:, :, None, None, None], valid_BM, **fields)


def differs(a: Tensor, b: Tensor, tolerance: float = 1e-4) -> float:
    """Return the largest difference relative to the largest number in ``b``; 0 if it is within ``tolerance``."""
    if a.shape != b.shape:
        return float("inf")
    if not a.numel():
        return 0.0
    difference = (a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-6)
    return 0.0 if difference <= tolerance else float(difference)
