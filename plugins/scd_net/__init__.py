"""SCD-Net: what a clip is over time and over joints, each told from the clip as a whole (Wu et al., AAAI 2024).

Of two views of a clip, in which joints and stretches of frames may be missing, the embedding over time and that over
joints have the key of the whole as their positive, and the embedding of the whole has the key of either; nothing is
compared with its own kind. Facts: cong-wu/SCD-Net, scd/builder.py, pretraining.py, feeder/augmentations.py and
feeder_pretraining.py. B clips, E width of an embedding, R rows, K rows that are changed, T frames, J joints.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import FP32, LONG_NATIVE, LONG_STEPS, MOCO_RECIPE, MOMENTUM_SPACE, RATES_SPACE
from torch import Tensor, nn

from skelbench.errors import SkelbenchError
from skelbench.methods import DistortedConfig, Method
from skelbench.nn.contrast import KeyQueue, info_nce, similarities
from skelbench.nn.ema import ema_copy, ema_update
from skelbench.nn.heads import xavier_head
from skelbench.optim.groups import one_group
from skelbench.plugin import EncoderSpec, Log, MethodSpec, NativeProbe, hookimpl
from skelbench.views import Augment, AxisRotate, Change, Mirror, Shear
from skelbench.views.bounds import in_unit
from skelbench.views.keyed import pick
from skelbench.views.transfer import send

LEVELS = ("time", "space", "instance")
PAIRS = (("time", "instance"), ("space", "instance"), ("instance", "time"), ("instance", "space"))
"""A level of the query, and the level whose keys it is compared with."""


class StructuralMask(Augment):
    """Put joints near each other at the origin: the ``share`` of all to which most walks of two steps, along bones or
    staying, lead from ``seeds`` joints, which are drawn with repeats; where as many lead, chance decides.

    >>> StructuralMask(seeds=3)
    StructuralMask(p=0.5, seeds=3, share=0.32)
    """

    kind = "structural-mask"
    seeds: int = Field(5, ge=1)
    share: float = 0.32

    def draw(self, draws):
        joints = draws.topology.num_joints
        near_JJ = torch.eye(joints)
        for pair in enumerate(draws.topology.bones):
            near_JJ[pair] = near_JJ[pair[::-1]] = 1.0
        u_KN = draws.per_clip(self.seeds + joints)
        walks_KJ = (near_JJ @ near_JJ)[pick(u_KN[:, : self.seeds], joints)].sum(1) + 0.5 * u_KN[:, self.seeds :]
        hidden_Kn = walks_KJ.topk(math.floor(self.share * joints + 0.5), dim=1).indices
        return draws.linear(joints_KJJ=torch.diag_embed(torch.ones(walks_KJ.shape).scatter(1, hidden_Kn, 0.0)))

    def check(self, where):
        super().check(where)
        in_unit(self.share, f"{where}: the share of joints of {self.kind!r}")


class BlockMask(Augment):
    """Put all joints at the origin in ``hidden`` of ``blocks`` equal stretches of frames.

    >>> BlockMask(hidden=3)
    BlockMask(p=0.5, blocks=16, hidden=3)
    """

    kind = "block-mask"
    blocks: int = Field(16, ge=1)
    hidden: int = Field(6, ge=1)

    def draw(self, draws):
        order_KN = draws.per_clip(self.blocks).argsort(dim=1, stable=True).argsort(dim=1)
        hidden_RN = torch.zeros(len(draws.view_R), self.blocks, dtype=torch.bool)
        hidden_RN[draws.rows_K] = order_KN < self.hidden
        return Blank(hidden_RN)

    def check(self, where):
        super().check(where)
        if self.hidden > self.blocks:
            raise SkelbenchError(f"{where}: {self.kind!r} cannot hide {self.hidden} of {self.blocks} blocks")


@dataclass(frozen=True)
class Blank(Change):
    """Some of N equal stretches of a row's frames at the origin."""

    hidden_RN: Tensor
    """bool."""

    def take(self, index):
        return Blank(self.hidden_RN[index])

    def apply(self, x_R3TJ, keyed):
        frames, blocks = x_R3TJ.shape[2], self.hidden_RN.shape[1]
        hidden_RT = self.hidden_RN[:, torch.arange(frames) * blocks // frames]
        return x_R3TJ.masked_fill_(send(hidden_RT, x_R3TJ.device)[:, None, :, None], 0.0)


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
        missing = (AxisRotate(p=0.5), Mirror(reflect=False), Shear(p=0.5, amplitude=1.0), StructuralMask(), BlockMask())
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
        both = encoded.time_and_space(self.context.grid.joints)
        if not encoded.per_clip:
            both = [view.per_clip(x_RD) for x_RD in both]
        features = zip(LEVELS, (*both, encoded.clip_summary(view)))
        return {level: F.normalize(heads[level](x_BD).float(), dim=1) for level, x_BD in features}

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
