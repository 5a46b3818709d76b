"""SCD-Net: what a clip is over time and over joints, each told from the clip as a whole (Wu et al., AAAI 2024).

Of two views of a clip, in which joints and stretches of frames may be missing, the embedding over time and that over
joints have the key of the whole as their positive, and the embedding of the whole has the key of either; nothing is
compared with its own kind. Facts: cong-wu/SCD-Net, scd/builder.py, pretraining.py, feeder/augmentations.py and
feeder_pretraining.py. B clips, E width of an embedding.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import FP32, LONG_NATIVE, LONG_STEPS, MOCO_RECIPE, MOMENTUM_SPACE, RATES_SPACE
from torch import nn

from skelbench.methods import DistortedConfig, Method
from skelbench.nn.contrast import KeyQueue, info_nce, similarities
from skelbench.nn.ema import ema_copy, ema_update
from skelbench.nn.heads import xavier_head
from skelbench.optim.groups import one_group
from skelbench.plugin import EncoderSpec, Log, MethodSpec, NativeProbe, hookimpl
from skelbench.views import AxisRotate, HideFrames, HideJoints, Mirror, Shear

LEVELS = ("time", "space", "instance")
PAIRS = (("time", "instance"), ("space", "instance"), ("instance", "time"), ("instance", "space"))
"""A level of the query, and the level whose keys it is compared with."""


class SCDNetConfig(DistortedConfig):
    """Defaults are those of the authors' code, but for ``resize``."""

    stream: Literal["joint", "bone", "motion"] = Field("joint", description="what of the clip it is trained on")
    queue: int = Field(8192, ge=1, description="keys in each queue")
    embedding: int = Field(128, ge=1, description="width of the embeddings")
    momentum: float = Field(0.999, ge=0, le=1, description="of the key encoder, constant")
    temperature: float = Field(0.2, gt=0, description="of the softmax over keys")


class SCDNet(Method):
    """An encoder and three heads, and both again for keys; a clip's three keys stand side by side in one queue."""

    Config = SCDNetConfig
    roles = {"encoder": "student", "heads": "head", "key_encoder": "teacher", "key_heads": "head"}
    whole_batch = ""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder, width = context.encoder(), context.width
        widths = dict(zip(LEVELS, (width, width, context.summary_width)))
        self.heads = nn.ModuleDict({level: xavier_head(w, width, config.embedding) for level, w in widths.items()})
        self.key_encoder, self.key_heads = ema_copy(self.encoder, batch_norm="train"), ema_copy(self.heads)
        self.queue = KeyQueue(config.queue, len(LEVELS) * config.embedding)

    @classmethod
    def views(cls, config, grid):
        missing = (AxisRotate(p=0.5), Mirror(reflect=False), Shear(p=0.5, amplitude=1.0), HideJoints(), HideFrames())
        return {name: config.view(grid, stream=config.stream, augment=missing) for name in ("query", "key")}

    def training_step(self, views, step):
        clips = views["query"].clips
        query = self._embeddings(self.encoder, self.heads, views["query"])
        with torch.no_grad():
            key = self._embeddings(self.key_encoder, self.key_heads, views["key"])
        keys = dict(zip(LEVELS, self.queue.written(step.index, step.clips(views["key"])).chunk(len(LEVELS), 1)))
        loss = {}
        for level, other in PAIRS:
            loss_B = info_nce(similarities(query[level], key[other], keys[other], self.config.temperature))
            loss[f"{level}_{other}"] = step.mean(loss_B.sum(), clips)
        for level in LEVELS:
            step.watch(level, query[level])
        step.keep("keys", torch.cat([key[level] for level in LEVELS], 1))
        return {"loss": sum(loss.values()), **{pair: x.detach() for pair, x in loss.items()}}

    def _embeddings(self, encoder, heads, view):
        """Unit vectors [B, E] by level."""
        encoded = encoder(view)
        features = (*encoded.time_and_space(self.context.grid.joints), encoded.summary_RD)
        of_clips = {level: encoded.of_clips(x_RD, view) for level, x_RD in zip(LEVELS, features)}
        return {level: F.normalize(heads[level](x_BD).float(), dim=1) for level, x_BD in of_clips.items()}

    def optim_groups(self):
        """Everything decays, biases and norms too, as in the code."""
        return one_group(self)

    def after_step(self, step):
        ema_update(self.key_encoder, self.encoder, self.config.momentum)
        ema_update(self.key_heads, self.heads, self.config.momentum)
        self.queue.push(step.index, step.kept("keys"))


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="scd-net",
            target="skelbench_plugins.scd_net.encoder:SCDNetEncoder",
            config="skelbench_plugins.scd_net.encoder:SCDNetEncoderConfig",
            summary="graph convolutions and a transformer layer over frames, others over joints of both bodies",
            presets={"small": {"dim": 64, "channels": 16}, "quick": {"dim": 48, "channels": 8}},
        )
    ]


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="scd-net",
            target=":SCDNet",
            config=":SCDNetConfig",
            probe=NativeProbe(protocol="linear@hico", best_on_test=True),
            summary="what a clip is over time, and over joints, is told from the keys of whole clips and the other way "
            "round, with joints and stretches of frames missing",
            citation="Wu et al., SCD-Net: Spatiotemporal Clues Disentanglement Network for Self-supervised "
            "Skeleton-based Action Recognition, AAAI 2024 (arXiv 2309.05834)",
            requires=("time-and-space",),
            readings="bones and motion are made after augmenting (the code: before; the same but for what is missing); "
            "which of joints with as many walks are hidden is drawn (the code: as its sort leaves them); only keys "
            "that have been written are negatives (the code begins with random ones); keys are made without dropout; "
            "shared: time is the maximum over patches of the tokens' mean over joints, space the maximum over joints "
            "of their mean over patches, the instance the class token, each a mean over the clip's bodies",
            recipe=MOCO_RECIPE | LONG_STEPS | {"train.batch_size": 64, "train.lr": 0.01},
            native=LONG_NATIVE | FP32 | {"encoder": "scd-net", "train.align": "first-frame-as-released"},
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.05, 0.5)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
