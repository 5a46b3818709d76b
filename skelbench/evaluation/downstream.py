"""Input of protocols that need more than features: the encoder itself, and clips as views.

Shapes: n clips, B clips of a batch, D width of a clip's features, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from skelbench.core.spec import EvalSpec, EvaluationResize
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.source import ClipSource
from skelbench.data.store.splits import Split
from skelbench.evaluation.features import Builder, PreparedClips, split_features
from skelbench.evaluation.hidden import Hiding
from skelbench.evaluation.protocol import Features, Progress, Protocol, ProtocolResult, headline_of
from skelbench.models.encoder import Encoder
from skelbench.plugin.plugin_errors import lacking
from skelbench.views.augmentations import Augment
from skelbench.views.crops import Crop
from skelbench.views.degradations import Degrade
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.grid import Grid
from skelbench.views.view import View


@dataclass(frozen=True)
class Downstream:
    """An encoder and the clips of a split, as one evaluation uses them. :meth:`score` rates predictions."""

    spec: EvalSpec
    """Data, bodies, pooling, readout, origin, fraction of a clip."""
    clips: PreparedClips
    """The clips as the evaluation shows them to encoders."""
    make: Callable[[bool], Encoder]
    """``make(trained)``: the encoder, on the device; see :meth:`encoder`."""
    state: Path
    """File in which a long evaluation saves its progress, one for each process; removed when the record is written."""

    def encoder(self, trained: bool = True) -> Encoder:
        """New copy of the run's encoder in eval mode; ``trained`` False: as initialized with the run's seed."""
        return self.make(trained)

    @property
    def store(self) -> ClipStore:
        return self.clips.store

    @property
    def grid(self) -> Grid:
        return self.clips.grid

    @property
    def device(self) -> torch.device:
        return self.clips.device

    @property
    def hiding(self) -> Hiding:
        """Way in which the encoder learned to work with missing tokens; "" = it did not."""
        return self.clips.hiding

    @property
    def split(self) -> Split:
        """Clips of both sides, ids in the store."""
        return self.store.split(self.spec.data.split, self.spec.data.min_frames)

    @property
    def train_ids(self) -> np.ndarray:
        """int64 [n_train]: clip ids in the store."""
        return self.split.train

    @property
    def test_ids(self) -> np.ndarray:
        """int64 [n_test]."""
        return self.split.test

    @property
    def train_y(self) -> np.ndarray:
        """int64 [n_train], in 0..num_classes-1."""
        return self.store.labels[self.train_ids].astype(np.int64)

    @property
    def train_subjects(self) -> np.ndarray:
        """int64 [n_train]: subject of each clip."""
        return self.store.index["subject"][self.train_ids].astype(np.int64)

    @property
    def num_classes(self) -> int:
        return self.store.num_classes

    def source(self, degrade: Sequence[Degrade] = (), seed: int = 0) -> ClipSource:
        """The clips on their way to the device, degraded with draws keyed by ``seed`` and clip."""
        return self.clips.source.degraded(degrade, seed)

    def builder(
        self, crop: Crop | None = None, augment: tuple[Augment, ...] = (), resize: EvaluationResize | None = None
    ) -> Builder:
        """Maker of one view per clip, named "eval": by ``crop`` and ``augment``, or as the evaluation has it."""
        return self.clips.builder(crop, augment, resize)

    def views(self, source: ClipSource, builder: Builder, ids: np.ndarray, keyed: Keyed | None = None) -> View:
        """One view of each of the clips ``ids``; draws are keyed by clip."""
        return builder(source.gather(ids), keyed or Keyed(self.spec.seed, 0))["eval"].to(self.device)

    def clip_features(
        self,
        encoder: Encoder,
        view: View,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> Tensor:
        """:meth:`~skelbench.evaluation.features.PreparedClips.clip_features`: float32 [B, D], with gradient."""
        return self.clips.clip_features(encoder, view, dropout, generator, **options)

    def features(self, encoder: Encoder, progress: Progress | None = None) -> Features:
        """Frozen features of both sides by ``encoder``, as protocols on features get them."""
        return split_features(encoder, self.clips, self.split, progress)

    def score(self, scores_nC: np.ndarray) -> tuple[Mapping[str, float], Mapping[str, np.ndarray]]:
        """:func:`~skelbench.evaluation.protocol.headline_of` of scores [n_test, C] or [draws, n_test, C]."""
        labels = self.store.labels[self.test_ids].astype(np.int64)
        return headline_of(scores_nC, labels, self.test_ids, self.num_classes, len(self.train_ids))


class EncoderProtocol(Protocol):
    """Base class of protocols that train the encoder or show it other clips; ``task.state`` may hold progress."""

    unit: ClassVar[str] = "clips"

    def evaluate_encoder(
        self, task: Downstream, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Measure the encoder of ``task``. The same arguments give the same result on the same device and thread
        count."""
        raise lacking(self, "evaluate_encoder(self, task, seed, device, progress=None)")
