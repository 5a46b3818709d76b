"""Nearest-neighbour classification: the training clips are the gallery, the test clips the queries.

Shapes: Q queries of a chunk, G gallery clips, D width, C classes, k neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from skelbench.errors import SkelbenchError
from skelbench.evaluate.config import KnnConfig
from skelbench.evaluate.protocol import (
    Features,
    Progress,
    Protocol,
    ProtocolResult,
    accuracy_metrics,
    coverage_notes,
    prediction_arrays,
)

CHUNK = 1024
"""Queries compared with the whole gallery at a time: 64 MB of similarities for 16,000 gallery clips."""


class Knn(Protocol):
    """k-NN. Majority vote; a tie goes to the class whose voters are the most similar in sum, then the lower label."""

    Config = KnnConfig

    def evaluate(
        self, features: Features, config: KnnConfig, seed: int, device, progress: Progress | None = None
    ) -> ProtocolResult:
        """Classify every test clip; nothing is random, so ``seed`` has no effect."""
        if config.k > len(features.train_x):
            raise SkelbenchError(
                f"k = {config.k} neighbours were asked for but the gallery has {len(features.train_x)} clips; lower k"
            )
        gallery_GD = torch.from_numpy(features.train_x).to(device)
        labels_G = torch.from_numpy(features.train_y).to(device)
        notes = coverage_notes(features)
        if config.metric == "cosine":
            gallery_GD = F.normalize(gallery_GD, dim=1)
            empty = int((abs(features.train_x).sum(1) == 0).sum() + (abs(features.test_x).sum(1) == 0).sum())
            if empty:
                notes.append(f"{empty} clips have all-zero features, whose cosine with anything counts as 0")
        predicted = []
        for start in range(0, len(features.test_x), CHUNK):
            query_QD = torch.from_numpy(features.test_x[start : start + CHUNK]).to(device)
            similarity_QG = _similarity(query_QD, gallery_GD, config.metric)
            predicted.append(_vote(similarity_QG, labels_G, config.k, features.num_classes).cpu())
            if progress:
                progress(min(start + CHUNK, len(features.test_x)), len(features.test_x))
        predicted = torch.cat(predicted).numpy()
        return ProtocolResult(
            accuracy_metrics(features, predicted), prediction_arrays(features, predicted), notes=notes
        )


def _similarity(query_QD: Tensor, gallery_GD: Tensor, metric: str) -> Tensor:
    """Larger is nearer: cosine (the gallery is normalised already), or minus the Euclidean distance."""
    if metric == "cosine":
        return F.normalize(query_QD, dim=1) @ gallery_GD.T
    # The difference form: |a|^2 + |b|^2 - 2ab cancels where neighbours matter, at small distances.
    return -torch.cdist(query_QD, gallery_GD, compute_mode="donot_use_mm_for_euclid_dist")


def _vote(similarity_QG: Tensor, labels_G: Tensor, k: int, num_classes: int) -> Tensor:
    """Predicted class [Q]."""
    if k == 1:
        return labels_G[similarity_QG.argmax(1)]  # equal similarities: the first in the gallery
    near_Qk, index_Qk = similarity_QG.topk(k, dim=1)
    classes_Qk = labels_G[index_Qk]
    votes_QC = near_Qk.new_zeros(len(near_Qk), num_classes).scatter_add_(1, classes_Qk, torch.ones_like(near_Qk))
    sums_QC = near_Qk.new_zeros(len(near_Qk), num_classes).scatter_add_(1, classes_Qk, near_Qk)
    leaders_QC = votes_QC == votes_QC.amax(1, keepdim=True)
    return sums_QC.masked_fill(~leaders_QC, -torch.inf).argmax(1)
