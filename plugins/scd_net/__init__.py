"""SCD-Net: features over time and over joints, each contrasted with the feature of the whole clip (Wu et al., AAAI
2024).

Joints and stretches of frames may be missing in the two views of a clip. The positive of the embeddings over time and
over joints is the key of the whole clip; the positives of the whole are the keys over time and over joints. No level is
compared with itself. Facts: cong-wu/SCD-Net, scd/builder.py, pretraining.py, feeder/augmentations.py and
feeder_pretraining.py. B clips, E width of an embedding; R rows, K rows that are changed, T frames, J joints, N
stretches of frames.
"""

import math
from dataclasses import dataclass

import torch
from pydantic import Field
from skelbench_plugins._recipes import LONG_CONTRAST_NATIVE, LONG_CONTRAST_RECIPE, MOMENTUM_SPACE, RATES_SPACE
from torch import Tensor

from skelbench.methods import DistortedContrastConfig, LevelContrast
from skelbench.models.contrast import info_nce, similarities
from skelbench.plugin import EncoderSpec, Log, MethodSpec, NativeProbe, hookimpl
from skelbench.views import AxisRotate, Mirror, Shear
from skelbench.views.augmentations import Augment, Draws
from skelbench.views.bounds import Fraction
from skelbench.views.keyed import pick
from skelbench.views.transfer import send
from skelbench.views.transform import Change

PAIRS = (("time", "instance"), ("space", "instance"), ("instance", "time"), ("instance", "space"))
"""Pairs: a level of the query, and the level whose keys it is compared with."""


class HideJoints(Augment):
    """Put a fraction ``share`` of the joints at the origin, joints that are near each other: those with most walks of
    two steps (along a bone, or staying) from ``seeds`` joints drawn with replacement; ties at random. cong-wu/SCD-Net,
    feeder/augmentations.py: 8 of 25 joints.
    """

    kind = "hide-joints"
    seeds: int = Field(5, ge=1, description="Number of drawn joints whose surroundings are hidden.")
    share: Fraction = Field(0.32, description="Fraction of the joints that is hidden.")

    def draw(self, draws: Draws) -> Change:
        joints = draws.topology.num_joints
        near_JJ = torch.eye(joints) + torch.from_numpy(draws.topology.linked)
        u_KN = draws.per_clip(self.seeds + joints)
        walks_KJ = (near_JJ @ near_JJ)[pick(u_KN[:, : self.seeds], joints)].sum(1) + 0.5 * u_KN[:, self.seeds :]
        hidden_Kn = walks_KJ.topk(math.floor(self.share * joints + 0.5), dim=1).indices
        return draws.linear(joints_KJJ=torch.diag_embed(torch.ones(walks_KJ.shape).scatter(1, hidden_Kn, 0.0)))


class HideFrames(Augment):
    """Put all joints at the origin in ``hidden`` of ``blocks`` equal stretches (cong-wu/SCD-Net: of 4 frames each)."""

    kind = "hide-frames"
    blocks: int = Field(16, ge=1, description="Number of equal stretches of a view.")
    hidden: int = Field(6, ge=1, description="Number of hidden stretches.")

    def draw(self, draws: Draws) -> Change:
        order_KN = draws.per_clip(self.blocks).argsort(dim=1, stable=True).argsort(dim=1)
        hidden_RN = torch.zeros(len(draws.view_R), self.blocks, dtype=torch.bool)
        hidden_RN[draws.rows_K] = order_KN < self.hidden
        return Blank(hidden_RN)


@dataclass(frozen=True)
class Blank(Change):
    """Put some of N equal stretches of a row's frames at the origin."""

    hidden_RN: Tensor
    """bool."""

    def take(self, index: Tensor) -> "Blank":
        return Blank(self.hidden_RN[index])

    def apply(self, x_R3TJ: Tensor, keyed: object) -> Tensor:
        frames, blocks = x_R3TJ.shape[2], self.hidden_RN.shape[1]
        hidden_RT = self.hidden_RN[:, torch.arange(frames) * blocks // frames]
        return x_R3TJ.masked_fill_(send(hidden_RT, x_R3TJ.device)[:, None, :, None], 0.0)


class SCDNetConfig(DistortedContrastConfig):
    """Defaults follow the authors' code, except ``resize``."""

    queue: int = Field(8192, ge=1, description="keys in each queue")
    temperature: float = Field(0.2, gt=0, description="temperature of the softmax over keys")


class SCDNet(LevelContrast):
    """Contrast of time and space with the whole, and of the whole with both."""

    Config = SCDNetConfig

    @classmethod
    def views(cls, config, grid):
        missing = (AxisRotate(p=0.5), Mirror(reflect=False), Shear(p=0.5, amplitude=1.0), HideJoints(), HideFrames())
        return {name: config.view(grid, stream=config.stream, augment=missing) for name in ("query", "key")}

    def training_step(self, views, step):
        clips = views["query"].clips
        query, key, keys = self.embeddings(views, step)
        loss = {}
        for level, partner in PAIRS:
            loss_B = info_nce(similarities(query[level], key[partner], keys[partner], self.config.temperature))
            loss[f"{level}_{partner}"] = step.mean(loss_B.sum(), clips)
        return {"loss": sum(loss.values()), **{pair: x.detach() for pair, x in loss.items()}}


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
            spelling="SCD-Net",
            target=":SCDNet",
            version=2,
            config=":SCDNetConfig",
            probe=NativeProbe(protocol="linear@hico", best_on_test=True),
            summary="momentum contrast of temporal and spatial features with clips, with joints and frames masked",
            citation="Wu et al., SCD-Net: Spatiotemporal Clues Disentanglement Network for Self-supervised "
            "Skeleton-based Action Recognition, AAAI 2024 (arXiv 2309.05834)",
            requires=("time-and-space",),
            readings="bones and motion are made after augmenting (the code: before; equal except for missing joints); "
            "among joints with equally many walks the hidden ones are drawn (the code: order of its sort); only "
            "written keys are negatives (the code begins with random ones); shared: time is the maximum over patches "
            "of the tokens' mean over joints, space the maximum over joints of their mean over patches, the instance "
            "the class token, each a mean over the clip's bodies",
            recipe=LONG_CONTRAST_RECIPE,
            native=LONG_CONTRAST_NATIVE | {"encoder": "scd-net"},
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.05, 0.5)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
