"""Transforms of coordinates by augmentations, as matrices that are multiplied before they are applied.

Coordinates are X [3, T, J] per row. Every linear operation is X -> S X W with S [3, 3] acting on the axes and W [J, J]
on the joints; the two sides commute, so a list of operations is one S and one W per row. Noise, translations and
changes of time end one such product and begin the next.

R rows, K rows that are changed, T frames, J joints.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from skelbench.plugin.plugin_errors import lacking
from skelbench.views.keyed import Keyed
from skelbench.views.transfer import send


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
        """Return matrices for the same rows: ``table_KDD`` at ``rows_K`` and the identity elsewhere."""
        slot_R = torch.full_like(self.slot_R, -1)
        slot_R[rows_K] = torch.arange(len(rows_K))
        return Matrices(table_KDD, slot_R)

    def __matmul__(self, other: Matrices) -> Matrices:
        """Multiply row by row; only where both factors are not the identity."""
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


class Change:
    """Effect of one operation, or of several as one, on the coordinates of R rows, all draws made.

    An augmentation that is neither linear nor noise nor a shift defines a subclass.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Clamp(Change):
    ...     limit_R: Tensor
    ...
    ...     def take(self, index):
    ...         return Clamp(self.limit_R[index])
    ...
    ...     def apply(self, x_R3TJ, keyed):
    ...         limit_R111 = self.limit_R.to(x_R3TJ.device)[:, None, None, None]
    ...         return x_R3TJ.clamp(-limit_R111, limit_R111)
    >>> float(Clamp(torch.ones(2)).apply(torch.full((2, 3, 1, 1), 5.0), Keyed(0, 0)).amax())
    1.0
    """

    def take(self, index: Tensor) -> Self:
        """Rows ``index`` of this one."""
        raise lacking(self, "take(self, index)")

    def apply(self, x_R3TJ: Tensor, keyed: Keyed) -> Tensor:
        """Changed coordinates, on the device of ``x_R3TJ``, which it may overwrite."""
        raise lacking(self, "apply(self, x_R3TJ, keyed)")

    def time(self, x_RCTJ: Tensor) -> Tensor:
        """Apply the change of order and positions of frames to C channels, such as the confidence of joints (C = 1),
        which it may overwrite. Default: no change."""
        return x_RCTJ


@dataclass(frozen=True)
class Linear(Change):
    """X -> S X W."""

    space: Matrices
    """S, [3, 3]."""
    joints: Matrices
    """W, [J, J]: column j has the weights of the old joints in joint j."""
    mirrored_R: Tensor
    """bool: W swaps left and right."""

    def take(self, index: Tensor) -> Linear:
        return Linear(self.space.take(index), self.joints.take(index), self.mirrored_R[index])

    def apply(self, x_R3TJ: Tensor, keyed: Keyed) -> Tensor:
        if joints := self.joints.changed(x_R3TJ.device):
            rows_K, joints_KJJ = joints
            x_R3TJ = _on_rows(x_R3TJ, rows_K, lambda x: (x.flatten(1, 2) @ joints_KJJ).view_as(x))
        if space := self.space.changed(x_R3TJ.device):
            rows_K, space_K33 = space
            x_R3TJ = _on_rows(x_R3TJ, rows_K, lambda x: (space_K33 @ x.flatten(2)).view_as(x))
        return x_R3TJ


@dataclass(frozen=True)
class Jitter(Change):
    """X -> X + std * standard normal, on the rows where ``active``; drawn when applied, on the device."""

    std: float
    axes: int
    """Coordinates that get noise: all 3, or x and y."""
    op: int
    active_R: Tensor
    keys_R: Tensor
    view_R: Tensor

    def take(self, index: Tensor) -> Jitter:
        return replace(self, active_R=self.active_R[index], keys_R=self.keys_R[index], view_R=self.view_R[index])

    def apply(self, x_R3TJ: Tensor, keyed: Keyed) -> Tensor:
        rows_K = self.active_R.nonzero()[:, 0]
        if not len(rows_K):
            return x_R3TJ
        device = x_R3TJ.device
        keys, views = send(self.keys_R[rows_K], device), send(self.view_R[rows_K], device)
        noise = keyed.normal(keys, math.prod(x_R3TJ.shape[1:]), view=views, op=self.op).view(-1, *x_R3TJ.shape[1:])
        noise[:, self.axes :] = 0.0
        return x_R3TJ.index_add_(0, send(rows_K, device), noise, alpha=self.std)


@dataclass(frozen=True)
class Shift(Change):
    """X -> X + offset, one offset for all frames and joints of a row."""

    offset_R3: Tensor
    """float32 [R, 3], zero for unmoved rows."""

    def take(self, index: Tensor) -> Shift:
        return Shift(self.offset_R3[index])

    def apply(self, x_R3TJ: Tensor, keyed: Keyed) -> Tensor:
        return x_R3TJ.add_(send(self.offset_R3, x_R3TJ.device)[:, :, None, None])


@dataclass(frozen=True)
class Smooth(Change):
    """Every frame becomes a Gaussian-weighted sum of the frames at most ``radius`` away, on the rows with a width."""

    sigma_R: Tensor
    """float32 [R], frames; 0 where nothing is smoothed."""
    radius: int
    normalized: bool
    """Whether weights sum to 1 in every frame; else they are exp(-d^2 / 2 sigma^2) of existing frames."""

    def take(self, index: Tensor) -> Smooth:
        return replace(self, sigma_R=self.sigma_R[index])

    def apply(self, x_R3TJ: Tensor, keyed: Keyed) -> Tensor:
        rows_K = (self.sigma_R > 0).nonzero()[:, 0]
        if not len(rows_K):
            return x_R3TJ
        device, frame_T = x_R3TJ.device, torch.arange(x_R3TJ.shape[2], device=x_R3TJ.device)
        apart_TT = (frame_T[:, None] - frame_T).abs()
        sigma_K = send(self.sigma_R[rows_K], device)
        weight_KTT = torch.exp(-(apart_TT**2) / (2 * sigma_K[:, None, None] ** 2)) * (apart_TT <= self.radius)
        if self.normalized:
            weight_KTT = weight_KTT / weight_KTT.sum(2, keepdim=True)
        return _on_rows(x_R3TJ, send(rows_K, device), lambda x: weight_KTT[:, None] @ x)


@dataclass(frozen=True)
class Reverse(Change):
    """Reverse the order of frames, on the rows where ``active``."""

    active_R: Tensor

    def take(self, index: Tensor) -> Reverse:
        return Reverse(self.active_R[index])

    def apply(self, x_R3TJ: Tensor, keyed: Keyed) -> Tensor:
        return self.time(x_R3TJ)

    def time(self, x_RCTJ: Tensor) -> Tensor:
        rows_K = self.active_R.nonzero()[:, 0]
        return _on_rows(x_RCTJ, send(rows_K, x_RCTJ.device), lambda x: x.flip(2)) if len(rows_K) else x_RCTJ


@dataclass(frozen=True)
class Paced(Change):
    """Change the duration: the first floor(T factor) of T frames show the row, interpolated as OpenCV resizes, the
    rest are 0; if there are more than T, the first T are kept."""

    factor_R: Tensor
    """float32 [R]; 0 where nothing changes."""

    def take(self, index: Tensor) -> Paced:
        return Paced(self.factor_R[index])

    def apply(self, x_R3TJ: Tensor, keyed: Keyed) -> Tensor:
        return self.time(x_R3TJ)

    def time(self, x_RCTJ: Tensor) -> Tensor:
        rows_K = (self.factor_R > 0).nonzero()[:, 0]
        if not len(rows_K):
            return x_RCTJ
        frames = x_RCTJ.shape[2]
        lasts_K1 = (self.factor_R[rows_K] * frames).floor().clamp(min=1)[:, None]
        frame_T = torch.arange(frames)
        place_KT = ((frame_T + 0.5) * frames / lasts_K1 - 0.5).clamp(0, frames - 1)
        before_KT = place_KT.long()
        share_KT, there_KT = place_KT - before_KT, frame_T < lasts_K1
        after_KT = (before_KT + 1).clamp(max=frames - 1)
        weight_KTT = torch.zeros(len(rows_K), frames, frames)  # row t: weights of the old frames in frame t
        weight_KTT.scatter_add_(2, before_KT[:, :, None], (there_KT * (1 - share_KT))[:, :, None])
        weight_KTT.scatter_add_(2, after_KT[:, :, None], (there_KT * share_KT)[:, :, None])
        weight_KTT, rows_K = send(weight_KTT, x_RCTJ.device), send(rows_K, x_RCTJ.device)
        return _on_rows(x_RCTJ, rows_K, lambda x: weight_KTT[:, None] @ x)


Transform = tuple[Change, ...]


def _on_rows(x_R3TJ: Tensor, rows_K: Tensor | None, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply ``function`` to the given rows; the others stay unchanged."""
    if rows_K is None:
        return function(x_R3TJ)
    return x_R3TJ.index_copy_(0, rows_K, function(x_R3TJ.index_select(0, rows_K)))


def compose(steps: Transform) -> Transform:
    """Return the same transform with neighboring linear steps multiplied into one."""
    short: list[Change] = []
    for step in steps:
        before = short[-1] if short else None
        if isinstance(step, Linear) and isinstance(before, Linear):
            mirrored_R = before.mirrored_R ^ step.mirrored_R
            short[-1] = Linear(step.space @ before.space, before.joints @ step.joints, mirrored_R)
        else:
            short.append(step)
    return tuple(short)


def mirrored_rows(transform: Transform) -> Tensor:
    """int64 [K]: rows whose left and right are swapped after all steps."""
    marks = [step.mirrored_R for step in transform if isinstance(step, Linear)]
    return torch.stack(marks).sum(0).remainder(2).nonzero()[:, 0] if marks else torch.empty(0, dtype=torch.int64)
