"""Input of protocols that need more than features: the encoder itself, and clips as views.

Shapes: n clips, B clips of a batch, D width of a clip's features, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from skelbench.core.spec import EvalSpec, EvaluationResize, Stream
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.source import ClipSource
from skelbench.evaluation.features import Builder, PreparedClips, check_dropout, pool_bodies, read_out, split_features
from skelbench.evaluation.hidden import Hiding, encode
from skelbench.evaluation.preprocessing import Preprocessing
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

    store: ClipStore
    spec: EvalSpec
    """Data, bodies, pooling, readout, origin, share of a clip."""
    stream: Stream
    grid: Grid
    device: torch.device
    precision: Literal["fp32", "bf16"]
    make: Callable[[bool], Encoder]
    """``make(trained)``: the encoder, on the device; see :meth:`encoder`."""
    state: Path
    """File in which a long evaluation saves its progress, one for each process; removed when the record is written."""
    hiding: Hiding = ""
    """Way in which the encoder learned to work with missing tokens; "" = none."""

    def encoder(self, trained: bool = True) -> Encoder:
        """New copy of the run's encoder in eval mode; ``trained`` False: as initialized with the run's seed."""
        return self.make(trained)

    @property
    def train_ids(self) -> np.ndarray:
        """int64 [n_train]: clip ids in the store."""
        return self.store.split(self.spec.data.split, self.spec.data.min_frames).train

    @property
    def test_ids(self) -> np.ndarray:
        """int64 [n_test]."""
        return self.store.split(self.spec.data.split, self.spec.data.min_frames).test

    @property
    def train_y(self) -> np.ndarray:
        """int64 [n_train], in 0..num_classes-1."""
        return self.store.labels[self.train_ids].astype(np.int64)

    @property
    def train_subjects(self) -> np.ndarray:
        """int64 [n_train]: who is seen in each clip."""
        return self.store.index["subject"][self.train_ids].astype(np.int64)

    @property
    def num_classes(self) -> int:
        return self.store.num_classes

    @cached_property
    def clips(self) -> PreparedClips:
        """The clips as the evaluation shows them to encoders."""
        look, how = Preprocessing.of(self.spec, self.stream), (self.grid, self.device, self.precision)
        return PreparedClips(self.store, look, *how, self.hiding, self.spec.min_confidence)

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
        """float32 [B, D], with gradient: the evaluation's readout, bodies pooled. ``options``: the encoder's;
        ``dropout`` on tokens: :func:`~skelbench.evaluation.features.read_out`."""
        check_dropout(dropout, self.hiding, self.spec.min_confidence)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16"):
            encoded = encode(encoder, view, self.hiding, self.grid.patch, self.spec.min_confidence, **options)
        encoded = read_out(encoded, self.spec.readout, self.grid, dropout, generator)
        return pool_bodies(encoded, view, self.spec.bodies_pool)

    def features(self, encoder: Encoder, progress: Progress | None = None) -> Features:
        """Frozen features of both sides by ``encoder``, as protocols on features get them."""
        split = self.store.split(self.spec.data.split, self.spec.data.min_frames)
        return split_features(encoder, self.clips, split, progress)

    def test_features(
        self, encoder: Encoder, degrade: Sequence[Degrade] = (), seed: int = 0, progress: Progress | None = None
    ) -> np.ndarray:
        """float32 [n_test, D]: frozen features of :attr:`test_ids` after ``degrade``; missing joints are hidden.

        Raises:
            SkelbenchError: this encoder has not learnt to do without tokens.
        """
        return self.clips.features(encoder, self.test_ids, source=self.source(degrade, seed), progress=progress)

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
