"""Retrieval: the training clips ranked by their similarity to each test clip.

Shapes: Q queries of a chunk, G gallery clips, R queries of one class, H gallery clips of that class (hits).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, get_args

import numpy as np
import torch
from torch import Tensor

from skelbench.core.spec import Stream
from skelbench.evaluation.knn import Neighbours, of_all, own_queries, similarities, vote
from skelbench.evaluation.protocol import Features, Progress
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.records.measures import Measure
from skelbench.views.transfer import fetch, send

NEAREST = (1, 5, 10)
"""Neighbours among which recall looks for a hit."""
ROWS = 64
"""Queries whose whole rankings are counted at a time: torch sums truth values as 8 bytes each."""
_LABELS = {"map": "mAP"} | {f"recall_at_{k}": f"recall@{k}" for k in NEAREST}
_MEASURES = {name: Measure(label, share=True) for name, label in _LABELS.items()}
_MEASURES |= {f"{m}_{s}": Measure(f"{s} {label}", share=True) for m, label in _LABELS.items() for s in get_args(Stream)}


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    summary = (
        "1-NN accuracy as `knn`, mean average precision, recall at 1, 5 and 10; test clips ask, training clips answer"
    )
    return [ProtocolSpec(name="retrieval", target=":Retrieval", summary=summary)]


class Retrieval(Neighbours):
    """Training clips ranked by cosine similarity to each test clip; those of its class are hits.

    Metrics: ``accuracy``, that of the nearest clip, equal to ``knn``'s (SLiM paper, appendix A: l2-normalised features,
    cosine, k = 1); ``map``, the mean over test clips of the average precision of the whole ranking (0 for a clip whose
    class is not in the gallery); ``recall_at_1``, ``_5``, ``_10``: the share of test clips with a hit among so many. Of
    several feature sets similarities are summed, and ``map_NAME`` and so on are those of each alone.

    Ties: average precision lets in clips that are equally similar all at once, as scikit-learn's
    ``average_precision_score`` does; among the nearest they stand in the order of the gallery, as in ``knn``.
    """

    measures: ClassVar[Mapping[str, Measure]] = _MEASURES
    logits: ClassVar[str] = "a ranking has no logits"

    def measure(
        self, sets: Sequence[Features], weights: Sequence[float], device: torch.device | str, progress: Progress | None
    ) -> tuple[np.ndarray, dict[str, float]]:
        """Class of the nearest clip, int64 [n_test], and the figures of the ranking."""
        first = sets[0]
        labels_G, labels_n = (torch.from_numpy(y) for y in (first.train_y, first.test_y))
        hits = [send((labels_G == label).nonzero().flatten(), device) for label in range(first.num_classes)]
        labels_G = send(labels_G, device)
        nearest, ahead, precision = [], [], []
        done = own_queries(sets).start
        for similarity_QG in similarities(sets, weights, device, progress):
            labels_Q = labels_n[done : done + len(similarity_QG)]
            done += len(labels_Q)
            nearest.append(fetch(vote(similarity_QG, labels_G, 1, first.num_classes)))
            ahead.append(fetch(before_first_hit(similarity_QG, labels_Q, hits)))
            precision.append(fetch(average_precision_(similarity_QG, labels_Q, hits)))
            del similarity_QG
        ahead_n = of_all(ahead, sets)
        has_hits_n = torch.from_numpy(np.isin(first.test_y, first.train_y))
        figures = {"map": float(of_all(precision, sets).mean())}
        figures |= {f"recall_at_{k}": float(((ahead_n < k) & has_hits_n).double().mean()) for k in NEAREST}
        return of_all(nearest, sets).numpy(), figures


def before_first_hit(similarity_QG: Tensor, labels_Q: Tensor, hits: Sequence[Tensor]) -> Tensor:
    """int64 [Q]: clips ahead of the first hit, those that are as similar but earlier in the gallery among them; G where
    there is no hit. ``labels_Q`` on the host; ``hits``: of each class the places of its clips in the gallery,
    ascending."""
    gallery = similarity_QG.shape[1]
    best_Q = similarity_QG.new_full((len(labels_Q),), -torch.inf)
    at_Q = similarity_QG.new_full((len(labels_Q),), gallery, dtype=torch.int64)
    for rows_R, hits_H in _by_class(labels_Q, hits):
        of_hits_RH = similarity_QG[rows_R[:, None], hits_H]
        first_R = of_hits_RH.argmax(1)
        best_Q[rows_R], at_Q[rows_R] = of_hits_RH.gather(1, first_R[:, None]).flatten(), hits_H[first_R]
    places_G = torch.arange(gallery, device=at_Q.device)
    ahead = []
    for part_RG, best_R, at_R in zip(similarity_QG.split(ROWS), best_Q.split(ROWS), at_Q.split(ROWS)):
        earlier_RG = (part_RG == best_R[:, None]) & (places_G < at_R[:, None])
        ahead.append(((part_RG > best_R[:, None]) | earlier_RG).sum(1))
    return torch.cat(ahead)


def average_precision_(similarity_QG: Tensor, labels_Q: Tensor, hits: Sequence[Tensor]) -> Tensor:
    """float64 [Q]: mean over the hits of the share of hits among all clips that are at least as similar; 0 where there
    is no hit. ``similarity_QG`` is left in disorder."""
    found = [(rows_R, similarity_QG[rows_R[:, None], hits_H]) for rows_R, hits_H in _by_class(labels_Q, hits)]
    if similarity_QG.device.type == "cpu":
        similarity_QG.numpy().sort(axis=1)  # in place and without indices: a third of torch's memory, and faster
    else:
        similarity_QG = similarity_QG.sort(1).values
    precision_Q = similarity_QG.new_zeros(len(labels_Q), dtype=torch.float64)
    for rows_R, of_hits_RH in found:
        of_hits_RH = of_hits_RH.sort(1).values
        precision_RH = _at_least(of_hits_RH, of_hits_RH) / _at_least(similarity_QG[rows_R], of_hits_RH)
        precision_Q[rows_R] = precision_RH.mean(1)
    return precision_Q


def _by_class(labels_Q: Tensor, hits: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Queries of each class that has hits, ROWS at a time, and those."""
    return [
        (send(rows_R, hits[label].device), hits[label])
        for label in map(int, labels_Q.unique())
        for rows_R in (labels_Q == label).nonzero().flatten().split(ROWS)
        if len(hits[label])
    ]


def _at_least(ascending_RG: Tensor, values_RH: Tensor) -> Tensor:
    """float64 [R, H]: how many of a row are not below each value."""
    return (ascending_RG.shape[1] - torch.searchsorted(ascending_RG, values_RH)).double()
