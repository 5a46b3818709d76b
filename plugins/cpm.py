"""CPM: a clip's views are similar to the same earlier clips; the nearest become positives (Zhang et al., ECCV 2022).

There is no public code: the implementation is our assumption from the paper's abstract and from notes on it. A student
with a predictor learns the similarities between its EMA target and the embeddings of earlier clips in a queue; in the
last part of the schedule the nearest of these count as positives too. B clips, E width of an embedding, n keys.
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import GRAPH_CONTRAST_NATIVE, GRAPH_CONTRAST_RECIPE, MOMENTUM_SPACE, RATES_SPACE

from skelbench.core import distributed
from skelbench.methods import MomentumContrast, MomentumContrastConfig
from skelbench.models.contrast import cosines, divergence, nearest
from skelbench.models.ema import ema_copy
from skelbench.models.heads import perceptron
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl


class CPMConfig(MomentumContrastConfig):
    """Settings, all our assumptions; queue and key encoder follow SkeletonCLR."""

    momentum: float = Field(
        0.999, ge=0, le=1, description="EMA momentum of the target; 0 = it shares the student's weights"
    )
    temperature: float = Field(
        0.1, gt=0, description="temperature of the student's similarities to keys (our assumption)"
    )
    target_temperature: float = Field(
        0.05, gt=0, description="temperature of the target's similarities, which are sharper (our assumption)"
    )
    mining_from: float = Field(2 / 3, ge=0, le=1, description="fraction of the schedule without positives; assumption")
    positives: float = Field(
        1e-3, gt=0, le=1, description="fraction of the queue used as positives later, at least one key (our assumption)"
    )


class CPM(MomentumContrast):
    """A student that learns a target's similarities to the embeddings of earlier clips."""

    Config = CPMConfig
    roles = MomentumContrast.roles | {"predictor": "head"}
    whole_batch = "heads normalize by the whole batch"
    min_clips = 2

    def __init__(self, config, context):
        super().__init__(config, context)
        self.head = perceptron(self.clip_width, self.clip_width, config.embedding)
        self.key_head = ema_copy(self.head, mode="train")
        self.predictor = perceptron(config.embedding, config.embedding, config.embedding)

    @classmethod
    def views(cls, config, grid):
        return {"student": config.view(grid), "target": config.view(grid)}

    def phases(self):
        return [("similarity", 0.0), ("mining", self.config.mining_from)]

    def training_step(self, views, step):
        config, (student, target) = self.config, views.values()
        feature_BD = step.gather(self.clip_features(self.encoder(student), student), gradient=True)
        student_BE = F.normalize(self.predictor(self.head(feature_BD)).float(), dim=1)
        with torch.no_grad():
            feature_BD = step.gather(self.clip_features(self.key_encoder(target), target))
            target_BE = F.normalize(self.key_head(feature_BD).float(), dim=1)
        step.keep("keys", target_BE[distributed.own_share(len(target_BE))])
        keys_nE = self.queue.written(step.index, step.clips(target))
        alike_Bn = cosines(target_BE, keys_nE)
        if step.phase == "mining":
            positives = max(1, round(config.positives * config.queue))
            alike_Bn = alike_Bn.masked_fill(nearest(alike_Bn, positives), 1.0)  # as similar as the clip itself
        loss_B = divergence(cosines(student_BE, keys_nE) / config.temperature, alike_Bn / config.target_temperature)
        step.watch("student", student_BE)
        return {"loss": loss_B.mean()}


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="cpm",
            spelling="CPM",
            target=":CPM",
            version=2,
            config=":CPMConfig",
            summary="two views agree on their similarities to earlier clips; the nearest ones are positives",
            citation="Zhang et al., Contrastive Positive Mining for Unsupervised 3D Action Representation Learning, "
            "ECCV 2022 (arXiv 2208.03497)",
            readings="there is no public code: encoder, clips, optimizer and queue are SkeletonCLR's, head and "
            "predictor are BYOL's (linear, batch norm, ReLU, linear); temperatures, momentum, the fraction of "
            "positives and their start are our assumption; the target's similarity to a positive is 1; the student "
            "gets one view, the target the other; the target is a moving average (method.momentum=0, cpm:shared: it "
            "shares the weights, as notes on the paper say)",
            recipe=GRAPH_CONTRAST_RECIPE,
            native=GRAPH_CONTRAST_NATIVE,
            probe=NativeProbe(protocol="linear@aimclr"),
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={
                "shared": {"method.momentum": 0.0},
                "no-mining": {"method.mining_from": 1.0},
                "bone": {"method.stream": "bone"},
                "motion": {"method.stream": "motion"},
            },
        )
    ]
