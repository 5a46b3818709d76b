"""Clips and stores that the tests of the data room share."""

import numpy as np

from skelbench.data.store.splits import FieldRule
from skelbench.data.store.writer import StoreWriter
from skelbench.views.skeleton.topology import NTU25

CLASSES = ("a", "b", "c")
SPLITS = {
    "cross-subject": FieldRule(field="subject", train="odd"),
    "cross-view": FieldRule(field="camera", train=(2, 3)),
}


def random_clips(count=7, seed=0):
    """Ragged clips [M, T, 25, 3], M in 1..2, T in 1..9."""
    rng = np.random.default_rng(seed)
    return [
        rng.standard_normal((rng.integers(1, 3), rng.integers(1, 10), 25, 3)).astype(np.float32) for _ in range(count)
    ]


def open_writer(path, **changes):
    """A StoreWriter with everything filled in."""
    settings = dict(topology=NTU25, classes=CLASSES, splits=SPLITS, default_split="cross-view", lineage="test")
    return StoreWriter(path, **(settings | changes))


def write_store(path, clips, **changes):
    """Write clips with label i % 3, subject i % 4, camera 1 + i % 3, setup i, trial 5, origin (i, 0, 1)."""
    with open_writer(path, **changes) as writer:
        for i, x in enumerate(clips):
            writer.add(x, i % 3, subject=i % 4, camera=1 + i % 3, setup=i, trial=5, origin=(i, 0, 1))
    return path
