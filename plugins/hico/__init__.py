"""HiCo: momentum contrast at five levels of a clip (Dong et al., AAAI 2023).

Stretches of frames and groups of joints at several granularities ("clips" and "parts"), all of them over time, all over
joints, and the whole. The finest stretch has the key's at every granularity as positives, and so has the finest group;
what is seen over time is told from the keys over joints and the other way round. Facts: HuiGuanLab/HiCo @cf39a93,
hico/builder.py, losses.py, pretraining.py. B clips, G granularities, D width, E of an embedding, n clips in a queue, N
random vectors that pass for keys.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import FP32, LONG_NATIVE, LONG_STEPS, MOCO_RECIPE, MOMENTUM_SPACE, RATES_SPACE
from torch import Tensor, nn

from skelbench.errors import SkelbenchError
from skelbench.methods import DistortedConfig, Method
from skelbench.nn.contrast import KeyQueue, cosines, info_nce, similarities
from skelbench.nn.ema import ema_copy, ema_update
from skelbench.nn.heads import xavier_head
from skelbench.optim.groups import one_group
from skelbench.plugin import EncoderSpec, Log, MethodSpec, NativeProbe, hookimpl

GRANULAR, WHOLE = ("clip", "part"), ("time", "space", "instance")
"""Levels with an embedding per granularity, and levels with one."""
OTHER = {"time": "space", "space": "time", "instance": "instance"}
"""The level whose keys a level is compared with."""


class HiCoConfig(DistortedConfig):
    """Defaults are those of the authors' code, but for ``resize`` and ``coarse_queue``."""

    stream: Literal["joint", "bone", "motion"] = Field("joint", description="what of the clip it is trained on")
    granularities: int = Field(4, ge=2, description="granularities over time and over joints")
    queue: int = Field(2048, ge=1, description="clips in the queues")
    coarse_queue: Literal["whole", "refreshes-a-part-as-released"] = Field(
        "whole",
        description="queues of clips and parts: G keys of every clip in the queue; or, as released, those of a G-th of "
        "them, beside random vectors that stay for ever",
    )
    embedding: int = Field(128, ge=1, description="width of the embeddings")
    momentum: float = Field(0.999, ge=0, le=1, description="of the key encoder, constant")
    temperature: float = Field(0.2, gt=0, description="of the softmax over keys")


