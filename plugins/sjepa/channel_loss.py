"""Cross-entropy between features whose channels are treated as classes (S-JEPA): no head, no prototypes, no logits."""

from __future__ import annotations

import torch
from torch import Tensor


def channel_cross_entropy(
    predicted: Tensor, target: Tensor, center_D: Tensor, *, target_temp: float, predicted_temp: float
) -> Tensor:
    """Cross-entropy of each feature: -sum_c softmax((target - center) / tau_t)_c log softmax(predicted / tau_p)_c.

    ``target`` and ``center_D`` are constants. Computed in at least float32. Source: S-JEPA (ECCV 2024), its loss.
    """
    dtype = torch.promote_types(predicted.dtype, torch.float32)
    with torch.no_grad():
        share = ((target.to(dtype) - center_D.to(dtype)) / target_temp).softmax(-1)
    return -(share * (predicted.to(dtype) / predicted_temp).log_softmax(-1)).sum(-1)
