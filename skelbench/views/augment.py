"""Augmentations as matrices (paper, Algorithms 2-4, and their conventional counterparts).

Coordinates are X [3, T, J] per row. Every linear operation is X -> S X W with S [3, 3] acting on the axes and W [J, J]
on the joints; the two sides commute, so a list of operations is one S and one W per row. Noise and translations are not
linear: they end one such product and begin the next. Whether an operation is applied is drawn once per clip and view,
and so are its angles, factors, axes and offsets; bone scaling factors and noise are drawn per body.

R rows, K rows that are changed, T frames, J joints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from skelbench.skeleton.topology import Topology
from skelbench.views.keyed import Keyed, pick
from skelbench.views.spec import Augment, AxisDrop, BoneScale, CoordinateScale, Mirror, Noise, Rotate, Translate
from skelbench.views.transfer import send

PER_CLIP, PER_BODY = 16, 17
"""``op`` of operation i of the list is 16 + 2 i for draws per clip and 17 + 2 i for draws per body."""


@dataclass(frozen=True)
class Matrices:
    """One square matrix per row, only the non-trivial ones stored: row r has ``table[slot[r]]``, identity at -1."""

    table_KDD: Tensor
    """float32 [K, D, D]."""
    slot_R: Tensor
    """int64 [R]."""

    @classmethod
    def identity(cls, rows: int, size: int) -> Matrices:
        """No row changed."""
        return cls(torch.empty(0, size, size), torch.full((rows,), -1))

    def put(self, rows_K: Tensor, table_KDD: Tensor) -> Matrices:
        """The same rows with ``table_KDD`` at ``rows_K`` and nothing elsewhere."""
        slot_R = torch.full_like(self.slot_R, -1)
        slot_R[rows_K] = torch.arange(len(rows_K))
        return Matrices(table_KDD, slot_R)

    def __matmul__(self, other: Matrices) -> Matrices:
        """Row by row product; multiplies only where both factors are non-trivial."""
        left, right = self.slot_R >= 0, other.slot_R >= 0
        rows = [(left & ~right).nonzero()[:, 0], (right & ~left).nonzero()[:, 0], (left & right).nonzero()[:, 0]]
        tables = [
            self.table_KDD[self.slot_R[rows[0]]],
            other.table_KDD[other.slot_R[rows[1]]],
            self.table_KDD[self.slot_R[rows[2]]] @ other.table_KDD[other.slot_R[rows[2]]],
        ]
        return self.put(torch.cat(rows), torch.cat(tables))

    def take(self, index: Tensor) -> Matrices:
        """Rows ``index`` of this one."""
        return Matrices(self.table_KDD, self.slot_R[index])

    def changed(self, device: torch.device) -> tuple[Tensor | None, Tensor] | None:
        """(rows that are changed or None for all, their matrices) on ``device``; None when there are none."""
        rows_K = (self.slot_R >= 0).nonzero()[:, 0]
        if not len(rows_K):
            return None
        table_KDD = send(self.table_KDD[self.slot_R[rows_K]], device)
        return (None if len(rows_K) == len(self.slot_R) else send(rows_K, device)), table_KDD


@dataclass(frozen=True)
class Linear:
    """X -> S X W."""

    space: Matrices
    """S, [3, 3]."""
    joints: Matrices
    """W, [J, J]: column j says how joint j is made of the old joints."""
    mirrored_R: Tensor
    """bool: W swaps left and right."""

    def take(self, index: Tensor) -> Linear:
        """Rows ``index`` of this one."""
        return Linear(self.space.take(index), self.joints.take(index), self.mirrored_R[index])

    def apply(self, x_R3TJ: Tensor, keyed: Keyed) -> Tensor:
        """Transformed coordinates; may overwrite its argument."""
        if work := self.joints.changed(x_R3TJ.device):
            x_R3TJ = _on_rows(x_R3TJ, work[0], lambda x: (x.flatten(1, 2) @ work[1]).view_as(x))
        if work := self.space.changed(x_R3TJ.device):
            x_R3TJ = _on_rows(x_R3TJ, work[0], lambda x: (work[1] @ x.flatten(2)).view_as(x))
        return x_R3TJ


@dataclass(frozen=True)
class Jitter:
    """X -> X + std * standard normal, on the rows where ``active``; drawn when applied, on the device."""

    std: float
    axes: int
    """Coordinates that get noise: all 3, or x and y."""
    op: int
    active_R: Tensor
    keys_R: Tensor
    view_R: Tensor

    def take(self, index: Tensor) -> Jitter:
        """Rows ``index`` of this one."""
        return replace(self, active_R=self.active_R[index], keys_R=self.keys_R[index], view_R=self.view_R[index])

    def apply(self, x_R3TJ: Tensor, keyed: Keyed) -> Tensor:
        """Noisy coordinates; may overwrite its argument."""
        rows_K = self.active_R.nonzero()[:, 0]
        if not len(rows_K):
            return x_R3TJ
        device = x_R3TJ.device
        keys, views = send(self.keys_R[rows_K], device), send(self.view_R[rows_K], device)
        noise = keyed.normal(keys, math.prod(x_R3TJ.shape[1:]), view=views, op=self.op).view(-1, *x_R3TJ.shape[1:])
        noise[:, self.axes :] = 0.0
        return x_R3TJ.index_add_(0, send(rows_K, device), noise, alpha=self.std)


@dataclass(frozen=True)
class Shift:
    """X -> X + offset, one offset for all frames and joints of a row."""

    offset_R3: Tensor
    """float32 [R, 3], zero where nothing moves."""

    def take(self, index: Tensor) -> Shift:
        """Rows ``index`` of this one."""
        return Shift(self.offset_R3[index])

    def apply(self, x_R3TJ: Tensor, keyed: Keyed) -> Tensor:
        """Shifted coordinates; may overwrite its argument."""
        return x_R3TJ.add_(send(self.offset_R3, x_R3TJ.device)[:, :, None, None])


Transform = tuple[Linear | Jitter | Shift, ...]


def _on_rows(x_R3TJ: Tensor, rows_K: Tensor | None, function) -> Tensor:
    """``function`` of the given rows, the others untouched."""
    if rows_K is None:
        return function(x_R3TJ)
    return x_R3TJ.index_copy_(0, rows_K, function(x_R3TJ.index_select(0, rows_K)))


def draw_transform(
    ops: Sequence[Augment],
    topology: Topology,
    keyed: Keyed,
    clip_keys_R: Tensor,
    body_keys_R: Tensor,
    view_R: Tensor,
    dimensions: Literal[2, 3] = 3,
) -> Transform:
    """Draw every operation of ``ops`` for R rows and compose them in order. All on the host, int64 keys [R].

    ``dimensions`` 2: z is 0 and stays 0. Bodies turn about the line of sight only, within the tilt limit (the vertical
    one has no effect); noise and dropped axes are those of the image plane.
    """
    nothing = Linear(
        Matrices.identity(len(view_R), 3),
        Matrices.identity(len(view_R), topology.num_joints),
        torch.zeros(len(view_R), dtype=torch.bool),
    )
    steps: list[Linear | Jitter | Shift] = []
    for index, op in enumerate(ops):
        u_R4 = keyed.uniform(clip_keys_R, 4, view=view_R, op=PER_CLIP + 2 * index).double()
        active_R = u_R4[:, 0] < op.p
        per_body = PER_BODY + 2 * index
        if isinstance(op, Noise):
            steps.append(Jitter(op.std, dimensions, per_body, active_R, body_keys_R, view_R))
            continue
        if isinstance(op, Translate):
            steps.append(Shift(((2 * u_R4[:, 1:] - 1) * op.limit * active_R[:, None]).float()))
            continue
        rows_K = active_R.nonzero()[:, 0]
        u_K3 = u_R4[rows_K, 1:]
        space, joints, mirrored_R = nothing.space, nothing.joints, nothing.mirrored_R
        if isinstance(op, Rotate):
            space = space.put(rows_K, rotation(_angles(op, u_K3, dimensions)))
        elif isinstance(op, CoordinateScale):
            space = space.put(rows_K, torch.diag_embed(op.lo + u_K3 * (op.hi - op.lo)).float())
        elif isinstance(op, AxisDrop):
            space = space.put(rows_K, torch.diag_embed((torch.arange(3) != pick(u_K3[:, :1], dimensions)).float()))
        elif isinstance(op, Mirror):
            joints = joints.put(rows_K, permutation(topology).expand(len(rows_K), -1, -1))
            mirrored_R = active_R
            if op.reflect:
                space = space.put(rows_K, torch.diag(torch.tensor([-1.0, 1.0, 1.0])).expand(len(rows_K), -1, -1))
        elif isinstance(op, BoneScale):
            basis = scaling_basis(topology, op.groups)
            u_KG = keyed.uniform(body_keys_R[rows_K], len(basis) - 1, view=view_R[rows_K], op=per_body).double()
            joints = joints.put(rows_K, bone_scaling(basis, op.lo + u_KG * (op.hi - op.lo)))
        steps.append(Linear(space, joints, mirrored_R))
    return compose(tuple(steps))


def compose(steps: Transform) -> Transform:
    """The same transform with neighbouring linear steps multiplied into one."""
    short: list[Linear | Jitter | Shift] = []
    for step in steps:
        if short and isinstance(step, Linear) and isinstance(short[-1], Linear):
            before = short.pop()
            mirrored_R = before.mirrored_R ^ step.mirrored_R
            step = Linear(step.space @ before.space, before.joints @ step.joints, mirrored_R)
        short.append(step)
    return tuple(short)


def mirrored_rows(transform: Transform) -> Tensor:
    """int64 [K]: rows whose left and right are swapped once all is done."""
    swapped = [step.mirrored_R for step in transform if isinstance(step, Linear)]
    return torch.stack(swapped).sum(0).remainder(2).nonzero()[:, 0] if swapped else torch.empty(0, dtype=torch.int64)


def _angles(op: Rotate, u_K3: Tensor, dimensions: int) -> Tensor:
    """float64 [K, 3], radians about X, Y, Z."""
    vertical, tilt = math.radians(op.vertical_deg), math.radians(op.tilt_deg)
    limits = [tilt, vertical, tilt] if dimensions == 3 else [0.0, 0.0, tilt]
    return (2 * u_K3 - 1) * torch.tensor(limits, dtype=torch.float64)


def rotation(angles_K3: Tensor) -> Tensor:
    """R = Rz Ry Rx (Algorithm 2), float32 [K, 3, 3], from float64 angles about X, Y, Z in radians."""
    (sa, sb, sc), (ca, cb, cc) = torch.sin(angles_K3).unbind(1), torch.cos(angles_K3).unbind(1)
    rows = (
        (cc * cb, cc * sb * sa - sc * ca, cc * sb * ca + sc * sa),
        (sc * cb, sc * sb * sa + cc * ca, sc * sb * ca - cc * sa),
        (-sb, cb * sa, cb * ca),
    )
    return torch.stack([torch.stack(row, 1) for row in rows], 1).float()


@cache
def permutation(topology: Topology) -> Tensor:
    """W of the mirror's index swap (Algorithm 3), float32 [J, J]: new joint j is old joint swap[j]."""
    return torch.eye(topology.num_joints)[:, list(topology.swap)]


@cache
def scaling_basis(topology: Topology, groups: str) -> Tensor:
    """float64 [G + 1, J, J]: W of bone scaling is basis[0] + sum_g s_g basis[1 + g].

    x' = A diag(s) D x (Algorithm 4 in closed form), split by the group whose factor multiplies; basis[0] carries the
    root's trajectory, which no factor touches.
    """
    parts = (topology.parts if groups == "parts" else topology.limbs).values()
    weights = [[float(j in part and j != topology.root) for j in range(topology.num_joints)] for part in parts]
    weights = [[float(j == topology.root) for j in range(topology.num_joints)], *weights]
    a, d = torch.from_numpy(topology.ancestors), torch.from_numpy(topology.differences)
    return torch.stack([(a * torch.tensor(w, dtype=torch.float64) @ d).T for w in weights])


def bone_scaling(basis: Tensor, scale_KG: Tensor) -> Tensor:
    """W of bone scaling, float32 [K, J, J], for factors float64 [K, G]."""
    return (basis[0] + torch.einsum("kg,gij->kij", scale_KG, basis[1:])).float()
