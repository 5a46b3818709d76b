"""Frozen features as a step of a scikit-learn pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np

from skelbench.api.encoder import Clips, FrozenEncoder
from skelbench.api.load import load_encoder
from skelbench.api.place import RunOnDisk
from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import Stream

try:
    from sklearn.base import BaseEstimator, TransformerMixin
except ImportError as error:
    raise SkelbenchError(
        "skelbench.SkeletonEmbedding needs scikit-learn, which is not installed: pip install 'skelbench[sklearn]'"
    ) from error


class SkeletonEmbedding(TransformerMixin, BaseEstimator):
    """Clips to features by a frozen encoder: ``make_pipeline(SkeletonEmbedding("slim"), LogisticRegression())``.

    ``run``: whatever :func:`skelbench.load_encoder` takes, or an encoder that it made. ``X`` is what
    :meth:`skelbench.api.encoder.FrozenEncoder.embed` takes: arrays [B, T, J, 3] or [B, M, T, J, 3], or a list of clips
    of different lengths. Fitting learns nothing; it only loads the encoder.
    """

    def __init__(
        self,
        run: RunOnDisk | FrozenEncoder | Path | str,
        checkpoint: str = "last",
        stream: Stream | None = None,
        batch_size: int = 256,
        device: str | None = None,
        subtract_origin: bool = False,
    ) -> None:
        self.run = run
        self.checkpoint = checkpoint
        self.stream = stream
        self.batch_size = batch_size
        self.device = device
        self.subtract_origin = subtract_origin

    def fit(self, X: Clips, y: Any = None) -> Self:
        """Load the encoder."""
        self.loaded_ = self.run, self.checkpoint, self.stream, self.device
        if isinstance(self.run, FrozenEncoder):
            self.encoder_ = self.run
        else:
            self.encoder_ = load_encoder(self.run, self.checkpoint, self.stream, device=self.device)
        return self

    def transform(self, X: Clips) -> np.ndarray:
        """float32 [B, F]."""
        if getattr(self, "loaded_", None) != (self.run, self.checkpoint, self.stream, self.device):
            self.fit(X)  # loads again: set_params may have named another encoder
        return self.encoder_.embed(X, batch_size=self.batch_size, subtract_origin=self.subtract_origin)

    def __sklearn_is_fitted__(self) -> bool:
        """Return True: there is nothing to learn, so ``fit`` is optional."""
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True
        return tags
