"""Base class of masks, and independent random tokens; on the host, so that token counts are known without waiting for
the device.

Every row's mask is drawn from the row's own key and does not depend on other rows (except with ``Tube.stratified``:
on the batch of a process). Your own mask is a subclass of :class:`Mask` with a ``kind``.

R rows, N tokens, K visible tokens of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.plugin_errors import lacking
from skelbench.views.bounds import Bounded, Fraction
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import Topology

RATIO, TOKENS = 2, 3
"""``op`` of the draws for gate and ratio, and for random tokens."""


@dataclass(frozen=True)
class MaskRows:
    """Rows of one kind of view that get a mask.

    >>> rows = MaskRows(RandomTokens(), Grid(64, 8, 25), torch.arange(2), torch.full((2,), 256))
    >>> rows.grid.tokens
    200
    """

    mask: Mask
    grid: Grid
    keys_R: Tensor
    """int64 [R], one per row (clip and body)."""
    view_R: Tensor
    """int64 [R], which view."""


@dataclass(frozen=True)
class TokenMask:
    """The masked tokens of the rows of one kind of view, on the host.

    >>> TokenMask(torch.tensor([[True, False, False]]), keep_RK=torch.tensor([[1, 2]])).keep_RK
    tensor([[1, 2]])
    """

    mask_RN: Tensor
    """bool [R, N], True = masked."""
    keep_RK: Tensor | None = None
    """int64 [R, K], the visible tokens, ascending, if every row keeps the same number."""


class Mask(Bounded):
    """Base class of masks: a fraction of N tokens, uniform in [lo, hi], is masked with probability p, per body.

    >>> class Frames(Mask):
    ...     kind = "frames"
    ...
    ...     def draw(self, request, topology, keyed):
    ...         u_RP = keyed.uniform(request.keys_R, request.grid.times, view=request.view_R, op=40)
    ...         return TokenMask((u_RP < self.lo).repeat_interleave(request.grid.joints, dim=1))
    >>> Frames(lo=0.5, hi=0.5).expected(200)
    (100, None)
    """

    family: ClassVar[str] = "masks"

    lo: Fraction = Field(0.9, description="Smallest fraction of masked tokens.")
    hi: Fraction = Field(0.9, description="Largest fraction of masked tokens.")
    p: Fraction = 1.0
    """Probability that a view is masked at all."""

    @classmethod
    def draw_all(cls, requests: Sequence[MaskRows], topology: Topology, keyed: Keyed) -> list[TokenMask]:
        """Return the masks of all views of a batch with this kind of mask, by default one after another."""
        return [request.mask.draw(request, topology, keyed) for request in requests]

    def draw(self, request: MaskRows, topology: Topology, keyed: Keyed) -> TokenMask:
        """The masks of one kind of view."""
        raise lacking(self, "draw(self, request, topology, keyed)")

    def expected(self, tokens: int) -> tuple[int, int | None]:
        """Mean number of masked tokens, and of visible ones if it is the same in every row: for counting cost."""
        return round((self.lo + self.hi) / 2 * self.p * tokens), None


class RandomTokens(Mask):
    """Independent random tokens. With lo == hi and p == 1 as many are visible in every row, and views carry
    ``keep_RK``.

    >>> from skelbench.views.skeleton.topology import NTU25
    >>> rows = MaskRows(RandomTokens(lo=0.9, hi=0.9), Grid(120, 4, 25), torch.arange(2), torch.full((2,), 256))
    >>> rows.mask.draw(rows, NTU25, Keyed(seed=0, step=0)).keep_RK.shape
    torch.Size([2, 74])
    """

    kind = "random-tokens"
    keep: Literal["int", "round"] = "int"
    """Visible tokens if lo == hi: int(N * (1 - lo)) as in MAMP's code (74 of 750), or round(N * (1 - lo)) (75)."""

    def draw(self, request: MaskRows, topology: Topology, keyed: Keyed) -> TokenMask:
        tokens, keys_R = request.grid.tokens, request.keys_R
        hidden_R = hidden_tokens(request, keyed, self._visible(tokens))
        order_RN = torch.argsort(keyed.uniform(keys_R, tokens, view=request.view_R, op=TOKENS), dim=1, stable=True)
        mask_RN = torch.zeros(len(keys_R), tokens, dtype=torch.bool)
        mask_RN.scatter_(1, order_RN, torch.arange(tokens) >= (tokens - hidden_R)[:, None])
        visible = self.expected(tokens)[1]
        return TokenMask(mask_RN, None if visible is None else order_RN[:, :visible].sort(dim=1).values)

    def expected(self, tokens: int) -> tuple[int, int | None]:
        return super().expected(tokens)[0], self._visible(tokens) if self.p >= 1 else None

    def _visible(self, tokens: int) -> int | None:
        return visible_tokens(tokens, self.lo, self.keep) if self.lo == self.hi else None


def hidden_tokens(request: MaskRows, keyed: Keyed, visible: int | None = None, stratified: bool = False) -> Tensor:
    """Return the number of masked tokens, int64 [R]: floor(r * N) with the row's own target ratio r, or all but
    ``visible``; 0 for unmasked rows (probability 1 - p). ``stratified``: the ratios of the rows are evenly spread."""
    mask, tokens = request.mask, request.grid.tokens
    u_R3 = keyed.uniform(request.keys_R, 3, view=request.view_R, op=RATIO).double()
    share_R = u_R3[:, 1]
    if stratified:
        rank_R = torch.argsort(torch.argsort(u_R3[:, 2], stable=True))
        share_R = (rank_R + share_R) / len(rank_R)
    hidden_R = torch.floor((mask.lo + share_R * (mask.hi - mask.lo)) * tokens).long()
    if visible is not None:
        hidden_R = torch.full_like(hidden_R, tokens - visible)
    return torch.where(u_R3[:, 0] < mask.p, hidden_R, 0)


def visible_tokens(tokens: int, ratio: float, keep: Literal["int", "round"]) -> int:
    """K, the number of visible tokens for a constant mask ratio; 74 ("int") or 75 ("round") of 750 at 0.9.

    Raises:
        SkelbenchError: none is left.
    """
    share = tokens * (1 - ratio)
    visible = int(share) if keep == "int" else round(share)
    if visible < 1:
        raise SkelbenchError(f"a mask ratio of {ratio:g} leaves none of {tokens} tokens visible; lower the ratio")
    return visible
