"""Nearest-neighbour classification: the training clips are the gallery, the test clips the queries.

Shapes: Q queries of a chunk, G gallery clips, D width, C classes, k neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from skelbench.errors import SkelbenchError
from skelbench.evaluate.protocol import (
    Features,
    Progress,
    Protocol,
    ProtocolResult,
    accuracy_metrics,
    coverage_notes,
    prediction_arrays,
)
from skelbench.plugin import ProtocolSpec, hookimpl

CHUNK = 1024
"""Queries compared with the whole gallery at a time: 64 MB of similarities for 16,000 gallery clips."""


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [ProtocolSpec(name="knn", target=":Knn", summary="nearest training clip by cosine similarity, k = 1")]


class Knn(Protocol):
    """Nearest neighbours among the training clips (the paper's retrieval protocol: k = 1, cosine).

    Majority vote; a tie goes to the class whose voters are the most similar in sum, then the lower label. Of several
    feature sets the similarities of two clips are summed.
    """

    k: int = Field(1, ge=1)
    metric: Literal["cosine", "euclidean"] = "cosine"

    def evaluate(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Classify every test clip; nothing is random, so ``seed`` has no effect."""
        return self.fuse({"all": features}, seed, device, progress, (1.0,), "scores")

    def fuse(
        self,
        sets: Mapping[str, Features],
        seed: int,
        device: torch.device | str,
        progress: Progress | None,
        weights: Sequence[float],
        summed: Literal["scores", "logits"],
    ) -> ProtocolResult:
        """Classify every test clip by the weighted sum of its similarities in all ``sets``, and by those in each."""
        if summed == "logits":
            raise SkelbenchError("nearest neighbours have no logits; use --fusion scores, which sums similarities")
        features = next(iter(sets.values()))
        if self.k > len(features.train_x):
            raise SkelbenchError(
                f"k = {self.k} neighbours were asked for but the gallery has {len(features.train_x)} clips; lower k"
            )
        notes = coverage_notes(features)
        empty = sum(int((x_nD == 0).all(1).sum()) for part in sets.values() for x_nD in (part.train_x, part.test_x))
        if empty and self.metric == "cosine":
            notes.append(f"{empty} clips have all-zero features, whose cosine with anything counts as 0")
        predicted = self._predict(list(sets.values()), weights, device, progress)
        metrics = accuracy_metrics(features, predicted)
        if len(sets) > 1:
            alone = {name: self._predict([part], (1.0,), device) for name, part in sets.items()}
            metrics |= {f"accuracy_{name}": float(np.mean(one == features.test_y)) for name, one in alone.items()}
        return ProtocolResult(metrics, prediction_arrays(features, predicted), notes=notes)

    def _predict(
        self,
        sets: list[Features],
        weights: Sequence[float],
        device: torch.device | str,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """Predicted class of every test clip, int64 [n_test]."""
        first = sets[0]
        labels_G = torch.from_numpy(first.train_y).to(device)
        galleries = [torch.from_numpy(part.train_x).to(device) for part in sets]
        if self.metric == "cosine":
            galleries = [F.normalize(gallery_GD, dim=1) for gallery_GD in galleries]
        predicted: list[Tensor] = []
        for start in range(0, len(first.test_x), CHUNK):
            queries = [torch.from_numpy(part.test_x[start : start + CHUNK]).to(device) for part in sets]
            parts = zip(weights, queries, galleries)
            similarities = (weight * _similarity(query, gallery, self.metric) for weight, query, gallery in parts)
            similarity_QG = next(similarities)
            for term_QG in similarities:
                similarity_QG += term_QG
            predicted.append(_vote(similarity_QG, labels_G, self.k, first.num_classes).cpu())
            if progress:
                progress(min(start + CHUNK, len(first.test_x)), len(first.test_x))
        return torch.cat(predicted).numpy()


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
