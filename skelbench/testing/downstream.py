"""Clips of postures, and an encoder, for checks of protocols that need the encoder itself."""

from __future__ import annotations

import copy
from itertools import count
from pathlib import Path

import numpy as np
import torch

from skelbench.core.spec import DataSpec, EvalSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import Split
from skelbench.evaluation.downstream import Downstream
from skelbench.evaluation.features import PreparedClips
from skelbench.evaluation.preprocessing import Preprocessing
from skelbench.evaluation.protocol import Features
from skelbench.models.encoder import Encoder
from skelbench.models.vit import ViT, ViTConfig
from skelbench.plugin.descriptors import Descriptor
from skelbench.testing.tiny import write_store
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

GRID = Grid(16, 8, NTU25.num_joints)
CLASSES, TRAIN, TEST = 4, 24, 24


class _Shown(ClipStore):
    """Clips of another store with other labels and another split."""

    @classmethod
    def of(cls, store: ClipStore, sides: Features) -> _Shown:
        labels = store.index["label"].copy()
        for side in ("train", "test"):
            labels[getattr(sides, f"{side}_ids")] = getattr(sides, f"{side}_y")
        labeled = cls(store.path, store.meta, {**store.index, "label": labels}, store.frames_FJ)
        labeled.sides = Split("half", sides.train_ids, sides.test_ids)
        return labeled

    sides: Split

    def split(self, name: str | None = None, min_frames: int = 0) -> Split:
        return self.sides


class Postures:
    """Evaluations of the clips of postures; files are in ``folder``."""

    def __init__(self, folder: Path, descriptor: Descriptor) -> None:
        self.folder, self.descriptor = folder, descriptor
        self.store = ClipStore.open(write_store(folder, "postures", clips=TRAIN + TEST, postures=True))
        self._serial = count()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self._encoders = [ViT(ViTConfig(dim=32, depth=2, heads=2), NTU25, GRID).eval() for _ in range(2)]

    def sides(self, separable: bool = True) -> Features:
        """Ids and labels of both sides, with empty features; not ``separable``: labels are permuted over clips."""
        split, labels = self.store.split(), self.store.labels
        y = labels if separable else np.random.default_rng(2).permutation(labels)
        x_nD = np.zeros((TRAIN + TEST, 1), dtype=np.float32)
        ids = split.train, split.test
        return Features(x_nD[:TRAIN], y[split.train], x_nD[TRAIN:], y[split.test], *ids, num_classes=CLASSES)

    def task(self, sides: Features, device: str = "cpu") -> Downstream:
        """A new evaluation of the clips of ``sides`` with their labels."""
        store = _Shown.of(self.store, sides)
        data = DataSpec(name="made", split="half", fingerprint=store.fingerprint)
        values = {"pretrain_id": "0" * 12, "protocol": self.descriptor.name, "data": data}
        spec = EvalSpec.model_validate({**values, **getattr(self.descriptor, "defaults", {})})

        def make(trained: bool) -> Encoder:
            return copy.deepcopy(self._encoders[not trained]).to(device)

        state = self.folder / f"{next(self._serial)}.state"
        (stream,) = spec.streams
        clips = PreparedClips(store, Preprocessing.of(spec, stream), GRID, torch.device(device))
        return Downstream(spec, clips, make, state)
