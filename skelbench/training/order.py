"""Order of clips in training."""

from __future__ import annotations

import numpy as np
import torch

from skelbench.core.hashing import derive_seed


class Order:
    """Clips of each step: one permutation per epoch, end to end, keyed by (seed, epoch)."""

    def __init__(self, ids: np.ndarray, batch: int, seed: int) -> None:
        self.ids, self.batch, self.seed = np.asarray(ids), batch, seed
        self._epochs: dict[int, np.ndarray] = {}

    def _permutation(self, epoch: int) -> np.ndarray:
        if epoch not in self._epochs:
            generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", epoch))
            self._epochs = {epoch: torch.randperm(len(self.ids), generator=generator).numpy()}
        return self._epochs[epoch]

    def __call__(self, step: int) -> np.ndarray:
        """Clip ids of ``step``: int64 [batch]."""
        places = np.arange(step * self.batch, (step + 1) * self.batch)
        epochs, inside = np.divmod(places, len(self.ids))
        parts = [self.ids[self._permutation(int(e))[inside[epochs == e]]] for e in np.unique(epochs)]
        return np.concatenate(parts)