class HiCo(Method):
    """An encoder and a head per level, and both again for keys."""

    Config = HiCoConfig
    roles = {"encoder": "student", "heads": "head", "key_encoder": "teacher", "key_heads": "head"}
    whole_batch = ""
    stale_2NE: Tensor

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        width, count, own = context.width, config.granularities, self.encoder.granularities
        if own not in (0, count):
            raise SkelbenchError(
                f"method.granularities={count} but the encoder has {own}; give --set method.granularities={own}"
            )
        widths = dict(zip((*GRANULAR, *WHOLE), (width, width, count * width, count * width, context.summary_width)))
        self.heads = nn.ModuleDict({level: xavier_head(w, width, config.embedding) for level, w in widths.items()})
        self.key_encoder, self.key_heads = ema_copy(self.encoder, batch_norm="train"), ema_copy(self.heads)
        self.queue = KeyQueue(config.queue, len(WHOLE) * config.embedding)
        clips = config.queue if config.coarse_queue == "whole" else max(1, config.queue // count)
        self.coarse_queue = KeyQueue(clips, len(GRANULAR) * count * config.embedding)
        stale_2NE = torch.randn(len(GRANULAR), (config.queue - clips) * count, config.embedding)
        self.register_buffer("stale_2NE", F.normalize(stale_2NE, dim=2))

    @classmethod
    def views(cls, config, grid):
        return {name: config.view(grid, stream=config.stream) for name in ("query", "key")}

    def training_step(self, views, step):
        temperature, clips = self.config.temperature, views["query"].clips
        query = self._embeddings(self.encoder, self.heads, views["query"])
        with torch.no_grad():
            key = self._embeddings(self.key_encoder, self.key_heads, views["key"])
        seen = step.clips(views["key"])
        keys = dict(zip(WHOLE, self.queue.written(step.index, seen).chunk(len(WHOLE), 1)))
        coarse = self.coarse_queue.written(step.index, seen).chunk(len(GRANULAR), 1)
        for level, keys_nL, stale_NE in zip(GRANULAR, coarse, self.stale_2NE):
            keys[level] = torch.cat([keys_nL.reshape(-1, self.config.embedding), stale_NE])
        loss = {}
        for level in GRANULAR:
            finest_BE, key_BGE = query[level][:, 0], key[level]
            own_BG = (finest_BE[:, None] * key_BGE).sum(2)
            logits_Bn = torch.cat([own_BG, cosines(finest_BE, keys[level])], 1) / temperature
            positive_n = torch.arange(logits_Bn.shape[1], device=logits_Bn.device) < key_BGE.shape[1]
            loss[level] = info_nce(logits_Bn, positive_n.expand_as(logits_Bn), "sum")
        for level, other in OTHER.items():
            loss[level] = info_nce(similarities(query[level], key[other], keys[other], temperature))
        for level in WHOLE:
            step.watch(level, query[level])
        step.keep("keys", torch.cat([key[level] for level in WHOLE], 1))
        step.keep("coarse", torch.cat([key[level].flatten(1) for level in GRANULAR], 1))
        loss = {level: step.mean(loss_B.sum(), clips) for level, loss_B in loss.items()}
        return {"loss": sum(loss.values()), **{level: x.detach() for level, x in loss.items()}}

    def _embeddings(self, encoder, heads, view):
        """Unit vectors by level: [B, G, E] of granularities, [B, E] of the others."""
        encoded = encoder(view)
        both = encoded.granularities(self.context.grid.joints, self.config.granularities)
        if not encoded.per_clip:
            both = [view.per_clip(x_RGD.flatten(1)).unflatten(1, x_RGD.shape[1:]) for x_RGD in both]
        features = (*both, *(x_BGD.flatten(1) for x_BGD in both), encoded.clip_summary(view))
        levels = zip((*GRANULAR, *WHOLE), features)
        return {level: F.normalize(heads[level](x).float(), dim=-1) for level, x in levels}

    def optim_groups(self):
        """Everything decays, biases and norms too, as in the code."""
        return one_group(self)

    def after_step(self, step):
        ema_update(self.key_encoder, self.encoder, self.config.momentum)
        ema_update(self.key_heads, self.heads, self.config.momentum)
        self.queue.push(step.index, step.kept("keys"))
        self.coarse_queue.push(step.index, step.kept("coarse"))


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="hico",
            target="skelbench_plugins.hico.encoder:HiCoEncoder",
            config="skelbench_plugins.hico.encoder:HiCoEncoderConfig",
            summary="a transformer layer over frames and one over joints of both bodies, each at four granularities",
            presets={"small": {"dim": 64}, "quick": {"dim": 48}},
        )
    ]


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="hico",
            target=":HiCo",
            config=":HiCoConfig",
            imports="skelbench_plugins.hico.checkpoint:imported",
            probe=NativeProbe(protocol="linear@hico", best_on_test=True),
            summary="two views of a clip agree at five levels, from stretches of frames and groups of joints to the "
            "whole, told apart from the keys of earlier clips in queues",
            citation="Dong et al., Hierarchical Contrast for Unsupervised Skeleton-based Action Representation "
            "Learning, AAAI 2023 (arXiv 2212.02082)",
            requires=("granularities",),
            readings="shared: granularities are maxima of the means of 1, 2, 4 and 8 neighbouring patches of the "
            "tokens' mean over joints, and of neighbouring joints of their mean over patches, a clip's present bodies "
            "averaged; the instance is the class token; only keys that have been written are negatives (the code "
            "begins with random ones); keys are made without dropout",
            recipe=MOCO_RECIPE | LONG_STEPS | {"train.batch_size": 64, "train.lr": 0.01},
            native=LONG_NATIVE
            | FP32
            | {
                "encoder": "hico",
                "train.align": "first-frame-as-released",
                "method.coarse_queue": "refreshes-a-part-as-released",  # what the published numbers were made with
            },
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.05, 0.5)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
