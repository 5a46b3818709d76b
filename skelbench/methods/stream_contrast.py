"""Shared parts of CMD and CrosSCLR: joints, motion and bones, each with an encoder, a head and keys.

Facts: maoyunyao/CMD (moco/builder_cmd.py) and LinguoLi/CrosSCLR (net/crossclr_3views.py), which agree in all of
this. B clips, D width of a clip's features, E of an embedding, n keys written so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from skelbench.methods.contract import Context, Method, Step
from skelbench.models.contrast import KeyQueue
from skelbench.models.ema import ema_copy, ema_update
from skelbench.models.encoder import Encoder
from skelbench.models.heads import contrast_head
from skelbench.models.optim.groups import one_group
from skelbench.views import Same, View, ViewSpec
from skelbench.views.skeleton.grid import Grid

STREAMS = ("joint", "motion", "bone")


class StreamContrast(Method):
    """An encoder and a head per stream, and a copy of both for keys; a clip's keys are concatenated in a queue.

    The config has ``view(grid)``, ``queue``, ``embedding`` and ``momentum``. A subclass calls :meth:`embeddings`
    once per step.

    >>> class Contrast(StreamContrast):
    ...     def training_step(self, views, step):
    ...         query, key, _ = self.embeddings(views, step)
    ...         return {"loss": sum(F.mse_loss(query[stream], key[stream]) for stream in STREAMS)}
    """

    roles = {
        "encoder": "student",
        **{f"{stream}_encoder": "student" for stream in STREAMS[1:]},
        **{f"head.{stream}": "head" for stream in STREAMS},
        **{f"key_encoder.{stream}": "teacher" for stream in STREAMS},
        **{f"key_head.{stream}": "head" for stream in STREAMS},
    }
    whole_batch = ""
    bone_encoder: Encoder
    motion_encoder: Encoder

    def __init__(self, config: Any, context: Context) -> None:
        super().__init__(config, context)
        self.encoder, self.motion_encoder, self.bone_encoder = (context.encoder() for _ in STREAMS)
        self.head = self.heads(context.summary_width)
        self.key_encoder = nn.ModuleDict(
            {stream: ema_copy(encoder, mode="train") for stream, encoder in self.encoders.items()}
        )
        self.key_head = ema_copy(self.head)  # copied together, so that layers shared by heads stay shared
        self.queue = KeyQueue(config.queue, len(STREAMS) * config.embedding)

    def heads(self, width: int) -> nn.ModuleDict:
        """Return the heads by stream, from D = ``width`` to E."""
        return nn.ModuleDict({stream: contrast_head(width, self.config.embedding) for stream in STREAMS})

    @property
    def encoders(self) -> dict[str, Encoder]:
        """Return the trained encoders by stream."""
        return {"joint": self.encoder, "motion": self.motion_encoder, "bone": self.bone_encoder}

    def inference_encoders(self) -> Mapping[str, nn.Module]:
        return {"bone": self.bone_encoder, "motion": self.motion_encoder}

    @classmethod
    def views(cls, config: Any, grid: Grid) -> dict[str, ViewSpec]:
        """``query-joint`` to ``key-bone``: the streams of two augmented views, each of one crop and its draws."""
        views = {}
        for name in ("query", "key"):
            views[f"{name}-joint"] = config.view(grid)
            for stream in STREAMS[1:]:
                shared = {"crop": Same(parent=f"{name}-joint"), "inherit": True, "augment": ()}
                views[f"{name}-{stream}"] = config.view(grid).model_copy(update=shared | {"stream": stream})
        return views

    def embeddings(
        self, views: Mapping[str, View], step: Step
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
        """Unit vectors by stream: queries [B, E] and keys [B, E], which :meth:`after_step` puts into the queue, and the
        keys [n, E] of the queue."""
        query = {s: self._embedding(self.encoders[s], self.head[s], views[f"query-{s}"]) for s in STREAMS}
        with torch.no_grad():
            key = {s: self._embedding(self.key_encoder[s], self.key_head[s], views[f"key-{s}"]) for s in STREAMS}
        for stream in STREAMS:
            step.watch(f"query_{stream}", query[stream])
        step.keep("keys", torch.cat([key[s] for s in STREAMS], 1))
        written_nE = self.queue.written(step.index, step.clips(views["key-joint"])).chunk(len(STREAMS), 1)
        return query, key, dict(zip(STREAMS, written_nE))

    @staticmethod
    def _embedding(encoder: nn.Module, head: nn.Module, view: View) -> Tensor:
        return F.normalize(head(encoder(view).clip_summary(view)).float(), dim=1)

    def optim_groups(self) -> Iterator[dict[str, Any]]:
        """Return one group: weight decay for all parameters, biases and norms too."""
        return one_group(self)

    def followers(self, step: Step) -> Iterable[str]:
        """Return the streams whose key encoder and head are updated after ``step``."""
        return STREAMS

    def after_step(self, step: Step) -> None:
        for stream in self.followers(step):
            ema_update(self.key_encoder[stream], self.encoders[stream], self.config.momentum)
            ema_update(self.key_head[stream], self.head[stream], self.config.momentum)
        self.queue.push(step.index, step.kept("keys"))
