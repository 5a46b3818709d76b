"""Clips of postures, and an encoder, for checks of protocols that ask for more than features.

Shapes: n clips, M bodies, T frames, J joints, C = 3.
"""

from __future__ import annotations

import copy
from itertools import count
from pathlib import Path

import numpy as np
import torch

from skelbench.core.spec import DataSpec, EvalSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import FieldRule, Split
from skelbench.data.store.writer import StoreWriter
from skelbench.evaluation.downstream import Downstream
from skelbench.evaluation.features import PreparedClips
from skelbench.evaluation.preprocessing import Preprocessing
from skelbench.evaluation.protocol import Features
from skelbench.models.encoder import Encoder
from skelbench.models.vit import ViT, ViTConfig
from skelbench.plugin.descriptors import Descriptor
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

GRID = Grid(16, 8, NTU25.num_joints)
CLASSES, TRAIN, TEST = 4, 24, 24
SPLIT = "made"
TRAINING, TESTING = (1, 3), (2, 4)
"""Subjects."""


def write_postures(root: Path) -> ClipStore:
    """Write clips that hold the random posture of their class and sway a little; every third has two bodies."""
    rng = np.random.default_rng(0)
    posture_CJ3 = rng.normal(0, 0.4, (CLASSES, NTU25.num_joints, 3))
    with StoreWriter(
        root,
        topology=NTU25,
        classes=[f"posture {label}" for label in range(CLASSES)],
        splits={SPLIT: FieldRule(field="subject", train=TRAINING, test=TESTING)},
        default_split=SPLIT,
        lineage="made for a check",
    ) as writer:
        for clip in range(TRAIN + TEST):
            label, frames, bodies = clip % CLASSES, 12 + clip % 9, 1 + (clip % 3 == 0)
            sway_T = 0.05 * np.sin(np.linspace(0, 5, frames) + clip)
            x_MTJC = (
                posture_CJ3[label]
                + sway_T[:, None, None]
                + rng.normal(0, 0.02, (bodies, frames, *posture_CJ3[0].shape))
            )
            sides = TRAINING if clip < TRAIN else TESTING
            writer.add(x_MTJC.astype(np.float32), label, subject=sides[clip // CLASSES % 2])
    return ClipStore.open(root)


class _Shown(ClipStore):
    """Clips of another store with other labels and another split."""

    @classmethod
    def of(cls, store: ClipStore, sides: Features) -> _Shown:
        labels = store.index["label"].copy()
        for side in ("train", "test"):
            labels[getattr(sides, f"{side}_ids")] = getattr(sides, f"{side}_y")
        shown = cls(store.path, store.meta, {**store.index, "label": labels}, store.frames_FJ)
        shown.sides = Split(SPLIT, sides.train_ids, sides.test_ids)
        return shown

    sides: Split

    def split(self, name: str | None = None, min_frames: int = 0) -> Split:
        return self.sides


class Postures:
    """Evaluations of the clips of postures; files are in ``folder``."""

    def __init__(self, folder: Path, descriptor: Descriptor) -> None:
        self.folder, self.descriptor = folder, descriptor
        self.store = write_postures(folder / "postures")
        self._serial = count()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self._encoders = [ViT(ViTConfig(dim=32, depth=2, heads=2), NTU25, GRID).eval() for _ in range(2)]

    def sides(self, told: bool = True) -> Features:
        """Ids and labels of both sides, with empty features; ``told`` False: labels are permuted over clips."""
        split, labels = self.store.split(SPLIT), self.store.labels
        y = labels if told else np.random.default_rng(2).permutation(labels)
        x_nD = np.zeros((TRAIN + TEST, 1), dtype=np.float32)
        ids = split.train, split.test
        return Features(x_nD[:TRAIN], y[split.train], x_nD[TRAIN:], y[split.test], *ids, num_classes=CLASSES)

    def task(self, sides: Features, device: str = "cpu") -> Downstream:
        """A new evaluation of the clips of ``sides`` with their labels."""
        shown = _Shown.of(self.store, sides)
        data = DataSpec(name="made", split=SPLIT, fingerprint=shown.fingerprint)
        values = {"pretrain_id": "0" * 12, "protocol": self.descriptor.name, "data": data}
        spec = EvalSpec.model_validate({**values, **getattr(self.descriptor, "defaults", {})})

        def make(trained: bool) -> Encoder:
            return copy.deepcopy(self._encoders[not trained]).to(device)

        state = self.folder / f"{next(self._serial)}.state"
        (stream,) = spec.streams
        clips = PreparedClips(shown, Preprocessing.of(spec, stream), GRID, torch.device(device))
        return Downstream(spec, clips, make, state)
