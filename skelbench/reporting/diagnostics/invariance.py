"""What becomes of a clip's feature when its bodies are turned about the vertical axis or made smaller and larger.

n clips, D feature width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """Features of changed clips against those of the same clips as they are, both without the mean of the latter.

    ``similarity``: mean cosine of a clip's two features; ``others``: of a changed clip's and another clip's original,
    what chance gives; ``retrieved``: share of the changed clips whose nearest original (cosine) is their own.
    """
    original = torch.from_numpy(original_nD).double()
    mean_D = original.mean(0)
    changed, original = (
        torch.nn.functional.normalize(x - mean_D, dim=1) for x in (torch.from_numpy(changed_nD).double(), original)
    )
    cosine_nn = changed @ original.T
    own_n, n = cosine_nn.diagonal(), len(original)
    # Its own must be nearer than any other one: of features that are all the same none is found.
    rest_n = cosine_nn.masked_fill(torch.eye(n, dtype=torch.bool), -torch.inf).amax(1)
    return {
        "similarity": float(own_n.mean()),
        "others": float((cosine_nn.sum() - own_n.sum()) / (n * (n - 1))),
        "retrieved": float((own_n > rest_n).double().mean()),
    }


def yaws(step: int = YAW_STEP) -> list[int]:
    """0 to 360 degrees, both included."""
    return [*range(0, 360, step), 360]


def curves(
    original_nD: np.ndarray,
    turn: Callable[[int], np.ndarray],
    resize: Callable[[float], np.ndarray],
    sizes: Sequence[float] = SIZES,
    flat: bool = False,
) -> dict[str, list[dict[str, float]]]:
    """``yaw`` and ``size``: :func:`agreement` at every value, with the ``value``.

    ``turn(degrees)`` and ``resize(factor)`` give the features [n, D] of changed clips. ``flat``: poses of the image
    plane, which have no yaw.
    """

    def point(value: float, changed_nD: np.ndarray) -> dict[str, float]:
        return {"value": value, **agreement(changed_nD, original_nD)}

    found = {"size": [point(s, original_nD if s == 1.0 else resize(s)) for s in sizes]}
    if flat:
        return found
    turns = [point(d, original_nD if d == 0 else turn(d)) for d in yaws()[:-1]]
    return {"yaw": [*turns, {**turns[0], "value": 360}], **found}


def of_run(subject: Frozen, ids: np.ndarray, progress: Callable[..., Any]) -> dict[str, Any]:
    """The record of a run's curves on the clips ``ids``."""
    flat = subject.clips.store.meta.dimensions == 2
    passes = len(SIZES) + (0 if flat else len(yaws()) - 2)
    with progress(total=passes * len(ids), label=f"{subject.label} features", unit="clips") as report:
        found = curves(
            subject.features(ids, report=report),
            lambda degrees: subject.features(ids, change=turned(degrees), report=report),
            lambda size: subject.features(ids, augment=(BoneScale(p=1.0, lo=size, hi=size),), report=report),
            flat=flat,
        )
    return {"clips": len(ids), "curves": found}
