"""The contract of a masked-prediction target, and the data it may read.

A target owns all that it alone needs (a projection head and its EMA copy, a predictor, a decoder); the method owns the
encoder, its teacher and the masks. So only target, loss and target-specific modules differ between two targets, and
none of them reaches the encoder that is probed (paper, section "Controlled Analysis of Masked-Prediction Targets").

Shapes: R rows (bodies of both global views), N tokens, I masked tokens of all rows, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from skelbench.core.component import Spec
from skelbench.methods.contract import Context, Step
from skelbench.plugin.plugin_errors import lacking
from skelbench.views import View


@dataclass(frozen=True)
class Hidden:
    """Inputs of a target in one step. Nothing here waits for the device.

    >>> view = View.of(
    ...     torch.zeros(1, 2, 16, 25, 3),
    ...     mask_RN=torch.arange(50).repeat(2, 1) < 2,
    ...     masked_I=torch.tensor([0, 1, 50, 51]),
    ... )
    >>> hidden = Hidden(view, torch.zeros(2, 50, 8), torch.zeros(2, 50, 8), temp=0.07, step=None)
    >>> hidden.student_ID.shape, hidden.share_I
    (torch.Size([4, 8]), tensor([0.5000, 0.5000, 0.5000, 0.5000]))
    """

    view: View
    """The masked view: coordinates, ``mask_RN``, ``masked_I``."""
    student_RND: Tensor
    """The student's tokens of the view, computed with mask tokens in place of the masked ones."""
    teacher_RND: Tensor
    """The teacher's tokens of the whole view; no gradient."""
    temp: float
    """The teacher's temperature in this step."""
    step: Step

    @cached_property
    def student_ID(self) -> Tensor:
        """The student's features at the masked tokens."""
        return self.student_RND.flatten(0, 1)[self.view.masked_I]

    @cached_property
    def teacher_ID(self) -> Tensor:
        """The teacher's features at the masked tokens."""
        return self.teacher_RND.flatten(0, 1)[self.view.masked_I]

    @cached_property
    def share_I(self) -> Tensor:
        """Weight of each masked token. Weights of a row sum to 1, so every masked view has the same weight; a view
        without masks adds nothing (iBOT)."""
        masked_I, tokens = self.view.masked_I, self.student_RND.shape[1]
        assert masked_I is not None, "this view was declared without a mask"
        assert self.view.mask_RN is not None, "this view was declared without a mask"
        share_R = 1 / self.view.mask_RN.sum(1).clamp(min=1)
        return share_R[torch.div(masked_I, tokens, rounding_mode="floor")]


class MaskedTarget(nn.Module):
    """Base class of targets. A subclass implements :meth:`forward`, and :meth:`after_step` if something of it moves.

    ``config``: the method's settings (heads, prototypes, decoder); ``settings``: the target's own, ``Config``
    made from ``target_settings``. EMA copies take no gradient and are excluded from the optimizer.

    >>> class Squared(MaskedTarget):
    ...     def forward(self, hidden):
    ...         error_ID = (hidden.student_ID - hidden.teacher_ID).square()
    ...         return (error_ID.mean(1) * hidden.share_I).sum()
    """

    Config: type[Spec] = Spec
    """The target's own settings."""
    roles: Mapping[str, str] = {}
    """Attribute name -> role ("head", "decoder", "teacher"), as in :class:`skelbench.methods.contract.Method`."""

    @property
    def whole_batch(self) -> str:
        """Reason why it needs all clips of a step at once, as in :class:`skelbench.methods.contract.Method`; "" = it
        does not."""
        return "its target does not allow micro-batches (whole_batch)"

    def __init__(self, config: Any, context: Context, settings: Spec) -> None:
        super().__init__()
        self.config, self.context, self.settings = config, context, settings

    def forward(self, hidden: Hidden) -> Tensor:
        """Sum over masked tokens of ``hidden.share_I`` times the token's loss: a scalar, also if none is masked.

        Every rank calls it equally often. ``hidden.step.watch("masked", x_ID)`` has the branch's outputs watched.
        """
        raise lacking(self, "forward(self, hidden)")

    def after_step(self, step: Step, momentum: float) -> None:
        """After the optimizer step: move EMA copies by ``momentum``, and centers. Default: nothing."""
