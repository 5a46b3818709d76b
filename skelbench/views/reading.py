"""Coordinates and confidence of one kind of view, read from rows of the store on the device of the frames.

R rows (bodies of view instances), T frames, J joints. Coordinates are X [3, T, J] per row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from skelbench.plugin.plugin_errors import plugin_code, wrong
from skelbench.views.clips import ClipBatch
from skelbench.views.keyed import Keyed
from skelbench.views.sampling import Frames
from skelbench.views.skeleton.topology import Topology
from skelbench.views.spec import ViewSpec
from skelbench.views.streams import as_stream
from skelbench.views.transfer import send
from skelbench.views.transform import Change, Transform, mirrored_rows

PIECE_BYTES = 2 << 20
"""Bytes of coordinates that a CPU processes at a time: they stay in its cache from gathering to the last product."""


@dataclass(frozen=True)
class Reading:
    """First rows of R bodies in a batch, the frames to read, and the transforms; on the host."""

    base_R: Tensor
    """int64 [R], row of the first x coordinate."""
    length_R: Tensor
    """int64 [R], frames of the clip."""
    present_R: Tensor
    """bool [R]: False = there is no body; nothing is read, and all values are 0."""
    frames: Frames
    transform: Transform
    origin_R3: Tensor | None = None
    """float32 [R, 3] on the device: position that is subtracted in frames with the body; None = nothing."""
    missing_RJ: Tensor | None = None
    """bool [R, J] on the device: joints that are declared missing and stay at 0; None = no joint is, or nothing is
    subtracted."""

    def take(self, index: Tensor) -> Reading:
        """Rows ``index`` of this one."""
        steps = tuple(step.take(index) for step in self.transform)
        frames = self.frames.take(index)
        moved = (self.origin_R3, self.missing_RJ)
        origin_R3, missing_RJ = (None if tensor is None else tensor[send(index, tensor.device)] for tensor in moved)
        base_R, length_R, present_R = (tensor[index] for tensor in (self.base_R, self.length_R, self.present_R))
        return Reading(base_R, length_R, present_R, frames, steps, origin_R3, missing_RJ)


def read_origins(batch: ClipBatch, base_R: Tensor, length_R: Tensor, joint: int) -> Tensor:
    """float32 [R, 3] on the device: position of each body's ``joint`` in the first frame that shows the body (not
    all is 0) or, with confidence, the joint; its position in the first frame if there is none."""
    device = batch.frames_FJ.device
    row_F = torch.arange(len(length_R)).repeat_interleave(length_R)
    frame_F = torch.arange(len(row_F)) - (length_R.cumsum(0) - length_R)[row_F]
    if batch.confidence_FJ is not None:
        seen_F = batch.confidence_FJ[:, joint].index_select(0, send(base_R[row_F] // 3 + frame_F, device)) > 0
    else:
        index_F3 = base_R[row_F, None] + length_R[row_F, None] * torch.arange(3) + frame_F[:, None]
        seen_F = batch.frames_FJ.index_select(0, send(index_F3.flatten(), device)).view(len(row_F), -1).any(1)
    length_R, row_F, frame_F = (send(tensor, device) for tensor in (length_R, row_F, frame_F))
    first_R = length_R.scatter_reduce(0, row_F, torch.where(seen_F, frame_F, length_R[row_F]), "amin") % length_R
    index_R3 = send(base_R, device)[:, None] + length_R[:, None] * torch.arange(3, device=device) + first_R[:, None]
    return batch.frames_FJ[:, joint].index_select(0, index_R3.flatten()).view(-1, 3)


def read_coordinates(batch: ClipBatch, reading: Reading, spec: ViewSpec, topology: Topology, keyed: Keyed) -> Tensor:
    """float32 [R, 3, T, J], transformed."""
    rows, device, here_K = len(reading.base_R), batch.frames_FJ.device, reading.present_R.nonzero()[:, 0]
    shape = (rows, 3, spec.frames, topology.num_joints)
    piece = max(1, PIECE_BYTES // (4 * math.prod(shape[1:]))) if device.type == "cpu" else max(1, rows)
    if len(here_K) == rows <= piece:
        return _piece(batch, reading, spec, topology, keyed)
    make = torch.empty if len(here_K) == rows else torch.zeros
    x_R3TJ = make(shape, device=device)
    for part in here_K.split(piece):
        x_R3TJ.index_copy_(0, send(part, device), _piece(batch, reading.take(part), spec, topology, keyed))
    return x_R3TJ


def read_confidence(batch: ClipBatch, reading: Reading, spec: ViewSpec, topology: Topology) -> Tensor | None:
    """float32 [R, T, J]: interpolated, mirrored, moved in time like coordinates; None if the dataset has none."""
    if (confidence_FJ := batch.confidence_FJ) is None:
        return None
    device, frames = confidence_FJ.device, reading.frames
    first_RTJ, second_RTJ = (_confidence(confidence_FJ, reading, part) for part in (frames.first_BT, frames.second_BT))
    c_RTJ = first_RTJ.lerp_(second_RTJ, send(frames.weight_BT, device)[:, :, None])
    rows_K = mirrored_rows(reading.transform)
    if len(rows_K):
        rows_K = send(rows_K, device)
        c_RTJ[rows_K] = c_RTJ[rows_K].index_select(2, send(torch.tensor(topology.swap), device))
    for step in reading.transform:
        c_RTJ = step.time(c_RTJ[:, None])[:, 0]
    empty_K = (~reading.present_R).nonzero()[:, 0]
    if len(empty_K):
        c_RTJ = c_RTJ.index_fill_(0, send(empty_K, device), 0.0)
    if spec.stream == "bone":
        return torch.minimum(c_RTJ, c_RTJ.index_select(2, send(torch.tensor(topology.bones), device)))
    if spec.stream == "motion":
        c_RTJ[:, :-1] = torch.minimum(c_RTJ[:, :-1], c_RTJ[:, 1:])
    return c_RTJ


def read_missing(
    batch: ClipBatch, transform: Transform, clip_R: Tensor, spec: ViewSpec, topology: Topology
) -> Tensor | None:
    """bool [R, J] on the host: joints that are declared missing, mirrored like coordinates; None = none can be.

    A bone is missing if one of its ends is missing, and joint, bone and motion of a fused view are missing together.
    """
    if batch.missing_BJ is None:
        return None
    missing_RJ = batch.missing_BJ[clip_R]
    rows_K = mirrored_rows(transform)
    missing_RJ[rows_K] = missing_RJ[rows_K][:, list(topology.swap)]
    return missing_RJ | missing_RJ[:, list(topology.bones)] if spec.stream in ("bone", "fused") else missing_RJ


def _changed(step: Change, x_R3TJ: Tensor, keyed: Keyed) -> Tensor:
    """Apply a change of coordinates and check what a plugin's change returns."""
    with plugin_code(step.apply, "(x_R3TJ, keyed)"):
        changed: Any = step.apply(x_R3TJ, keyed)
    if not isinstance(changed, Tensor) or changed.shape != x_R3TJ.shape:
        form = f"a tensor of shape {list(changed.shape)}" if isinstance(changed, Tensor) else f"{changed!r:.60}"
        raise wrong(step.apply, f"returned {form}, not coordinates [R, 3, T, J] = {list(x_R3TJ.shape)}")
    return changed


