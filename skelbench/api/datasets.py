"""Datasets for PyTorch: map-style, one clip per item."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.roots import data_root

PARTS = ("train", "test", "all")


class ClipBatch(NamedTuple):
    """A batch of :func:`collate`: B clips padded to the most bodies M and frames T of any of them."""

    clips: Tensor
    """float32 [B, M, T, J, 3], zeros behind the end of a clip; ``encoder.embed`` takes the whole batch."""
    labels: Tensor
    """int64 [B]."""
    frames: Tensor
    """int64 [B], number of frames."""
    bodies: Tensor
    """int64 [B], number of bodies."""


def collate(items: Sequence[tuple[Tensor, int]]) -> ClipBatch:
    """Items of a :class:`ClipDataset` as one batch: ``DataLoader(dataset, 8, collate_fn=dataset.collate)``."""
    clips = [clip for clip, _ in items]
    shape = torch.tensor([clip.shape for clip in clips]).amax(0).tolist()
    padded = clips[0].new_zeros(len(clips), *shape)
    for row, clip in zip(padded, clips):
        row[tuple(slice(size) for size in clip.shape)] = clip
    bodies, frames = torch.tensor([clip.shape[:2] for clip in clips]).T
    return ClipBatch(padded, torch.tensor([label for _, label in items]), frames, bodies)


class ClipDataset(Dataset[tuple[Tensor, int]]):
    """Clips of one part of a split: ``dataset[i]`` is (float32 [M, T, J, 3], label).

    Coordinates are meters, Y up, as they are stored; M bodies and T frames are the clip's own, without padding. The
    :attr:`store` has all other fields: ``dataset.store.lengths[dataset.ids]``.
    """

    collate = staticmethod(collate)

    def __init__(self, store: ClipStore, ids: np.ndarray, split: str, part: str) -> None:
        self.store, self.ids, self.split, self.part = store, ids, split, part

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; label k is ``classes[k]``."""
        return self.store.classes

    @property
    def labels(self) -> np.ndarray:
        """int64 [len(self)]."""
        return self.store.labels[self.ids]

    @property
    def subjects(self) -> np.ndarray:
        """int32 [len(self)]: subject of each clip; 0 for all if the dataset does not know subjects."""
        return self.store.index["subject"][self.ids]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"clip {index} of {len(self)}")
        clip = int(self.ids[index])
        self.store.check(np.array([clip]))
        x_MTJC = torch.from_numpy(self.store.clip(clip)[: self.store.present[clip]])
        return x_MTJC, int(self.store.labels[clip])

    def __repr__(self) -> str:
        name, clips = self.store.meta.name, f"{len(self):,} clips of {len(self.classes)} classes"
        return f"ClipDataset({name} / {self.split}, {self.part}: {clips}, skeleton {self.store.topology.name})"


def dataset(
    name: str,
    split: str | None = None,
    part: Literal["train", "test", "all"] = "train",
    *,
    data: Path | str | None = None,
    plugins: Sequence[Path | str] = (),
) -> ClipDataset:
    """A dataset for a ``torch.utils.data.DataLoader``: ``skelbench.dataset("ntu60", split="xsub", part="train")``.

    ``split``: none = its default one; ``SPLIT~tune`` holds training subjects out for choosing settings,
    ``SPLIT~tune-camera`` and ``SPLIT~tune-setup`` cameras or setups as well. ``part``: "train", "test", or "all" clips,
    including those in neither. ``data``: where datasets are kept, as ``--data-root``. ``synthetic`` needs no files.

    Raises:
        SkelbenchError: there is no such dataset, split or part; the message lists the known ones and says how to make
        one.
    """
    from skelbench.api.plugins import use_plugins
    from skelbench.pipeline.resolve import open_dataset

    if part not in PARTS:
        raise SkelbenchError(did_you_mean(str(part), PARTS, "part"))
    store = open_dataset(name, use_plugins(plugins), Path(data).expanduser() if data is not None else data_root())
    chosen = store.split(split)
    ids = np.arange(len(store)) if part == "all" else chosen.train if part == "train" else chosen.test
    return ClipDataset(store, ids, chosen.name, part)
