"""Alignment of clips: standard position and heading, applied when clips are read.

B clips, G bodies of all clips, F frames of all bodies, J joints.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import Align
from skelbench.data.store.clip_store import ClipStore
from skelbench.views.skeleton.topology.tree import BETWEEN_SHOULDERS

NECK = tuple((name,) for name in BETWEEN_SHOULDERS)
SPINE = (("spine base", "spine mid"), ("hip center", "spine"), ("pelvis", "spine"))
"""The spine's foot, and the joint above it, on which clips are centered."""
SHOULDERS = (("left shoulder", "right shoulder"),)
HIPS = (("right hip", "left hip"),)
TINY = 1e-6
"""Smallest length in meters of a vector whose direction is used for a rotation."""


class Alignment:
    """``Alignment(store, how)`` changes copied rows of ``store`` in place. docs/poses_and_skeletons.md describes every
    ``how``.

    Clips are computed one by one on the CPU, so the bits depend neither on the batch nor on the device. Raises if
    poses are flat, or if the topology lacks the named joints.
    """

    def __init__(self, store: ClipStore, how: Align) -> None:
        topology, self.how = store.topology, how
        if store.meta.dimensions == 2:
            raise SkelbenchError(f"align={how} turns bodies, but these poses are 2-D; use --set train.align=none")

        def joints(*choices: tuple[str, ...]) -> list[int]:
            names = next((names for names in choices if set(names) <= set(topology.joints)), None)
            if names is None:
                required = " or ".join(map(" and ".join, choices))
                lacks = f"topology {topology.name} has no such joints (--set train.align=none)"
                raise SkelbenchError(f"align={how} needs {required}; {lacks}")
            return [topology.joints.index(name) for name in names]

        self.across = joints(*(HIPS if how == "first-frame-hips" else SHOULDERS))
        self.neck = joints(*NECK)[0] if how.startswith("frames") else -1
        self.spine = joints(*SPINE) if how.startswith("first-frame") else []

    def __call__(
        self, frames_FJ: Tensor, confidence_FJ: Tensor | None, length_B: np.ndarray, bodies_B: np.ndarray
    ) -> None:
        """Align consecutive clips, in the layout of :class:`~skelbench.views.clips.ClipBatch`."""
        length_G, start_B = np.repeat(length_B, bodies_B), np.cumsum(length_B * bodies_B) - length_B * bodies_B
        start_G = np.cumsum(length_G) - length_G
        group_F = np.repeat(np.arange(len(length_G)), length_G)
        time_F = np.arange(len(group_F)) - start_G[group_F]
        row_F3 = torch.from_numpy((3 * start_G[group_F] + time_F)[:, None] + length_G[group_F, None] * np.arange(3))
        x_F3J = frames_FJ[row_F3]
        if self.neck >= 0:
            frames_FJ[row_F3] = self._frames(x_F3J, torch.from_numpy(group_F), start_G)
            return
        filled_F = torch.from_numpy(_filled(x_F3J.flatten(1).any(1).numpy(), start_G, length_G))
        clip_F = np.repeat(np.arange(len(length_B)), length_B * bodies_B)
        first_F = torch.from_numpy(start_B[clip_F] + time_F)
        frames_FJ[row_F3] = self._first_frame(
            x_F3J[filled_F], torch.from_numpy(start_B), torch.from_numpy(clip_F), first_F
        )
        if confidence_FJ is not None:
            confidence_FJ.copy_(confidence_FJ[filled_F])

    def _frames(self, x_F3J: Tensor, group_F: Tensor, start_G: np.ndarray) -> Tensor:
        neck_F3 = x_F3J[:, :, self.neck]
        x_F3J = x_F3J - neck_F3[:, :, None]
        if self.how == "frames-with-path":
            there_F = x_F3J.flatten(1).any(1)
            frame_F = torch.where(there_F, torch.arange(len(there_F)), len(there_F) - 1)
            first_G = torch.from_numpy(np.minimum.reduceat(frame_F.numpy(), start_G))
            x_F3J[:, :, self.neck] = torch.where(there_F[:, None], neck_F3 - neck_F3[first_G[group_F]], 0.0)
        x_F, z_F = _between(x_F3J, self.across)[:, ::2].unbind(1)
        if self.how != "frames":  # frames turn by their own angles, all in one direction
            sum_G = torch.zeros(len(start_G), dtype=torch.float64).index_add_(0, group_F, z_F)
            z_F = torch.where(sum_G[group_F] >= 0, z_F.abs(), -z_F.abs())
        far_F = (x_F * x_F + z_F * z_F).sqrt()
        cos_F1 = torch.where(far_F > TINY, x_F / far_F, 1.0).float()[:, None]
        sin_F1 = torch.where(far_F > TINY, z_F / far_F, 0.0).float()[:, None]
        x_FJ, y_FJ, z_FJ = x_F3J.unbind(1)
        return torch.stack([cos_F1 * x_FJ + sin_F1 * z_FJ, y_FJ, cos_F1 * z_FJ - sin_F1 * x_FJ], 1)

    def _first_frame(self, x_F3J: Tensor, start_B: Tensor, clip_F: Tensor, first_F: Tensor) -> Tensor:
        """``start_B``: first frame of each clip's first body; ``first_F``: frame of the first body at the same time."""
        spine_B3, across_B3 = (_between(x_F3J[start_B], joints) for joints in (self.spine, self.across))
        turn_F33 = _turn_of(self.how, spine_B3, across_B3).float()[clip_F]
        there_F11 = x_F3J.flatten(1).any(1)[:, None, None]
        origin_F3 = x_F3J[first_F, :, self.spine[1]]
        if self.how == "first-frame-hips":
            origin_F3 = x_F3J[start_B, :, self.spine[0]][clip_F]
        x_F3J = torch.where(there_F11, x_F3J - origin_F3[:, :, None], 0.0)
        # Written out: a product of matrices would round differently in other batches.
        x, y, z = (turn_F33[:, :, axis, None] * x_F3J[:, axis, None] for axis in range(3))
        return x + y + z


