"""The batch of views a method receives.

Shapes: B clips times ``count`` views (view-major), M body slots, R present bodies (rows), T frames, J joints,
C = 3 coordinates, N tokens, I masked tokens of all rows, K visible tokens of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from skelbench.core.spec import Stream

VIEW_KEY = 24
"""Bit of ``keys_R`` from which the views of a clip are counted."""


@dataclass(frozen=True)
class View:
    """All views of one :class:`~skelbench.views.spec.ViewSpec` for a batch of clips, on the device.

    Only present bodies are stored (rows); :attr:`x_BMTJC` and :attr:`valid_BM` give the full picture.
    Rows are ordered by view, then clip, then body, and every view holds the same bodies, so :meth:`chunk` can cut
    row-wise outputs of an encoder into views. All counts (R, I, K) are known on the host.

    >>> x_BMTJC = torch.randn(3, 2, 64, 25, 3)  # three clips with room for two bodies
    >>> view = View.of(x_BMTJC, valid_BM=torch.tensor([[True, True], [True, False], [True, False]]))
    >>> view.x_RTJC.shape, view.clip_R
    (torch.Size([4, 64, 25, 3]), tensor([0, 0, 1, 2]))
    >>> view.per_clip(torch.ones(view.rows, 8)).shape
    torch.Size([3, 8])
    """

    x_RTJC: Tensor
    """float32 [R, T, J, 3], meters."""
    rows_R: Tensor
    """int64 [R]: row r is entry rows_R[r] of the flattened [count * B, M] grid."""
    clips: int
    """B."""
    bodies: int
    """M."""
    count: int = 1
    """Views per clip; the leading dimension of x_BMTJC is count * B."""
    mask_RN: Tensor | None = None
    """bool [R, N], True = masked."""
    masked_I: Tensor | None = None
    """int64 [I]: flat indices (row * N + token) of the masked tokens, ascending."""
    keep_RK: Tensor | None = None
    """int64 [R, K]: visible tokens of each row, ascending, when every row keeps the same number."""
    keys_R: Tensor | None = None
    """int64 [R]: clip id * M + body slot, plus 2**24 for each further view of the clip; keys for ``step.uniform``."""
    stream: Stream = "joint"
    """Kind of coordinates; "fused" = joints, from which the encoder computes the other streams."""
    real_RT: Tensor | None = None
    """bool [R, T]: frames that are not padding (resize="pad")."""
    confidence_RTJ: Tensor | None = None
    """float32 [R, T, J] in [0, 1]: confidence of each joint, if the dataset has it (2-D poses); 0 for absent joints.
    A bone or motion has the lower confidence of its two joints or frames."""
    missing_RJ: Tensor | None = None
    """bool [R, J]: joints that are declared missing, with meaningless coordinates; None = no clip can have any."""

    @property
    def x_BMTJC(self) -> Tensor:
        """float32 [count * B, M, T, J, 3]; absent bodies are zero."""
        full = self.x_RTJC.new_zeros(self.count * self.clips * self.bodies, *self.x_RTJC.shape[1:])
        full[self.rows_R] = self.x_RTJC
        return full.unflatten(0, (self.count * self.clips, self.bodies))

    @property
    def valid_BM(self) -> Tensor:
        """bool [count * B, M]: which bodies are present."""
        valid = torch.zeros(self.count * self.clips * self.bodies, dtype=torch.bool, device=self.rows_R.device)
        valid.index_fill_(0, self.rows_R, True)  # an assignment would copy the value from the host, and wait
        return valid.view(self.count * self.clips, self.bodies)

    @property
    def rows(self) -> int:
        """R, on the host."""
        return self.x_RTJC.shape[0]

    @property
    def clip_R(self) -> Tensor:
        """int64 [R]: index of the row's clip in 0..B-1."""
        return torch.div(self.rows_R, self.bodies, rounding_mode="floor") % self.clips

    @property
    def keys_B(self) -> Tensor:
        """int64 [B]: the key of each clip (first slot, first view), for draws that its bodies share."""
        assert self.keys_R is not None  # set by the view builder
        first_R = self.keys_R - self.rows_R % self.bodies
        entry_R = torch.div(self.rows_R, self.bodies, rounding_mode="floor")
        keys_B = first_R.new_zeros(self.count * self.clips)
        return keys_B.scatter_(0, entry_R, first_R)[: self.clips]

    def per_clip(self, x_RD: Tensor) -> Tensor:
        """Mean over the present bodies: from rows to one entry per view of a clip, [count * B, D], with gradient. Two
        bodies of a clip are thus never each other's negatives."""
        clip_R = torch.div(self.rows_R, self.bodies, rounding_mode="floor")
        sum_BD = x_RD.new_zeros(self.count * self.clips, x_RD.shape[1]).index_add(0, clip_R, x_RD)
        return sum_BD / self.valid_BM.sum(1, keepdim=True).clamp(min=1).to(x_RD.dtype)

    def chunk(self, per_row: Tensor) -> tuple[Tensor, ...]:
        """Cut a tensor with one entry per row into ``count`` pieces, one per view."""
        return per_row.chunk(self.count)

    @classmethod
    def cat(cls, views: Sequence[View]) -> View:
        """Views of the same clips, stream, frames and bodies as one batch, in order: :meth:`chunk` takes them apart."""
        first = views[0]
        if len(views) == 1:
            return first
        offsets = [sum(view.count for view in views[:k]) * first.clips * first.bodies for k in range(len(views))]
        rows_R = torch.cat([view.rows_R + offset for view, offset in zip(views, offsets)])
        fields: dict[str, Any] = {}
        for name in ("mask_RN", "keep_RK", "real_RT", "confidence_RTJ", "missing_RJ"):
            if getattr(first, name) is not None:
                fields[name] = torch.cat([getattr(view, name) for view in views])
        if first.mask_RN is not None:
            tokens = first.mask_RN.shape[1]
            rows = [sum(view.rows for view in views[:k]) for k in range(len(views))]
            hidden = [view.masked_I + row * tokens for view, row in zip(views, rows) if view.masked_I is not None]
            fields["masked_I"] = torch.cat(hidden)
        if first.keys_R is not None:
            before = [sum(view.count for view in views[:k]) << VIEW_KEY for k in range(len(views))]
            keys = [view.keys_R + offset for view, offset in zip(views, before) if view.keys_R is not None]
            fields["keys_R"] = torch.cat(keys)
        x_RTJC = torch.cat([view.x_RTJC for view in views])
        return replace(first, x_RTJC=x_RTJC, rows_R=rows_R, count=sum(view.count for view in views), **fields)

    def with_x(self, x_RTJC: Tensor) -> View:
        """Return a view of the same bodies and masks with other coordinates."""
        return replace(self, x_RTJC=x_RTJC)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> View:
        """Move every tensor."""
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=non_blocking)
            for name, value in self.__dict__.items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        """Keep the memory of every tensor, made on another stream, until ``stream`` no longer uses it."""
        for value in self.__dict__.values():
            if isinstance(value, Tensor):
                value.record_stream(stream)

    @classmethod
    def of(cls, x_BMTJC: Tensor, valid_BM: Tensor | None = None, **fields: Any) -> View:
        """A view made from dense coordinates [B, M, T, J, 3]; ``valid_BM`` None = all bodies present."""
        clips, bodies = x_BMTJC.shape[:2]
        x_RTJC, rows_R = x_BMTJC.flatten(0, 1), torch.arange(clips * bodies, device=x_BMTJC.device)
        if valid_BM is not None:
            rows_R = valid_BM.flatten().nonzero().squeeze(1)
            x_RTJC = x_RTJC[rows_R]
        return cls(x_RTJC=x_RTJC, rows_R=rows_R, clips=clips, bodies=bodies, **fields)
