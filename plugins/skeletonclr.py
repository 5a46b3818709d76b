"""SkeletonCLR: MoCo v2 on skeletons (Li et al., CVPR 2021, the baseline of CrosSCLR).

Two views of a clip agree, told apart from the keys of earlier clips in a queue; keys come from an encoder that follows
by moving average. Facts: LinguoLi/CrosSCLR, net/skeletonclr.py and feeder/tools.py. A clip's bodies are averaged before
the projection, so they are never each other's negatives. B clips, E width of the embedding, K keys in the queue.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import MOMENTUM_SPACE, RATES_SPACE
from torch import nn

from skelbench.methods import Config, Method
from skelbench.nn.contrast import KeyQueue, info_nce, similarities
from skelbench.nn.ema import ema_copy, ema_update
from skelbench.plugin import Log, MethodSpec, hookimpl
from skelbench.views import ReflectCrop, Shear, ViewSpec


class SkeletonCLRConfig(Config):
    """Defaults are those of the authors' code."""

    stream: Literal["joint", "bone", "motion"] = Field("joint", description="what of the clip it is trained on")
    queue: int = Field(32768, ge=1, description="keys in the queue")
    embedding: int = Field(128, ge=1, description="width of the embedding")
    momentum: float = Field(0.999, ge=0, le=1, description="of the key encoder, constant")
    temperature: float = Field(0.07, gt=0, description="of the softmax over keys")
    shear: float = Field(0.5, ge=0, description="amplitude of the shear")


class SkeletonCLR(Method):
    """Momentum contrast between two sheared and shifted views of a clip."""

    Config = SkeletonCLRConfig
    roles = {"encoder": "student", "head": "head", "key_encoder": "teacher", "key_head": "head"}

    def __init__(self, config, context):
        super().__init__(config, context)
        width = context.summary_width
        self.encoder = context.encoder()
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, config.embedding))
        self.key_encoder = ema_copy(self.encoder, batch_norm="train")
        self.key_head = ema_copy(self.head)
        self.queue = KeyQueue(config.queue, config.embedding)

    @classmethod
    def views(cls, config, grid):
        view = ViewSpec(
            frames=grid.frames, crop=ReflectCrop(), augment=(Shear(amplitude=config.shear),), stream=config.stream
        )
        return {"query": view, "key": view}

    def training_step(self, views, step):
        query, key = views["query"], views["key"]
        query_BE = F.normalize(self.head(self.encoder(query).clip_summary(query)).float(), dim=1)
        with torch.no_grad():
            key_BE = F.normalize(self.key_head(self.key_encoder(key).clip_summary(key)).float(), dim=1)
        keys_nE = self.queue.written(step.index, query.clips)
        loss_B = info_nce(similarities(query_BE, key_BE, keys_nE, self.config.temperature))
        step.watch("query", query_BE)
        self._keys_BE = key_BE
        return {"loss": step.mean(loss_B.sum(), query.clips)}

    def after_step(self, step):
        ema_update(self.key_encoder, self.encoder, self.config.momentum)
        ema_update(self.key_head, self.head, self.config.momentum)
        self.queue.push(step.index, self._keys_BE)
        del self._keys_BE


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="skeletonclr",
            target=":SkeletonCLR",
            config=":SkeletonCLRConfig",
            summary="two views of a clip agree, told apart from the keys of earlier clips in a queue (MoCo v2)",
            citation="Li et al., 3D Human Action Representation Learning via Cross-View Consistency Pursuit, CVPR 2021 "
            "(arXiv 2104.14466)",
            readings="crops are drawn before resampling and in continuous time; only keys that have been written are "
            "negatives; a clip's present bodies are averaged (the code averages an empty one in: --native)",
            recipe={
                "optimizer": "sgd",
                "optimizer.momentum": 0.9,
                "schedule": "step",
                "schedule.milestones": (250 / 300,),
                "schedule.gamma": 0.1,
                "train.batch_size": 128,
                "train.lr": 0.1,
                "train.weight_decay": 1e-4,
            },
            native={
                "encoder": "stgcn",
                "grid.frames": 50,
                "grid.patch": 1,
                "train.epochs": 300,
                "train.bodies": "all-slots",
                "train.precision": "fp32",
            },
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
