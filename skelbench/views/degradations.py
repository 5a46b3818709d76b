"""Degradations of clips before views are cut: joints that are missing or filled in, noise.

A clip is degraded once: draws depend only on a seed and the clip's id, never on step, view or batch. Each clip has
one random order of joints: every kind removes the same joints for one fraction, and a larger fraction also removes
the joints of a smaller one (our assumption). All frames and bodies of a clip lose the same joints; the joint at the
origin is never removed. A degradation of your own is a subclass of :class:`Degrade` with a ``kind``.

B clips, F frames of all bodies of a batch, J joints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from skelbench.plugin.component import Component
from skelbench.plugin.plugin_errors import lacking, plugin_code, wrong
from skelbench.views.clips import ClipBatch
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.topology import Topology
from skelbench.views.transfer import send

JOINTS, NOISE = 0, 16
"""``op`` of the order of joints, and ``op`` of the noise of a clip's first body; further bodies count up from it."""


@dataclass(frozen=True)
class Poses:
    """Input of a degradation: every frame of every stored body of B clips, and random draws.

    >>> from skelbench.views.skeleton.topology import NTU25
    >>> length, offset, one = np.array([4, 2]), np.array([0, 12]), np.array([1, 1])
    >>> batch = ClipBatch(np.array([40, 7]), torch.randn(18, 25), offset, length, bodies=one, max_bodies=1)
    >>> poses = Poses.of(batch, NTU25)
    >>> poses.x_F3J.shape, poses.lost(0.2).sum(1), bool(poses.lost(0.2)[:, NTU25.center].any())
    (torch.Size([6, 3, 25]), tensor([5, 5]), False)
    """

    x_F3J: Tensor
    """float32 [F, 3, J], meters; on the device, never to be changed in place."""
    missing_BJ: Tensor
    """bool [B, J] on the host: joints that are declared missing, in all frames and bodies of a clip."""
    confidence_FJ: Tensor | None
    """float32 [F, J] in [0, 1]; None when the dataset has none."""
    clean_F3J: Tensor
    """Coordinates before any degradation; bone lengths and reference positions are measured on them."""
    there_FJ: Tensor
    """bool [F, J]: False in frames without the body (all joints at the origin), and for joints of confidence 0."""
    ids_B: Tensor
    """int64 [B] on the host, like the next four; draws are keyed by clip id."""
    length_B: Tensor
    """int64 [B], frames."""
    clip_F: Tensor
    """int64 [F]: index of the clip in the batch, ascending."""
    body_F: Tensor
    frame_F: Tensor
    topology: Topology
    dimensions: Literal[2, 3]
    """2 for poses of the image plane, where z has to stay 0."""
    keyed: Keyed

    @classmethod
    def of(cls, batch: ClipBatch, topology: Topology, dimensions: Literal[2, 3] = 3, seed: int = 0) -> Poses:
        """Return a copy of the stored clips of ``batch``, one after the other, each body by body."""
        length_B, offset_B = map(_int64, (batch.length, batch.offset))
        stored_B = _int64(batch.bodies if batch.stored is None else batch.stored)
        frames_B = length_B * stored_B
        clip_F = torch.arange(len(frames_B)).repeat_interleave(frames_B)
        within_F = torch.arange(len(clip_F)) - (frames_B.cumsum(0) - frames_B)[clip_F]
        body_F, frame_F = within_F.div(length_B[clip_F], rounding_mode="floor"), within_F % length_B[clip_F]
        row_F3 = offset_B[clip_F, None] + _within(length_B[clip_F], body_F, frame_F)
        x_F3J = _rows(batch.frames_FJ, row_F3.flatten()).unflatten(0, (-1, 3))
        there_FJ = x_F3J.flatten(1).any(1)[:, None].expand(-1, topology.num_joints)
        confidence_FJ = None
        if batch.confidence_FJ is not None:
            confidence_FJ = _rows(batch.confidence_FJ, offset_B[clip_F] // 3 + within_F)
            there_FJ = there_FJ & (confidence_FJ > 0)
        missing_BJ = torch.zeros(len(frames_B), topology.num_joints, dtype=torch.bool)
        host = _int64(batch.ids), length_B, clip_F, body_F, frame_F
        return cls(x_F3J, missing_BJ, confidence_FJ, x_F3J, there_FJ, *host, topology, dimensions, Keyed(seed, 0))

    def lost(self, share: float) -> Tensor:
        """bool [B, J] on the host: joints of each clip that degradations by ``share`` remove.

        :func:`joints_lost` gives their number; the joint on which clips are centered is never removed.
        """
        joints = self.topology.num_joints
        rank_BJ = self.keyed.uniform(self.ids_B, joints, op=JOINTS)
        rank_BJ[:, self.topology.center] = math.inf
        return rank_BJ.argsort(dim=1, stable=True).argsort(dim=1) < joints_lost(share, joints)

    def by_frame(self, of_B: Tensor) -> Tensor:
        """Return values of clips [B, ...], on the host, for every frame [F, ...], on the device."""
        device = self.x_F3J.device
        return send(of_B, device)[send(self.clip_F, device)]

    @property
    def bone_B(self) -> Tensor:
        """Mean bone length of each clip before degradation, float32 [B], meters, on the device: over all frames and
        present bodies; a bone without one of its ends does not count. 0 = no bone."""
        device = self.clean_F3J.device
        joints = [j for j in self.topology.order if j != self.topology.root]
        ends = send(torch.tensor(joints), device)
        starts = send(torch.tensor([self.topology.parents[j] for j in joints]), device)
        length_FG = (self.clean_F3J[:, :, ends] - self.clean_F3J[:, :, starts]).double().square().sum(1).sqrt()
        known_FG = (self.there_FJ[:, ends] & self.there_FJ[:, starts]).double()
        frames_B = send(torch.bincount(self.clip_F, minlength=len(self.ids_B)), device)
        sums_F2 = torch.stack([(length_FG * known_FG).sum(1), known_FG.sum(1)], 1)
        # segment_reduce adds in one order on every device; ``unsafe`` skips a check that would wait for it.
        total_B, count_B = torch.segment_reduce(sums_F2, "sum", lengths=frames_B, unsafe=True).unbind(1)
        return (total_B / count_B.clamp(min=1)).float()

    @property
    def reference_B3(self) -> Tensor:
        """Original position of the first body's center joint, float32 [B, 3], meters, on the device: in the first frame
        that shows the joint. Centered clips have it as origin. 0 if the joint is never seen."""
        device, center, rows = self.clean_F3J.device, self.topology.center, len(self.clip_F)
        seen_F = self.there_FJ[:, center] & send(self.body_F == 0, device)
        place_F = torch.where(seen_F, torch.arange(rows, device=device), rows)
        first_B = torch.full((len(self.ids_B),), rows, device=device)
        first_B = first_B.scatter_reduce(0, send(self.clip_F, device), place_F, "amin")
        found_B3 = self.clean_F3J[first_B.clamp(max=rows - 1), :, center]
        return found_B3.masked_fill((first_B == rows)[:, None], 0.0)

    def normal(self) -> Tensor:
        """float32 [F, 3, J], independent standard normal values, on the device; z is 0 in 2-D."""
        device, noise_F3J = self.x_F3J.device, torch.empty_like(self.x_F3J)
        for body in range(int(self.body_F.max()) + 1 if len(self.body_F) else 0):
            rows_K = (self.body_F == body).nonzero()[:, 0]
            keys_K = send(self.ids_B[self.clip_F[rows_K]], device)
            frame_K = send(self.frame_F[rows_K] % (1 << 16), device)  # noise repeats in longer clips
            drawn = self.keyed.normal(keys_K, noise_F3J[0].numel(), view=frame_K, op=NOISE + body)
            noise_F3J.index_copy_(0, send(rows_K, device), drawn.view(-1, *noise_F3J.shape[1:]))
        noise_F3J[:, self.dimensions :] = 0.0
        return noise_F3J

    def with_x(self, x_F3J: Tensor) -> Poses:
        """Return a copy with other coordinates."""
        return replace(self, x_F3J=x_F3J)

    def declare(self, missing_BJ: Tensor) -> Poses:
        """Return a copy with more joints declared missing: coordinates and confidence 0."""
        missing_FJ = self.by_frame(missing_BJ)
        confidence_FJ = None if self.confidence_FJ is None else self.confidence_FJ.masked_fill(missing_FJ, 0.0)
        x_F3J = self.x_F3J.masked_fill(missing_FJ[:, None], 0.0)
        return replace(self, x_F3J=x_F3J, confidence_FJ=confidence_FJ, missing_BJ=self.missing_BJ | missing_BJ)


def joints_lost(share: float, joints: int) -> int:
    """Return the number of ``joints`` in a fraction: rounded half up, at least one unless it is 0, never all.

    >>> [joints_lost(share, 25) for share in (0.12, 0.2, 0.32)], joints_lost(0.12, 17), joints_lost(0.01, 7)
    ([3, 5, 8], 2, 1)
    """
    return min(joints - 1, max(1, math.floor(share * joints + 0.5))) if share else 0


class Degrade(Component):
    """Base class of degradations: settings, and a function that changes poses.

    >>> class Mute(Degrade):
    ...     kind = "mute"
    ...     factor: float = 0.5
    ...
    ...     def degrade(self, poses):
    ...         return poses.with_x(self.factor * poses.x_F3J)
    >>> Mute(factor=0.1)
    Mute(factor=0.1)
    """

    family: ClassVar[str] = "degradations"
    declares: ClassVar[bool] = False
    """Whether it declares joints missing: then the encoder must be able to skip them."""

    def degrade(self, poses: Poses) -> Poses:
        """``poses`` degraded, as a new object. It uses the draws of ``poses``; each clip is degraded independently."""
        raise lacking(self, "degrade(self, poses)")


class MissingJoints(Degrade):
    """Missing joints that are declared: their coordinates are 0, and the encoder gets a mask of them."""

    kind = "missing"
    declares = True
    share: float = Field(0.2, ge=0, le=1, description="of the joints, rounded half up: 0.12, 0.2, 0.32 = 3, 5, 8 of 25")

    def degrade(self, poses: Poses) -> Poses:
        return poses.declare(poses.lost(self.share))


class ZeroFill(Degrade):
    """Missing joints at the origin of centered clips, presented as observed: at the first body's reference joint in its
    first frame.

    Our assumption: this holds for every body, also if each body is moved to its own origin afterwards.
    """

    kind = "zero-fill"
    share: float = Field(0.2, ge=0, le=1, description="of the joints, rounded half up: 0.12, 0.2, 0.32 = 3, 5, 8 of 25")

    def degrade(self, poses: Poses) -> Poses:
        lost_FJ, device = poses.by_frame(poses.lost(self.share)), poses.x_F3J.device
        shown_F = poses.clean_F3J.flatten(1).any(1)  # in other frames the body, or this joint, is missing
        fill_F3 = poses.reference_B3[send(poses.clip_F, device)] * shown_F[:, None]
        return poses.with_x(torch.where(lost_FJ[:, None], fill_F3[..., None], poses.x_F3J))


class ParentFill(Degrade):
    """Missing joints at their parents' positions, presented as observed; if a parent is missing too, at the nearest
    present joint on the path to the reference joint.

    Our assumption: parents follow the skeleton rooted at the reference joint, which is always present. This changes
    the parents only of joints between the skeleton's root and the reference joint (NTU's spine base).
    """

    kind = "parent-fill"
    share: float = Field(0.2, ge=0, le=1, description="of the joints, rounded half up: 0.12, 0.2, 0.32 = 3, 5, 8 of 25")

    def degrade(self, poses: Poses) -> Poses:
        lost_BJ, parents_J = poses.lost(self.share), _towards_center(poses.topology)
        shown_BJ = torch.arange(poses.topology.num_joints).expand_as(lost_BJ)
        while (gone_BJ := lost_BJ.gather(1, shown_BJ)).any():
            shown_BJ = torch.where(gone_BJ, parents_J[shown_BJ], shown_BJ)
        return poses.with_x(poses.x_F3J.gather(2, poses.by_frame(shown_BJ)[:, None].expand(-1, 3, -1)))


class JointNoise(Degrade):
    """Gaussian noise on every coordinate of present joints, independent over frames."""

    kind = "noise"
    sigma: float = Field(0.03, ge=0, description="standard deviation, in mean bone lengths of the clip")

    def degrade(self, poses: Poses) -> Poses:
        """Add noise in units of :attr:`Poses.bone_B`, the mean bone length before any degradation."""
        std_F11 = (self.sigma * poses.bone_B)[send(poses.clip_F, poses.x_F3J.device), None, None]
        return poses.with_x(poses.x_F3J + std_F11 * poses.normal() * poses.there_FJ[:, None])


@cache
def _towards_center(topology: Topology) -> Tensor:
    """Return the next joint on the path from each joint to the one on which clips are centered, int64 [J]."""
    parents = list(topology.parents)
    joint, before = topology.center, topology.center
    while joint != -1:
        parents[joint], before, joint = before, joint, parents[joint]
    return torch.tensor(parents)


def degraded(
    batch: ClipBatch, steps: Sequence[Degrade], topology: Topology, dimensions: Literal[2, 3], seed: int
) -> ClipBatch:
    """Return a copy of ``batch`` after all ``steps``, in order; the rows of ``batch`` may be the dataset's and stay
    unchanged."""
    poses = Poses.of(batch, topology, dimensions, seed)
    for step in steps:
        poses = _after(step, poses)
    frames_B = torch.bincount(poses.clip_F, minlength=len(poses.ids_B))
    offset_B = 3 * (frames_B.cumsum(0) - frames_B)
    row_F3 = offset_B[poses.clip_F, None] + _within(poses.length_B[poses.clip_F], poses.body_F, poses.frame_F)
    x_FJ = poses.x_F3J.flatten(0, 1)
    return replace(
        batch,
        frames_FJ=torch.empty_like(x_FJ).index_copy_(0, send(row_F3.flatten(), x_FJ.device), x_FJ),
        offset=offset_B.numpy(),
        confidence_FJ=poses.confidence_FJ,
        missing_BJ=poses.missing_BJ if any(step.declares for step in steps) else None,
    )


def _int64(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64))


def _within(length_F: Tensor, body_F: Tensor, frame_F: Tensor) -> Tensor:
    """int64 [F, 3]: rows of x, y and z after the clip's first one (:class:`~skelbench.views.clips.ClipBatch`)."""
    return (3 * body_F[:, None] + torch.arange(3)) * length_F[:, None] + frame_F[:, None]


def _rows(array: Tensor, index: Tensor) -> Tensor:
    return array.index_select(0, send(index, array.device))


def _after(step: Degrade, poses: Poses) -> Poses:
    """Return ``poses`` after a degradation, which may come from a plugin."""
    with plugin_code(step.degrade, "(poses)"):
        out: Any = step.degrade(poses)
    if not isinstance(out, Poses):
        raise wrong(step.degrade, f"returned {out!r:.60}, not poses; return poses.with_x(...) or poses.declare(...)")
    if out.x_F3J.shape != poses.x_F3J.shape or out.x_F3J.dtype != poses.x_F3J.dtype:
        form = f"{out.x_F3J.dtype} {list(out.x_F3J.shape)}"
        raise wrong(step.degrade, f"returned coordinates of {form}, not torch.float32 {list(poses.x_F3J.shape)}")
    return out
