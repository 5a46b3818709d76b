"""Shared parts of SkeletonCLR and its descendants: encoder, key encoder, heads, queue, import of checkpoints.

Facts: LinguoLi/CrosSCLR (net/skeletonclr.py) and Levigty/AimCLR (net/aimclr.py), which agree in all of this. B clips,
D width of a clip's features, E of an embedding, n keys written so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import Stream
from skelbench.methods.contract import Config, Context, Method, Step
from skelbench.methods.imported import Imported, tensor_of
from skelbench.models.contrast import KeyQueue
from skelbench.models.ema import ema_copy, ema_update
from skelbench.models.encoder import Encoded
from skelbench.models.heads import contrast_head
from skelbench.models.optim.groups import one_group
from skelbench.views import Augment, ReflectCrop, Shear, View, ViewSpec
from skelbench.views.crops import Resampling
from skelbench.views.skeleton.grid import Grid


class ShearedConfig(Config):
    """Settings that CrosSCLR's family shares; defaults follow the authors' code, except ``resize``.

    >>> ShearedConfig(queue=1024).view(Grid(frames=64, patch=8, joints=25)).crop
    ReflectCrop(pad=0.16666666666666666)
    """

    queue: int = Field(32768, ge=1, description="keys in the queue")
    embedding: int = Field(128, ge=1, description="width of the embedding")
    momentum: float = Field(0.999, ge=0, le=1, description="EMA momentum of the key encoder, constant")
    temperature: float = Field(0.07, gt=0, description="temperature of the softmax over keys")
    shear: float = Field(0.5, ge=0, description="amplitude of the shear")
    resize: Resampling = "ends"

    def view(self, grid: Grid, *augment: Augment) -> ViewSpec:
        """A stretch as long as the clip, sheared; then ``augment``."""
        shear = Shear(amplitude=self.shear)
        return ViewSpec(frames=grid.frames, crop=ReflectCrop(), augment=(shear, *augment), resize=self.resize)


class MomentumContrastConfig(ShearedConfig):
    """Settings of momentum contrast with one stream.

    >>> MomentumContrastConfig(stream="bone").view(Grid(frames=64, patch=8, joints=25)).stream
    'bone'
    """

    stream: Stream = Field("joint", description="stream that it is trained on")

    def view(self, grid: Grid, *augment: Augment) -> ViewSpec:
        """Return the view for the stream of its encoder."""
        return super().view(grid, *augment).model_copy(update={"stream": self.stream})


class MomentumContrast(Method):
    """Queries of an encoder and head, keys of their moving averages, and a queue of keys of earlier clips.

    A clip's bodies are averaged before the head. A subclass calls :meth:`keys` once per step.

    >>> class Contrast(MomentumContrast):
    ...     @classmethod
    ...     def views(cls, config, grid):
    ...         return {"query": config.view(grid), "key": config.view(grid)}
    ...
    ...     def training_step(self, views, step):
    ...         query_BE = self.queries(views["query"])
    ...         key_BE, queue_nE = self.keys(views["key"], step)
    ...         return {"loss": info_nce(similarities(query_BE, key_BE, queue_nE, self.config.temperature)).mean()}
    """

    Config: type[Config] = MomentumContrastConfig
    roles = {"encoder": "student", "head": "head", "key_encoder": "teacher", "key_head": "head"}
    whole_batch = ""

    def __init__(self, config: Any, context: Context) -> None:
        super().__init__(config, context)
        self.encoder = context.encoder()
        self.head = self.make_head(self.clip_width)
        self.key_encoder = ema_copy(self.encoder, mode="train")
        self.key_head = ema_copy(self.head, mode="train")
        self.queue = KeyQueue(config.queue, config.embedding)

    def make_head(self, width: int) -> nn.Module:
        """Return the projection head, from D = ``width`` to E."""
        return contrast_head(width, self.config.embedding)

    @property
    def clip_width(self) -> int:
        """D of :meth:`clip_features`."""
        return self.context.summary_width

    def clip_features(self, encoded: Encoded, view: View) -> Tensor:
        """Return the input of the head, [B, D]."""
        return encoded.clip_summary(view)

    def queries(self, view: View) -> Tensor:
        """Return the embedding: float32 [B, E], unit vectors."""
        return F.normalize(self.head(self.clip_features(self.encoder(view), view)).float(), dim=1)

    @torch.no_grad()
    def keys(self, view: View, step: Step) -> tuple[Tensor, Tensor]:
        """Unit vectors: [B, E] of ``view``, which :meth:`after_step` puts into the queue, and [n, E] of the queue."""
        feature_BD = self.clip_features(self.key_encoder(view), view)
        key_BE = F.normalize(self.key_head(feature_BD).float(), dim=1)
        step.keep("keys", key_BE)
        return key_BE, self.queue.written(step.index, step.clips(view))

    def after_step(self, step: Step) -> None:
        ema_update(self.key_encoder, self.encoder, self.config.momentum)
        ema_update(self.key_head, self.head, self.config.momentum)
        self.queue.push(step.index, step.kept("keys"))

    def optim_groups(self) -> Iterator[dict[str, Any]]:
        """Return one group: weight decay for all parameters, biases and norms too."""
        return one_group(self)


BLOCKS = {"gcn.conv": "spread", "tcn": "time", "residual": "residual"}
"""Names inside a block of the public ST-GCN and, after the arrow, ours."""


def graph_name(name: str) -> str | None:
    """Return our name, ``encoder.*`` or ``head.*``, of a tensor of the public ST-GCN; None: it is computed here.

    Raises:
        SkelbenchError: it belongs to another model.
    """
    first, _, rest = name.partition(".")
    block, _, inner = rest.partition(".")
    if name == "A":
        return None
    if first == "data_bn":
        return f"encoder.norm.{rest}"
    if first == "edge_importance":
        return f"encoder.blocks.{rest}.importance_SJJ"
    if first == "fc":
        return f"head.{rest}"
    for released, ours in BLOCKS.items():
        if first == "st_gcn_networks" and inner.startswith(released + "."):
            return f"encoder.blocks.{block}.{ours}{inner.removeprefix(released)}"
    raise SkelbenchError(f"its tensor {name!r} belongs to another model")


def graph_settings(state: Mapping[str, Tensor], prefix: str = "encoder_q.") -> dict[str, Any]:
    """Return the settings of the public ST-GCN whose tensors' names begin with ``prefix``.

    Raises:
        SkelbenchError: there is none.
    """
    spread = tensor_of(state, f"{prefix}st_gcn_networks.0.gcn.conv.weight", "3 C x 3 x 1 x 1", lambda s: len(s) == 4)
    last = tensor_of(state, f"{prefix}st_gcn_networks.9.gcn.conv.weight", "3 C x C' x 1 x 1", lambda s: len(s) == 4)
    time = tensor_of(state, f"{prefix}st_gcn_networks.0.tcn.2.weight", "C x C x frames x 1", lambda s: len(s) == 4)
    sizes = {"base": spread.shape[0] // 3, "out": last.shape[0] // 3, "kernel": time.shape[2]}
    return {f"encoder.{name}": size for name, size in sizes.items()}


def imported(state: Mapping[str, Tensor], options: Mapping[str, Any]) -> Imported:
    """Return the content of a checkpoint of either code: encoder, head, copies, queue; or encoder, classifier."""
    query, twins = "encoder_q.", {"encoder_q.": "", "encoder_k.": "key_"}
    settings = graph_settings(state)
    weights: dict[str, Tensor] = {}
    for name, tensor in state.items():
        prefix = next((prefix for prefix in twins if name.startswith(prefix)), None)
        if prefix is not None:
            ours = graph_name(name.removeprefix(prefix))
            weights |= {twins[prefix] + ours: tensor} if ours else {}
        elif name not in ("queue", "queue_ptr"):
            raise SkelbenchError(f"its tensor {name!r} belongs to another model")
    if "queue" not in state:  # a classifier in the place of the head
        left_out = tuple(name for name in state if name.startswith(f"{query}fc."))
        return Imported(settings, {name: x for name, x in weights.items() if not name.startswith("head.")}, left_out)
    keys_EK = tensor_of(state, "queue", "E x K", lambda s: len(s) == 2)
    settings |= {"method.embedding": keys_EK.shape[0], "method.queue": keys_EK.shape[1]}
    return Imported(settings, weights | {"queue.keys_KE": keys_EK.T}, ())