def _piece(batch: ClipBatch, reading: Reading, spec: ViewSpec, topology: Topology, keyed: Keyed) -> Tensor:
    device, frames = batch.frames_FJ.device, reading.frames
    axis_R3 = send(reading.base_R[:, None] + reading.length_R[:, None] * torch.arange(3), device)

    def gather(frame_RT: Tensor) -> Tensor:
        index_R3T = axis_R3[:, :, None] + send(frame_RT, device)[:, None, :]
        return batch.frames_FJ.index_select(0, index_R3T.flatten()).unflatten(0, index_R3T.shape)

    def there(x_R3TJ: Tensor, frame_RT: Tensor) -> Tensor:
        """float32 [R, 1, T, 1 or J]: 1 where the frame shows the body; elsewhere 0, like the coordinates."""
        shown_R1TJ = x_R3TJ.any(1, keepdim=True).any(3, keepdim=True)
        if batch.confidence_FJ is not None:
            shown_R1TJ = shown_R1TJ & (_confidence(batch.confidence_FJ, reading, frame_RT) > 0)[:, None]
        if reading.missing_RJ is not None:
            shown_R1TJ = shown_R1TJ & ~reading.missing_RJ[:, None, None]
        return shown_R1TJ.to(x_R3TJ.dtype)

    x_R3TJ = gather(frames.first_BT)
    there_R1TJ = there(x_R3TJ, frames.first_BT) if reading.origin_R3 is not None else None
    if bool(frames.weight_BT.any()):
        second_R3TJ, weight_R1T1 = gather(frames.second_BT), send(frames.weight_BT, device)[:, None, :, None]
        x_R3TJ = x_R3TJ.lerp_(second_R3TJ, weight_R1T1)
        if there_R1TJ is not None:
            there_R1TJ = there_R1TJ.lerp_(there(second_R3TJ, frames.second_BT), weight_R1T1)
    if reading.origin_R3 is not None and there_R1TJ is not None:
        x_R3TJ = x_R3TJ.sub_(reading.origin_R3[:, :, None, None] * there_R1TJ)
    for step in reading.transform:
        x_R3TJ = _changed(step, x_R3TJ, keyed)
    return as_stream(x_R3TJ, spec.stream, topology, time=2, joint=3)


def _confidence(confidence_FJ: Tensor, reading: Reading, frame_RT: Tensor) -> Tensor:
    """float32 [R, T, J] at these frames of the clips."""
    index_RT = send(reading.base_R[:, None] // 3 + frame_RT, confidence_FJ.device)
    return confidence_FJ.index_select(0, index_RT.flatten()).unflatten(0, index_RT.shape)
