"""Raw joint coordinates, by squared error, through a decoder (paper, table of target controls)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from skelbench.core.component import Spec
from skelbench.methods import Context, Hidden, MaskedTarget
from skelbench.models.decoder import MaskedDecoder
from skelbench.models.tokenizer import patchify


class CoordinateTarget(MaskedTarget):
    """Coordinates of masked tokens from a decoder over the full grid of the student's tokens; mean squared error.

    The encoder's output at mask tokens is decoded. Coordinates come from the view that the student sees,
    in meters, not standardized ("raw"). ``config`` has ``decoder_dim``, ``decoder_depth`` and ``decoder_heads``.
    """

    roles = {"decoder": "decoder"}
    whole_batch = ""

    def __init__(self, config: Any, context: Context, settings: Spec) -> None:
        super().__init__(config, context, settings)
        self.decoder = MaskedDecoder(
            context.width,
            config.decoder_dim,
            config.decoder_depth,
            config.decoder_heads,
            grid=context.grid,
            out_dim=context.grid.patch * 3,
        )

    def forward(self, hidden: Hidden) -> Tensor:
        view, tokens_RND = hidden.view, hidden.student_RND
        every_RN = torch.arange(tokens_RND.shape[1], device=tokens_RND.device).expand(tokens_RND.shape[:2])
        decoded_RNL = self.decoder(tokens_RND, every_RN)
        coordinates_RNL = patchify(view.x_RTJC, self.context.grid.patch)
        predicted_IL = decoded_RNL.flatten(0, 1)[view.masked_I].to(coordinates_RNL.dtype)
        hidden.step.watch("masked", predicted_IL)
        error_I = (predicted_IL - coordinates_RNL.flatten(0, 1)[view.masked_I]).square().mean(-1)
        return (error_I * hidden.share_I).sum()
