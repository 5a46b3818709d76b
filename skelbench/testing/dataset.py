"""Checks of datasets that plugins open: descriptor, clips, and subjects on each side of a split."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.anatomy import measure
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.roots import data_root
from skelbench.data.verify import recognize, verify
from skelbench.plugin.descriptors import DatasetSpec, Descriptor
from skelbench.plugin.host import Host
from skelbench.testing.check import Check, Failed, Skipped
from skelbench.testing.settings import check_summary


@dataclass
class DatasetSubject:
    """A dataset opened in ``root``, and built there if it does not exist."""

    host: Host
    descriptor: Descriptor
    root: Path

    @cached_property
    def store(self) -> ClipStore:
        """Dataset that all checks share."""
        return self.open(self.root)

    def open(self, root: Path) -> ClipStore:
        """Open it again in ``root``."""
        store = self.host.load(self.descriptor)(root)
        if not isinstance(store, ClipStore):
            raise Failed("a ClipStore", f"a {type(store).__name__}", "the function that target names")
        return store


def opens(subject: DatasetSubject) -> None:
    store, descriptor = subject.store, subject.descriptor
    check_summary(descriptor)
    assert isinstance(descriptor, DatasetSpec)
    if not descriptor.license:
        raise Failed("a license, which says who may use it", "none", "its DatasetSpec")
    if not len(store):
        raise Failed("clips", "none", "what the opener builds")
    announced = set(descriptor.splits), descriptor.default_split
    built = set(store.meta.splits), store.meta.default_split
    if any(value and value != actual for value, actual in zip(announced, built)):
        raise Failed(f"the splits of its DatasetSpec: {announced}", f"{built} in the store", "splits, default_split")


def repeatable(subject: DatasetSubject) -> None:
    first, again = subject.store.fingerprint, subject.open(subject.root).fingerprint
    look = "values that are drawn or dated on opening: runs are named by this fingerprint"
    if first != again:
        raise Failed("the same fingerprint whenever it is opened", f"{first[:12]} and {again[:12]}", look)
    if subject.store.frames_FJ.nbytes > 2**28:  # too large to be built again
        return
    with tempfile.TemporaryDirectory(prefix="skelbench-check-") as folder:
        try:
            rebuilt = subject.open(Path(folder)).fingerprint
        except (SkelbenchError, OSError) as error:  # it may need files of the user
            raise Skipped(f"it cannot be built in an empty folder: {error}") from error
    if rebuilt != first:
        message = f"{first[:12]} in {subject.root}, {rebuilt[:12]} in an empty folder"
        raise Failed("the same fingerprint wherever it is built", message, f"{look}; or remove an older folder")


def splits(subject: DatasetSubject) -> None:
    store = subject.store
    count = np.bincount(store.labels, minlength=store.num_classes)
    if store.labels.min() < 0 or len(count) > store.num_classes or not count.all():
        expected = f"clips of every class, labels 0 to {store.num_classes - 1}"
        raise Failed(expected, f"clips by class: {count}", "classes of the store: label k is classes[k]")
    for name, rule in store.meta.splits.items():
        split = store.split(name)
        if shared := set(split.train) & set(split.test):
            raise Failed("clips on one side of a split", f"{len(shared)} are on both of {name}", "its rule")
        train, test = (set(store.index["subject"][ids].tolist()) for ids in (split.train, split.test))
        if (getattr(rule, "field", "") == "subject" or "subject" in name) and train & test:
            message = f"subject {min(train & test)} is on both sides of {name}"
            raise Failed("subjects on one side of a cross-subject split", message, "its rule, and subjects of clips")


def verified(subject: DatasetSubject) -> None:
    """Numbers, checksums, directions and bone lengths."""
    for line in verify(subject.store, recognize(subject.store), measure(subject.store)):
        if line.state == "wrong":
            raise Failed(f"{line.name}: {line.expected}", line.value, line.advice)


CHECKS: tuple[Check[DatasetSubject], ...] = (
    Check("opens", "its function returns a clip store with clips and the announced splits", opens),
    Check("repeatable", "its fingerprint is the same whenever it is opened", repeatable),
    Check("splits", "every class has clips; no clip or subject is on both sides of a split", splits),
    Check("verified", "`skelbench data verify` finds nothing wrong", verified),
)


def kit(kind: str, host: Host, descriptor: Descriptor) -> tuple[DatasetSubject, Sequence[Check[DatasetSubject]]]:
    """Return the subject of the checks of a dataset, in the user's folder of datasets, and the checks."""
    return DatasetSubject(host, descriptor, data_root()), CHECKS
