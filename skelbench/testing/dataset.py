"""Checks of data sets that plugins open: what they announce, what their clips are, who is on which side of a split."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.data.anatomy import measure
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.roots import data_root
from skelbench.data.store.source import ClipSource
from skelbench.data.verify import Check as Line
from skelbench.data.verify import recognise, verify
from skelbench.plugin.descriptors import DatasetSpec, Descriptor
from skelbench.plugin.host import Host
from skelbench.testing.announcement import announcement
from skelbench.testing.check import Check, Failed, Skipped
from skelbench.views.augmentations import Mirror
from skelbench.views.builder import ViewBuilder
from skelbench.views.crops import Center
from skelbench.views.keyed import Keyed
from skelbench.views.spec import ViewSpec

MADE_ANEW = 2**28
"""Bytes of coordinates of a data set that is made once more, in an empty folder: what lies there may be of before."""
LOOKED_AT = 16
"""Clips of which views are made."""


@dataclass
class DatasetSubject:
    """A data set, opened below ``root`` (where it is made, if it is made on first use)."""

    host: Host
    descriptor: Descriptor
    root: Path

    @cached_property
    def store(self) -> ClipStore:
        """Opened once for all checks."""
        return self.open()

    def open(self, root: Path | None = None) -> ClipStore:
        """Open it anew, below ``root`` or where it is."""
        store = self.host.load(self.descriptor)(root or self.root)
        if not isinstance(store, ClipStore):
            raise Failed("a ClipStore", f"a {type(store).__name__}", "what the function that target names returns")
        return store

    @cached_property
    def lines(self) -> list[Line]:
        """What ``skelbench data verify`` says."""
        return list(verify(self.store, recognise(self.store), measure(self.store)))


def opens(subject: DatasetSubject) -> None:
    store = subject.store
    if not len(store):
        raise Failed("clips", "none", "what the opener makes")


def repeatable(subject: DatasetSubject) -> None:
    first, again = subject.store.fingerprint, subject.open().fingerprint
    look = "what is drawn or dated when it is opened: runs are named by this fingerprint"
    if first != again:
        raise Failed("the same fingerprint whenever it is opened", f"{first[:12]} and {again[:12]}", look)
    made_here = subject.store.path.resolve().is_relative_to(subject.root.resolve())
    if not made_here or subject.store.frames_FJ.nbytes > MADE_ANEW:
        return
    with tempfile.TemporaryDirectory(prefix="skelbench-check-") as folder:
        try:
            anew = subject.open(Path(folder)).fingerprint
        except (SkelbenchError, OSError) as error:  # it may need files that somebody has to bring
            raise Skipped(f"it cannot be made anew in an empty folder, as its opener says there: {error}") from error
    if anew != first:
        seen = f"{first[:12]} below {subject.root}, and {anew[:12]} where it is made anew"
        raise Failed("the same fingerprint wherever it is made", seen, f"{look}; remove the folder of an older version")


def announced(subject: DatasetSubject) -> None:
    descriptor, meta = subject.descriptor, subject.store.meta
    assert isinstance(descriptor, DatasetSpec)
    if descriptor.splits and set(descriptor.splits) != set(meta.splits):
        seen = f"announced {sorted(descriptor.splits)}, in the store {sorted(meta.splits)}"
        raise Failed("the splits that its DatasetSpec names", seen, "splits")
    if descriptor.default_split and descriptor.default_split != meta.default_split:
        seen = f"announced {descriptor.default_split!r}, in the store {meta.default_split!r}"
        raise Failed("the default split that its DatasetSpec names", seen, "default_split")


def splits(subject: DatasetSubject) -> None:
    store = subject.store
    for name in store.meta.splits:
        split = store.split(name)
        shared = np.intersect1d(split.train, split.test)
        if len(shared):
            raise Failed("clips on one side of a split", f"{len(shared)} are on both of {name}", "its rule")
        by_subject = getattr(store.meta.splits[name], "field", "") == "subject" or "subject" in name
        who = [set(store.index["subject"][ids].tolist()) for ids in (split.train, split.test)]
        if by_subject and (both := sorted(who[0] & who[1])):
            seen = f"subject {both[0]} is on both sides of {name}"
            raise Failed("subjects on one side of a cross-subject split", seen, "its rule, and the clips' subjects")
        if not set(store.labels[split.test]) & set(store.labels[split.train]):
            raise Failed("classes of the test clips in training", f"none of {name}", "its rule")


def labels(subject: DatasetSubject) -> None:
    store = subject.store
    count = np.bincount(store.labels, minlength=store.num_classes)
    if store.labels.min() < 0 or len(count) > store.num_classes:
        look = "classes of the store: label k is classes[k]"
        raise Failed(f"labels 0 to {store.num_classes - 1}", f"{store.labels.min()} to {store.labels.max()}", look)
    if not count.all():
        rarest = store.classes[int(count.argmin())]
        raise Failed("a clip of every class", f"none of {rarest!r}", "classes, and which clips are there")
    if len(set(store.classes)) != store.num_classes:
        raise Failed("classes of different names", "two are called alike", "classes")


def verified(subject: DatasetSubject) -> None:
    """Every line of the report: numbers, checksums, up, left, bone lengths."""
    for line in subject.lines:
        if line.state == "wrong":
            raise Failed(f"{line.what}: {line.expected}", line.found, line.advice)


def mirrored(subject: DatasetSubject) -> None:
    store = subject.store
    if not store.topology.pairs:
        raise Skipped("its skeleton has no left and right")
    ids = np.unique(np.linspace(0, len(store) - 1, LOOKED_AT).round().astype(np.int64))
    batch = ClipSource(store, device="cpu").gather(ids)
    once, twice, plain = (
        ViewBuilder(
            {"x": ViewSpec(frames=32, crop=Center(share=1.0), augment=(Mirror(p=1.0),) * times)},
            store.topology,
            8,
            dimensions=store.meta.dimensions,
        )(batch, Keyed(0, 0))["x"].x_RTJC
        for times in (1, 2, 0)
    )
    if not torch.isfinite(plain).all():
        raise Failed("finite coordinates", f"{(~torch.isfinite(plain)).sum()} are not", "what the opener writes")
    if not torch.allclose(twice, plain, atol=1e-5):
        raise Failed("clips that are mirrored twice as they were", "others", "pairs of its skeleton")
    if torch.allclose(once, plain, atol=1e-5):
        raise Failed("clips that differ from their mirror image", "none does", "coordinates: are they all zero?")


CHECKS: tuple[Check[DatasetSubject], ...] = (
    announcement(summary="which `skelbench plugins list` shows", licence="which says who may use it"),
    Check("opens", "its function returns a clip store with clips", opens),
    Check("repeatable", "its fingerprint is the same whenever it is opened", repeatable),
    Check("announced", "it has the splits that it announces", announced),
    Check("splits", "no clip is on both sides of a split, nor a subject of a cross-subject one", splits),
    Check("labels", "every class has clips, and every clip a class", labels),
    Check("verified", "`skelbench data verify` finds nothing wrong", verified),
    Check("mirrored", "clips that are mirrored twice are as before", mirrored),
)


def kit(host: Host, descriptor: Descriptor) -> tuple[DatasetSubject, Sequence[Check[DatasetSubject]]]:
    """What is checked of a data set, in the user's folder of data sets, and its checks."""
    return DatasetSubject(host, descriptor, data_root()), CHECKS
