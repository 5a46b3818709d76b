"""What every encoder returns and accepts. The ViT that the masked methods share is in :mod:`skelbench.nn.vit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor, nn

from skelbench.skeleton.grid import Grid
from skelbench.skeleton.topology import Topology
from skelbench.views.view import View


@dataclass(frozen=True)
class Encoded:
    """Output of an encoder: one entry per present body (R rows), or per clip if ``per_clip``."""

    tokens_RND: Tensor
    """Token features after the final norm: all N, or the K visible ones when tokens were dropped."""
    pooled_RD: Tensor
    """The readout used downstream (may be wider than D, e.g. class token and mean token side by side)."""
    cls_RD: Tensor | None = None
    per_clip: bool = False
    levels: Mapping[str, Tensor] = field(default_factory=dict)
    """Further readouts by name, rows as in ``pooled_RD``; an evaluation chooses one by its ``readout``."""


class Encoder(nn.Module):
    """Base class of encoder plugins: ``__init__(config, topology, grid)``."""

    width: int
    """D of tokens."""
    features: int
    """Width of ``pooled_RD``."""

    def __init__(self, config, topology: Topology, grid: Grid) -> None:
        super().__init__()
        self.config, self.topology, self.grid = config, topology, grid

    def forward(self, view: View, mask_RN: Tensor | None = None, keep_RK: Tensor | None = None) -> Encoded:
        """Encode the present bodies of ``view``.

        ``mask_RN`` (bool [R, N]) replaces hidden tokens by the mask token; ``keep_RK`` (int64 [R, K], ascending)
        drops all other tokens. At most one of the two. Views shorter than the grid's T are fine: N follows the view.
        """
        raise NotImplementedError

    def closed_form_macs(self, grid: Grid, visible: int | None = None) -> dict[str, int]:
        """Multiply-accumulates of matrix products for one body, by part ("embed", "attention", "mlp", ...).

        ``visible``: encode only that many tokens (the patch embedding still sees all N). Empty = no closed form.
        """
        return {}