def _between(x_F3J: Tensor, joints: list[int]) -> Tensor:
    """Return the vector from the first of two joints to the second, float64 [F, 3]."""
    return (x_F3J[:, :, joints[1]] - x_F3J[:, :, joints[0]]).double()


def _filled(there_F: np.ndarray, start_G: np.ndarray, length_G: np.ndarray) -> np.ndarray:
    """Return the index of the frame that is shown in place of each frame, int64 [F]."""
    shown_F = np.arange(len(there_F))
    for start, length in zip(start_G, length_G):
        body = slice(start, start + length)
        visible = there_F[body].nonzero()[0]
        if 0 < len(visible) < length:
            pattern = visible if visible[0] else np.arange(visible[-1] + 1)
            shown_F[body] = start + pattern[np.arange(length) % len(pattern)]
    return shown_F


def _turn_of(how: Align, spine_B3: Tensor, across_B3: Tensor) -> Tensor:
    """Return the rotation of each clip, float64 [B, 3, 3]: none if ``spine`` or ``across`` has no direction."""
    if how == "first-frame":
        x_B3, y_B3, known_B = _at_right_angles(across_B3, spine_B3)
    elif how == "first-frame-hips":
        y_B3, x_B3, known_B = _at_right_angles(spine_B3, across_B3)
    elif how == "first-frame-shoulders":
        return _shortest(across_B3, 0)
    else:  # spine to z, then across to x; then z is called y
        up_B33 = _shortest(spine_B3, 2)
        turn_B33 = _shortest((up_B33 @ across_B3[:, :, None])[:, :, 0], 0) @ up_B33
        return torch.stack([turn_B33[:, 0], turn_B33[:, 2], -turn_B33[:, 1]], 1)
    turn_B33 = torch.stack([x_B3, y_B3, torch.linalg.cross(x_B3, y_B3)], 1)
    return torch.where(known_B[:, None, None], turn_B33, torch.eye(3, dtype=torch.float64))


def _at_right_angles(first_B3: Tensor, second_B3: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return unit vectors along the first vector and along the second's orthogonal part; bool [B]: both exist."""
    unit_B3 = first_B3 / first_B3.norm(dim=1, keepdim=True)
    rest_B3 = second_B3 - (second_B3 * unit_B3).sum(1, keepdim=True) * unit_B3
    known_B = (first_B3.norm(dim=1) > TINY) & (rest_B3.norm(dim=1) > TINY)
    return unit_B3, rest_B3 / rest_B3.norm(dim=1, keepdim=True), known_B


def _shortest(from_B3: Tensor, axis: int) -> Tensor:
    """Return the shortest rotation onto the positive ``axis``, float64 [B, 3, 3]; none if parallel or opposite."""
    eye_33 = torch.eye(3, dtype=torch.float64)
    from_B3 = from_B3 / from_B3.norm(dim=1, keepdim=True).clamp(min=TINY)
    normal_B3 = torch.linalg.cross(from_B3, eye_33[axis].expand_as(from_B3))
    sin_B1, cos_B1 = normal_B3.norm(dim=1, keepdim=True), from_B3[:, axis, None]
    k_B3 = normal_B3 / sin_B1.clamp(min=TINY)
    # Column j of the rotation is what becomes of unit vector j: cos e + sin k x e + (1 - cos)(k . e) k.
    k_B33 = k_B3[:, :, None].expand(-1, 3, 3)
    e_B33 = eye_33.expand_as(k_B33)
    turn_B33 = cos_B1[:, :, None] * e_B33 + sin_B1[:, :, None] * torch.linalg.cross(k_B33, e_B33, dim=1)
    turn_B33 = turn_B33 + (1 - cos_B1)[:, :, None] * k_B3[:, :, None] * k_B3[:, None]
    return torch.where((sin_B1 > TINY)[:, :, None], turn_B33, eye_33)
