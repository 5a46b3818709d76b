"""HiCo: momentum contrast at five levels of a clip (Dong et al., AAAI 2023).

The levels are stretches of frames and groups of joints at several granularities ("clips" and "parts"), all frames, all
joints, and the whole clip. The positives of the finest stretch are the key's stretches at every granularity, and the
same for groups. Features over time are contrasted with the keys over joints and vice versa. Facts: HuiGuanLab/HiCo
@cf39a93, hico/builder.py, losses.py, pretraining.py. B clips, G granularities, D width, E of an embedding, n clips in a
queue, N random vectors used as keys.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._probes import DROPS, SteppedLinear
from skelbench_plugins._recipes import (
    LONG_CONTRAST_NATIVE,
    LONG_CONTRAST_RECIPE,
    MOMENTUM_SPACE,
    RATES_SPACE,
    SIDE_BY_SIDE,
)
from torch import Tensor

from skelbench.core.component import Share
from skelbench.core.errors import SkelbenchError
from skelbench.methods import LEVELS, DistortedContrastConfig, LevelContrast
from skelbench.models.contrast import KeyQueue, cosines, info_nce, similarities
from skelbench.plugin import EncoderSpec, Log, MethodSpec, NativeProbe, ProtocolSpec, hookimpl

GRANULAR = ("clip", "part")
"""Levels with an embedding per granularity; the others have one."""
OTHER = {"time": "space", "space": "time", "instance": "instance"}
"""Level -> the level whose keys it is compared with."""


class HiCoConfig(DistortedContrastConfig):
    """Defaults follow the authors' code, except ``resize`` and ``coarse_queue``."""

    granularities: int = Field(4, ge=2, description="granularities over time and over joints")
    queue: int = Field(2048, ge=1, description="clips in the queues")
    coarse_queue: Literal["whole", "refreshes-a-part-as-released"] = Field(
        "whole",
        description="queues of clips and parts: G keys of every clip in the queue; or, as released, keys of a G-th of "
        "the clips and random vectors that never change",
    )
    temperature: float = Field(0.2, gt=0, description="temperature of the softmax over keys")


class HiCo(LevelContrast):
    """Five levels, two of them at every granularity."""

    Config = HiCoConfig
    stale_2NE: Tensor

    def __init__(self, config, context):
        super().__init__(config, context)
        count = config.granularities
        clips = config.queue if config.coarse_queue == "whole" else max(1, config.queue // count)
        self.coarse_queue = KeyQueue(clips, len(GRANULAR) * count * config.embedding)
        stale_2NE = torch.randn(len(GRANULAR), (config.queue - clips) * count, config.embedding)
        self.register_buffer("stale_2NE", F.normalize(stale_2NE, dim=2))

    @classmethod
    def views(cls, config, grid):
        return {name: config.view(grid, stream=config.stream) for name in ("query", "key")}

    def widths(self):
        width, count, own = self.context.width, self.config.granularities, self.encoder.granularities
        if own not in (0, count):
            raise SkelbenchError(
                f"method.granularities={count} but the encoder has {own}; give --set method.granularities={own}"
            )
        widths = dict.fromkeys(LEVELS, count * width) | {"instance": self.context.summary_width}
        return dict.fromkeys(GRANULAR, width) | widths

    def features(self, encoded, view):
        """[B, G, D] of granularities."""
        both = encoded.granularities(self.context.grid.joints, self.config.granularities)
        both = [encoded.of_clips(x_RGD.flatten(1), view).unflatten(1, x_RGD.shape[1:]) for x_RGD in both]
        whole_features = (*(x_BGD.flatten(1) for x_BGD in both), encoded.clip_summary(view))
        return dict(zip(GRANULAR, both)) | dict(zip(LEVELS, whole_features))

    def training_step(self, views, step):
        temperature, clips = self.config.temperature, views["query"].clips
        query, key, keys = self.embeddings(views, step)
        coarse = self.coarse_queue.written(step.index, step.clips(views["key"])).chunk(len(GRANULAR), 1)
        loss = {}
        for level, keys_nL, stale_NE in zip(GRANULAR, coarse, self.stale_2NE):
            finest_BE, key_BGE = query[level][:, 0], key[level]
            keys_nE = torch.cat([keys_nL.reshape(-1, self.config.embedding), stale_NE])
            own_BG = (finest_BE[:, None] * key_BGE).sum(2)
            logits_Bn = torch.cat([own_BG, cosines(finest_BE, keys_nE)], 1) / temperature
            positive_n = torch.arange(logits_Bn.shape[1], device=logits_Bn.device) < key_BGE.shape[1]
            loss[level] = info_nce(logits_Bn, positive_n.expand_as(logits_Bn), "sum")
        for level, partner in OTHER.items():
            loss[level] = info_nce(similarities(query[level], key[partner], keys[partner], temperature))
        step.keep("coarse", torch.cat([key[level].flatten(1) for level in GRANULAR], 1))
        loss = {level: step.mean(loss_B.sum(), clips) for level, loss_B in loss.items()}
        return {"loss": sum(loss.values()), **{level: x.detach() for level, x in loss.items()}}

    def after_step(self, step):
        super().after_step(step)
        self.coarse_queue.push(step.index, step.kept("coarse"))


class HiCoLinear(SteppedLinear):
    """``linear@hico``: the probe of HiCo's and SCD-Net's codes (HuiGuanLab/HiCo cf39a93, cong-wu/SCD-Net:
    action_classification.py, its script or README, options_classification.py), which crop training clips like test
    clips.
    """

    lr: float = Field(2.0, gt=0, description="learning rate at the start, not scaled by the batch size")
    batch_size: int = Field(1024, ge=2, description="clips per step")
    epochs: int = Field(80, ge=1, description="passes over the training clips")
    drops: tuple[Share, ...] = Field((50 / 80, 70 / 80), description=DROPS)


@hookimpl
def skelbench_protocols():
    return [
        ProtocolSpec(
            name="linear@hico",
            target=":HiCoLinear",
            summary="linear probe of the code of HiCo and SCD-Net: SGD 2.0, 80 epochs, central 95 % of clips",
            defaults=SIDE_BY_SIDE,
        )
    ]


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
            spelling="HiCo",
            target=":HiCo",
            version=2,
            config=":HiCoConfig",
            imports="skelbench_plugins.hico.checkpoint:imported",
            probe=NativeProbe(protocol="linear@hico", best_on_test=True),
            summary="momentum contrast at five levels, from short segments and joint groups to the clip",
            citation="Dong et al., Hierarchical Contrast for Unsupervised Skeleton-based Action Representation "
            "Learning, AAAI 2023 (arXiv 2212.02082)",
            requires=("granularities",),
            readings="shared: granularities are maxima of the means of 1, 2, 4 and 8 neighboring patches of the "
            "tokens' mean over joints, and of neighboring joints of their mean over patches, a clip's present bodies "
            "averaged; the instance is the class token; unfilled queue slots are skipped (the code begins with random "
            "ones)",
            recipe=LONG_CONTRAST_RECIPE,
            native=LONG_CONTRAST_NATIVE
            | {
                "encoder": "hico",
                "method.coarse_queue": "refreshes-a-part-as-released",  # as in the published runs
            },
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.05, 0.5)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
