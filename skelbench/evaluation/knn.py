"""Nearest-neighbor classification: the training clips are the gallery, the test clips the queries.

Shapes: Q queries of a chunk, G gallery clips, D width, C classes, k neighbors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.protocol import (
    Features,
    Progress,
    Protocol,
    ProtocolResult,
    classified,
    coverage_notes,
    share,
)
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.plugin.plugin_errors import lacking
from skelbench.views.transfer import fetch, send

CHUNK = 1024
"""Number of queries that are compared with the whole gallery at a time."""
CHUNK_BYTES = 2**28
"""Largest array of similarities, in bytes: galleries above 65,536 clips get fewer queries than ``CHUNK``."""


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(name="knn", target=":Knn", summary="nearest training clip by cosine similarity, k = 1"),
        ProtocolSpec(name="knn@5", target=":Knn5", summary="majority of the 5 nearest training clips"),
        ProtocolSpec(name="knn@20", target=":Knn20", summary="majority of the 20 nearest training clips"),
    ]


class Neighbors(Protocol):
    """Base of protocols on similarities of test clips to training clips, summed over feature sets; ``seed`` has no
    effect."""

    unit: ClassVar[str] = "queries"

    def evaluate(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Measure one feature set."""
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
        """Measure the weighted sum of similarities in all ``sets``, and those in each."""
        if summed == "logits":
            raise SkelbenchError("a ranking has no logits; use --fusion scores, which sums similarities")
        features = next(iter(sets.values()))
        single_sets: list[Summed] = [(name, [part], (1.0,)) for name, part in sets.items()] if len(sets) > 1 else []
        ranked: list[Summed] = [("", list(sets.values()), weights), *single_sets]
        metrics: dict[str, float] = {}
        predictions: dict[str, np.ndarray] = {}
        for i, (name, parts, weighs) in enumerate(ranked):
            predicted, figures = self.measure(parts, weighs, device, share(progress, i, len(ranked)))
            if not name:
                metrics, predictions = classified(features, predicted)
                metrics |= figures
            else:
                metrics[f"accuracy_{name}"] = float((predicted == features.test_y).mean())
                metrics |= {f"{figure}_{name}": value for figure, value in figures.items()}
        return ProtocolResult(metrics, predictions, notes=[*coverage_notes(features), *self.notes(sets)])

    def measure(
        self, sets: Sequence[Features], weights: Sequence[float], device: torch.device | str, progress: Progress | None
    ) -> tuple[np.ndarray, dict[str, float]]:
        """Predicted class of every test clip, int64 [n_test], and further metrics."""
        raise lacking(self, "measure(self, sets, weights, device, progress)")

    def notes(self, sets: Mapping[str, Features]) -> list[str]:
        """Note on clips whose features are all zero."""
        empty = sum(int((x_nD == 0).all(1).sum()) for part in sets.values() for x_nD in (part.train_x, part.test_x))
        return [f"{empty} clips have all-zero features, whose cosine with anything counts as 0"] if empty else []


class Knn(Neighbors):
    """Nearest neighbors among the training clips (the paper's retrieval protocol: k = 1, cosine).

    Majority vote; a tie goes to the class whose voters are the most similar in sum, then the lower label.
    """

    k: int = Field(1, ge=1, description="Number of nearest training clips that vote.")
    metric: Literal["cosine", "euclidean"] = Field("cosine", description="Similarity, or distance, of features.")

    def check(self, train: int, test: int, classes: int) -> None:
        """Reject more neighbors than training clips, too."""
        super().check(train, test, classes)
        if self.k > train:
            raise SkelbenchError(f"k = {self.k} neighbors were requested but the gallery has {train} clips; lower k")

    def measure(
        self, sets: Sequence[Features], weights: Sequence[float], device: torch.device | str, progress: Progress | None
    ) -> tuple[np.ndarray, dict[str, float]]:
        """Classify every test clip by the majority of its neighbors."""
        self.check(len(sets[0].train_x), len(sets[0].test_x), sets[0].num_classes)
        labels_G = send(torch.from_numpy(sets[0].train_y), device)
        predicted = []
        for similarity_QG in similarities(sets, weights, device, progress, self.metric):
            predicted.append(fetch(vote(similarity_QG, labels_G, self.k, sets[0].num_classes)))
        return torch.cat(predicted).numpy(), {}

    def notes(self, sets: Mapping[str, Features]) -> list[str]:
        """No notes for Euclidean distance."""
        return super().notes(sets) if self.metric == "cosine" else []


class Knn5(Knn):
    """``knn@5``: the majority of 5."""

    k: int = Field(5, ge=1)


class Knn20(Knn):
    """``knn@20``: the majority of 20."""

    k: int = Field(20, ge=1)


Summed = tuple[str, Sequence[Features], Sequence[float]]
"""A name, and feature sets whose similarities are summed, each times its weight."""


def similarities(
    sets: Sequence[Features],
    weights: Iterable[float],
    device: torch.device | str,
    progress: Progress | None = None,
    metric: Literal["cosine", "euclidean"] = "cosine",
) -> Iterator[Tensor]:
    """[Q, G] for each chunk of the test clips: the weighted sum over ``sets``, larger is nearer."""
    queries, chunk = len(sets[0].test_x), max(1, min(CHUNK, CHUNK_BYTES // (4 * len(sets[0].train_x))))
    galleries = [send(torch.from_numpy(part.train_x), device) for part in sets]
    if metric == "cosine":
        galleries = [F.normalize(gallery_GD, dim=1) for gallery_GD in galleries]
    for start in range(0, queries, chunk):
        terms = []
        for weight, part, gallery_GD in zip(weights, sets, galleries):
            query_QD = send(torch.from_numpy(part.test_x[start : start + chunk]), device)
            if metric == "cosine":
                terms.append(weight * (F.normalize(query_QD, dim=1) @ gallery_GD.T))
            else:  # the difference form: |a|^2 + |b|^2 - 2ab cancels at small distances, where neighbors matter
                distance_QG = torch.cdist(query_QD, gallery_GD, compute_mode="donot_use_mm_for_euclid_dist")
                terms.append(-weight * distance_QG)
        yield sum(terms[1:], terms[0])
        if progress:
            progress(min(start + chunk, queries), queries)


def vote(similarity_QG: Tensor, labels_G: Tensor, k: int, num_classes: int) -> Tensor:
    """Predicted class [Q]."""
    if k == 1:
        return labels_G[similarity_QG.argmax(1)]  # equal similarities: the first in the gallery
    near_Qk, index_Qk = similarity_QG.topk(k, dim=1)
    classes_Qk = labels_G[index_Qk]
    votes_QC = near_Qk.new_zeros(len(near_Qk), num_classes).scatter_add_(1, classes_Qk, torch.ones_like(near_Qk))
    sums_QC = near_Qk.new_zeros(len(near_Qk), num_classes).scatter_add_(1, classes_Qk, near_Qk)
    leaders_QC = votes_QC == votes_QC.amax(1, keepdim=True)
    return sums_QC.masked_fill(~leaders_QC, -torch.inf).argmax(1)
