"""Changes of a clip's feature when its bodies are turned about the vertical axis or made smaller and larger.

n clips, D feature width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from skelbench.reporting.diagnostics.frozen import Frozen, turned
from skelbench.views.augmentations import BoneScale

YAW_STEP = 30
"""Degrees between the points of the curve over yaw."""
SIZES = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
"""Factors of all bone lengths."""


def agreement(changed_nD: np.ndarray, original_nD: np.ndarray) -> dict[str, float]:
    """Similarity of features of changed and unchanged clips, both minus the mean of the unchanged clips.

    ``similarity``: mean cosine of a clip's two features; ``others``: the same between a changed clip and the original
    of another clip (chance level); ``retrieved``: fraction of the changed clips whose nearest original (cosine) is
    their own.
    """
    original = torch.from_numpy(original_nD).double()
    mean_D = original.mean(0)
    changed, original = (
        torch.nn.functional.normalize(x - mean_D, dim=1) for x in (torch.from_numpy(changed_nD).double(), original)
    )
    cosine_nn = changed @ original.T
    own_n, n = cosine_nn.diagonal(), len(original)
    # Strictly nearer than all others: if all features are equal, no clip is retrieved.
    rest_n = cosine_nn.masked_fill(torch.eye(n, dtype=torch.bool), -torch.inf).amax(1)
    return {
        "similarity": float(own_n.mean()),
        "others": float((cosine_nn.sum() - own_n.sum()) / (n * (n - 1))),
        "retrieved": float((own_n > rest_n).double().mean()),
    }


def of_run(subject: Frozen, ids: np.ndarray, progress: Callable[..., Any]) -> dict[str, Any]:
    """Return the record of a run: :func:`agreement` on the clips ``ids`` at every ``value`` of ``size`` and ``yaw``.

    Poses of the image plane have no yaw.
    """
    yaws = [] if subject.clips.store.meta.dimensions == 2 else [*range(0, 360, YAW_STEP)]
    passes = len(SIZES) + max(0, len(yaws) - 1)
    with progress(total=passes * len(ids), label=f"{subject.label} features", unit="clips") as report:
        original_nD = subject.features(ids, report=report)

        def point(value: float, **changed: Any) -> dict[str, float]:
            changed_nD = subject.features(ids, report=report, **changed) if changed else original_nD
            return {"value": value, **agreement(changed_nD, original_nD)}

        sizes = [
            point(size, augment=(BoneScale(p=1.0, lo=size, hi=size),)) if size != 1.0 else point(size) for size in SIZES
        ]
        turns = [point(yaw, change=turned(yaw)) if yaw else point(yaw) for yaw in yaws]
    around = {"yaw": [*turns, {**turns[0], "value": 360}]} if turns else {}
    return {"clips": len(ids), "curves": {**around, "size": sizes}}
