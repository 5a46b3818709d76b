"""Missing or doubtful joints, hidden from an encoder the same way as masked tokens in its training.

R rows (bodies), T frames, J joints, P temporal tokens, N = P * J tokens, K visible tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore
from skelbench.models.encoder import Encoded, Encoder
from skelbench.views.transfer import fetch, waiting
from skelbench.views.view import View

Hiding = Literal["replace-tokens", "drop-tokens", "drop-lines", ""]
"""Way in which an encoder learned to work without tokens: mask token, dropped tokens or joints; "" = it did not."""
CANNOT = (
    "this encoder was trained with neither a mask token nor skipped tokens, so that it cannot receive which joints are "
    "missing; fill them in instead (parent-fill or zero-fill, as in --protocol missing-representation)"
)
"""Error message for an encoder that cannot work without tokens."""


def hidden_tokens(view: View, patch: int, min_confidence: float = 0.0) -> Tensor | None:
    """bool [R, N]: tokens of joints that are declared missing, and tokens whose mean confidence over their ``patch``
    frames is below ``min_confidence``; None if there can be none.

    Padded frames do not count. A body that would have no visible token keeps its doubtful tokens; a body without any
    joint keeps all tokens.
    """
    times = view.x_RTJC.shape[1] // patch
    missing_RN = None if view.missing_RJ is None else _unless_all(view.missing_RJ).repeat(1, times)
    if min_confidence:
        if view.confidence_RTJ is None:
            raise ValueError("min_confidence needs a view with confidence")
        weight_RTJ = torch.ones_like(view.confidence_RTJ)
        if view.real_RT is not None:
            weight_RTJ = weight_RTJ * view.real_RT[:, :, None]
        sums = [(x.unflatten(1, (times, patch)).sum(2)) for x in (view.confidence_RTJ * weight_RTJ, weight_RTJ)]
        doubted_RN = ((sums[0] < min_confidence * sums[1]) & (sums[1] > 0)).flatten(1)
        if missing_RN is None:
            return _unless_all(doubted_RN)
        both_RN = missing_RN | doubted_RN
        return torch.where(both_RN.all(1, keepdim=True), missing_RN, both_RN)
    return missing_RN


def _unless_all(hidden_RX: Tensor) -> Tensor:
    """``hidden_RX`` without rows that are hidden completely."""
    return hidden_RX & ~hidden_RX.all(1, keepdim=True)


def encode(
    encoder: Encoder | torch.nn.Module,
    view: View,
    hiding: Hiding = "",
    patch: int = 1,
    min_confidence: float = 0.0,
    **options: Any,
) -> Encoded:
    """``encoder(view, **options)`` with :func:`hidden_tokens` hidden, so that their coordinates change nothing.

    Bodies with equal numbers of tokens are encoded together; with different numbers the returned token is their mean.

    Raises:
        SkelbenchError: tokens are to be hidden from an encoder that has not learned to do without.
    """
    hidden_RN = hidden_tokens(view, patch, min_confidence)
    if hidden_RN is None:
        return encoder(view, **options)
    if not hiding:
        raise SkelbenchError(CANNOT)
    if hiding == "replace-tokens":
        return encoder(view, mask_RN=hidden_RN, **options)
    times, kept_R = view.x_RTJC.shape[1] // patch, (~hidden_RN).sum(1)
    parts = []
    for count in fetch(kept_R).unique().tolist():
        with waiting():
            rows_K = (kept_R == count).nonzero()[:, 0]
            keep_RK = (~hidden_RN[rows_K]).nonzero()[:, 1].view(len(rows_K), count)
        if hiding == "drop-lines":  # all patches of the joints that are left
            keep_RK = keep_RK.unflatten(1, (times, -1))
        parts.append((rows_K, encoder(_rows(view, rows_K), keep_RK=keep_RK, **options)))
    if len(parts) == 1:
        return parts[0][1]
    if any(encoded.per_clip for _, encoded in parts):
        raise SkelbenchError("this encoder reads bodies together and cannot leave out other tokens of each of them")
    order_R = torch.cat([rows_K for rows_K, _ in parts]).argsort()
    return _together([encoded for _, encoded in parts], order_R)


def can_hide_tokens(hiding: Hiding) -> bool:
    """Whether single tokens can be hidden, not only whole joints."""
    return hiding in ("replace-tokens", "drop-tokens")


def check_confidence(min_confidence: float, store: ClipStore, hiding: Hiding, run: str) -> None:
    """Raise SkelbenchError if tokens below ``min_confidence`` cannot be found or hidden."""
    if min_confidence and store.confidence_FJ is None:
        raise SkelbenchError(f"dataset {store.meta.name} has no confidence of its joints; leave out --min-confidence")
    if min_confidence and not can_hide_tokens(hiding):
        raise SkelbenchError(
            f"the encoder of {run} was trained with neither a mask token nor skipped single tokens, so joints of low "
            "confidence cannot be hidden from it; leave out --min-confidence"
        )


def _rows(view: View, rows_K: Tensor) -> View:
    """Some bodies of a view."""
    per_row = ("x_RTJC", "rows_R", "keys_R", "real_RT", "confidence_RTJ", "missing_RJ")
    fields = {name: getattr(view, name) for name in per_row}
    return replace(view, **{name: x[rows_K] for name, x in fields.items() if x is not None})


def _together(parts: list[Encoded], order_R: Tensor) -> Encoded:
    """Rows of all parts in ``order_R``, with the mean of their tokens."""

    def joined(pieces: list[Tensor]) -> Tensor:
        return torch.cat(pieces)[order_R]

    return Encoded(
        tokens_RND=joined([part.tokens_RND.mean(1, keepdim=True) for part in parts]),
        pooled_RD=joined([part.pooled_RD for part in parts]),
        cls_RD=None if parts[0].cls_RD is None else joined([x for part in parts if (x := part.cls_RD) is not None]),
        levels={name: joined([part.levels[name] for part in parts]) for name in parts[0].levels},
    )
