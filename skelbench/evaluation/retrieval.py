"""Retrieval: the training clips ranked by their similarity to each test clip.

Shapes: Q queries of a chunk, G gallery clips, H gallery clips of the query's class (hits).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, get_args

import numpy as np
import torch
from torch import Tensor

from skelbench.core.spec import Stream
from skelbench.evaluation.knn import Neighbors, similarities, vote
from skelbench.evaluation.protocol import Features, Progress
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.records.measures import Measure
from skelbench.views.transfer import fetch, send

NEAREST = (1, 5, 10)
"""Neighbors among which recall looks for a hit."""
_LABELS = {"map": "mAP"} | {f"recall_at_{k}": f"recall@{k}" for k in NEAREST}
_MEASURES = {name: Measure(label, share=True) for name, label in _LABELS.items()}
_MEASURES |= {f"{m}_{s}": Measure(f"{s} {label}", share=True) for m, label in _LABELS.items() for s in get_args(Stream)}


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    summary = "1-NN accuracy, mean average precision, recall at 1, 5 and 10; queries are test clips"
    return [ProtocolSpec(name="retrieval", target=":Retrieval", summary=summary)]


class Retrieval(Neighbors):
    """Training clips ranked by cosine similarity to each test clip; clips of its class are hits.

    Metrics: ``accuracy``, as ``knn`` (SLiM paper, appendix A); ``map``, mean average precision of the whole ranking (0
    for a clip whose class is not in the gallery); ``recall_at_1``, ``_5``, ``_10``: fraction of test clips with a hit
    among the first 1, 5, 10. Ties: average precision takes equally similar clips at once, as scikit-learn's
    ``average_precision_score``; the nearest are in the order of the gallery, as in ``knn``.
    """

    measures: ClassVar[Mapping[str, Measure]] = _MEASURES

    def measure(
        self, sets: Sequence[Features], weights: Sequence[float], device: torch.device | str, progress: Progress | None
    ) -> tuple[np.ndarray, dict[str, float]]:
        """Class of the nearest clip, int64 [n_test], and the metrics of the ranking."""
        first = sets[0]
        labels_G, labels_n = (torch.from_numpy(y) for y in (first.train_y, first.test_y))
        hits = [send((labels_G == label).nonzero().flatten(), device) for label in range(first.num_classes)]
        labels_G = send(labels_G, device)
        nearest, ahead, precision = list[Tensor](), list[Tensor](), list[Tensor]()
        position = 0
        for similarity_QG in similarities(sets, weights, device, progress):
            labels_Q = labels_n[position : position + len(similarity_QG)]
            position += len(labels_Q)
            nearest.append(fetch(vote(similarity_QG, labels_G, 1, first.num_classes)))
            ranked = [ranking(each_G, hits[label]) for each_G, label in zip(similarity_QG, labels_Q.tolist())]
            for answers, of_queries in zip((ahead, precision), zip(*ranked)):
                answers.append(fetch(torch.stack(of_queries)))
        ahead_n = torch.cat(ahead)
        has_hits_n = torch.from_numpy(np.isin(first.test_y, first.train_y))
        figures = {"map": float(torch.cat(precision).mean())}
        figures |= {f"recall_at_{k}": float(((ahead_n < k) & has_hits_n).double().mean()) for k in NEAREST}
        return torch.cat(nearest).numpy(), figures


def ranking(similarity_G: Tensor, hits_H: Tensor) -> tuple[Tensor, Tensor]:
    """Clips ahead of the first hit (int64; G if there is no hit) and average precision (float64) of one query.

    ``hits_H``: places of the clips of the query's class in the gallery, ascending. Average precision: mean over the
    hits of the fraction of hits among all clips that are at least as similar; 0 if there is no hit.
    """
    gallery = len(similarity_G)
    if not len(hits_H):
        return hits_H.new_full((), gallery), similarity_G.new_zeros((), dtype=torch.float64)
    of_hits_H = similarity_G[hits_H]
    first = of_hits_H.argmax()
    places_G = torch.arange(gallery, device=similarity_G.device)
    ties_G = (similarity_G == of_hits_H[first]) & (places_G < hits_H[first])
    ahead = ((similarity_G > of_hits_H[first]) | ties_G).sum()
    on_cpu = similarity_G.device.type == "cpu"  # where numpy sorts faster
    ascending_G = torch.from_numpy(np.sort(similarity_G.numpy())) if on_cpu else similarity_G.sort().values
    of_hits_H = of_hits_H.sort().values
    return ahead, (_at_least(of_hits_H, of_hits_H) / _at_least(ascending_G, of_hits_H)).mean()


def _at_least(ascending_G: Tensor, values_H: Tensor) -> Tensor:
    """Return how many numbers are at least as large as each value, float64 [H]."""
    return (len(ascending_G) - torch.searchsorted(ascending_G, values_H)).double()
