"""Shared parts of HiCo and SCD-Net: features over time, over joints and of the whole clip, each with a head and keys.

Facts: HuiGuanLab/HiCo (hico/builder.py) and cong-wu/SCD-Net (scd/builder.py), which agree in all of this. B clips, D
width of a feature, E of an embedding, n keys written so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from skelbench.methods.contract import Context, Method, Step
from skelbench.models.contrast import KeyQueue
from skelbench.models.ema import ema_copy, ema_update
from skelbench.models.encoder import Encoded
from skelbench.models.heads import xavier_head
from skelbench.models.optim.groups import one_group
from skelbench.views import View

LEVELS = ("time", "space", "instance")


class LevelContrast(Method):
    """An encoder and a head per level, and a copy of both for keys; a clip's three keys are concatenated in a queue.

    The config has ``queue``, ``embedding`` and ``momentum``. A subclass calls :meth:`embeddings` once per step; it
    may add levels, whose keys it stores itself.

    >>> class Contrast(LevelContrast):
    ...     def training_step(self, views, step):
    ...         query, key, _ = self.embeddings(views, step)
    ...         return {"loss": sum(F.mse_loss(query[level], key[level]) for level in LEVELS)}
    """

    roles = {"encoder": "student", "heads": "head", "key_encoder": "teacher", "key_heads": "head"}
    whole_batch = ""

    def __init__(self, config: Any, context: Context) -> None:
        super().__init__(config, context)
        self.encoder, width = context.encoder(), context.width
        self.heads = nn.ModuleDict(
            {level: xavier_head(dim_in, width, config.embedding) for level, dim_in in self.widths().items()}
        )
        self.key_encoder, self.key_heads = ema_copy(self.encoder, mode="train"), ema_copy(self.heads)
        self.queue = KeyQueue(config.queue, len(LEVELS) * config.embedding)

    def widths(self) -> dict[str, int]:
        """Return the width D of each level's feature."""
        width = self.context.width
        return dict(zip(LEVELS, (width, width, self.context.summary_width)))

    def features(self, encoded: Encoded, view: View) -> dict[str, Tensor]:
        """Return the features [B, D] of each level."""
        time_RD, space_RD = encoded.time_and_space(self.context.grid.joints)
        levels = zip(LEVELS, (time_RD, space_RD, encoded.summary_RD))
        return {level: encoded.of_clips(x_RD, view) for level, x_RD in levels}

    def embeddings(
        self, views: Mapping[str, View], step: Step
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
        """Unit vectors by level: queries [B, E], keys [B, E] and keys of the queue [n, E].

        :meth:`after_step` puts the keys of :data:`LEVELS` into the queue."""
        query = self._embeddings(self.encoder, self.heads, views["query"])
        with torch.no_grad():
            key = self._embeddings(self.key_encoder, self.key_heads, views["key"])
        for level in LEVELS:
            step.watch(level, query[level])
        step.keep("keys", torch.cat([key[level] for level in LEVELS], 1))
        written_nE = self.queue.written(step.index, step.clips(views["key"])).chunk(len(LEVELS), 1)
        return query, key, dict(zip(LEVELS, written_nE))

    def _embeddings(self, encoder: nn.Module, heads: nn.ModuleDict, view: View) -> dict[str, Tensor]:
        features = self.features(encoder(view), view)
        return {level: F.normalize(heads[level](x).float(), dim=-1) for level, x in features.items()}

    def optim_groups(self) -> Iterator[dict[str, Any]]:
        """Return one group: weight decay for all parameters, biases and norms too."""
        return one_group(self)

    def after_step(self, step: Step) -> None:
        ema_update(self.key_encoder, self.encoder, self.config.momentum)
        ema_update(self.key_heads, self.heads, self.config.momentum)
        self.queue.push(step.index, step.kept("keys"))
