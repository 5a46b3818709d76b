"""Lists of training clips that keep their labels in semi-supervised learning.

A list follows from the dataset's fingerprint, the split and its number alone, and every record names its hash.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.hashing import derive_seed
from skelbench.data.store.clip_store import ClipStore
from skelbench.views.keyed import Keyed

DRAWS = 5
"""Number of published lists of a split."""


@dataclass(frozen=True)
class LabelSubset:
    """The clips of one list."""

    draw: int
    """Number of the list, from 0."""
    ids: np.ndarray
    """int64, ascending: clip ids in the store."""
    names: tuple[str, ...]
    """Names of the clips; their ids if the dataset has no names."""

    @property
    def text(self) -> str:
        """The published list, a clip on each line."""
        return "".join(f"{name}\n" for name in self.names)

    @cached_property
    def sha256(self) -> str:
        """Hash of :attr:`text`."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def label_subset(
    store: ClipStore, split: str, ids: np.ndarray, share: float, draw: int, stratified: bool = True
) -> LabelSubset:
    """List ``draw`` of the training clips ``ids`` of ``split`` that keep their labels, a fraction ``share`` of them.

    The first round(share * n) of the n clips of a class, at least one (as AimCLR, HYSP, PSTL and HiCLR), in an order
    that depends on fingerprint, split and ``draw``: a list of 1 % is a part of the list of 10 %. ``stratified`` False:
    the first int(share * n) of all n clips (as CMD, HaLP and MAMP).
    """
    seed = derive_seed("labels", store.fingerprint, split, draw)
    first_n, second_n = Keyed(seed, 0).uniform(ids, 2).numpy().T
    order_n = np.lexsort((ids, second_n, first_n))
    if stratified:
        labels_n = store.labels[ids][order_n]
        counts = {label: max(1, round(share * count)) for label, count in zip(*np.unique(labels_n, return_counts=True))}
        chosen = np.concatenate([order_n[labels_n == label][:count] for label, count in counts.items()])
    else:
        chosen = order_n[: int(share * len(ids))]
    if not len(chosen):
        raise SkelbenchError(
            f"{share:.2%} of {len(ids)} training clips of split {split!r} is less than one clip; take a larger share"
        )
    subset_ids = np.sort(ids[chosen])
    named = store.names is not None and len(set(store.names[ids])) == len(set(ids.tolist()))
    names = store.names[subset_ids] if named and store.names is not None else subset_ids
    return LabelSubset(draw, subset_ids, tuple(map(str, names)))
