"""HSP: one encoder for heterogeneous skeletons, poses of the image plane lifted and prompted (Wang et al., CVPR 2025).

Facts: hongsong-wang/Heter-Skeleton, which contains only a README: loss and encoder are USDRL's, and a small network of
linear layers and a norm estimates depth. The rest is our assumption: two of USDRL's four views of a clip become flat
skeletons, projected along z and reduced to the joints of COCO. They agree with the other two views. The third channel
is as in wengwanjiang/FoundSkelModel @945fe91, feeder_ntu2d_pretrain.py. R rows, T frames, J joints, C = 3.
"""

from typing import Literal

import torch
from pydantic import Field
from skelbench_plugins._recipes import RATES_SPACE, TWO_BRANCH_NATIVE, TWO_BRANCH_RECIPE, USDRL_PROBE
from torch import Tensor, nn

from skelbench.core.errors import SkelbenchError
from skelbench.methods import MultiGrained, MultiGrainedConfig
from skelbench.models.initial import trunc_normal
from skelbench.plugin import Log, MethodSpec, hookimpl
from skelbench.views.skeleton.topology import COCO17

SHARED = {*COCO17.joints, "head"}
"""Names of joints that poses of the image plane have; the head of a Kinect skeleton is near COCO's nose."""


class HSPConfig(MultiGrainedConfig):
    """USDRL's settings, and how the flat skeleton is made."""

    joints: Literal["common", "all"] = Field(
        "common", description="joints of the flat skeleton: the joints of COCO, or all; the others are prompts"
    )
    third: Literal["lifted", "confidence", "zero"] = Field(
        "lifted",
        description="third coordinate of the flat skeleton: estimated depth, or as in FoundSkelModel for 2-D poses",
    )
    lift_hidden: int = Field(256, ge=1, description="width of the network that estimates depth")
    lifting: float = Field(1.0, ge=0, description="weight of the squared error of the estimated depth, m^2")


class HSP(MultiGrained):
    """Multi-grained decorrelation between a clip's skeleton in space and in the image plane.

    Raises:
        SkelbenchError: the skeleton has none of the joints, or poses are 2-D, so that depth cannot be learned.
    """

    Config = HSPConfig
    shown_J: Tensor

    def __init__(self, config, context):
        super().__init__(config, context)
        names = context.topology.joints
        visible = [config.joints == "all" or name in SHARED for name in names]
        if not any(visible):
            raise SkelbenchError(
                f"topology {context.topology.name} has no joint that poses of the image plane have; "
                "give --set method.joints=all"
            )
        self.register_buffer("shown_J", torch.tensor(visible), persistent=False)
        self.prompt_JC = nn.Parameter(torch.empty(len(names), 3))
        trunc_normal(self.prompt_JC)
        if config.third == "lifted":
            if context.dimensions == 2:
                raise SkelbenchError(
                    "method hsp learns depth from poses in space, and the poses of this dataset are 2-D; "
                    "give --set method.third=confidence, or choose another dataset or method"
                )
            self.lift = nn.Sequential(
                nn.Linear(3 * len(names), config.lift_hidden),
                nn.LayerNorm(config.lift_hidden),
                nn.ReLU(),
                nn.Linear(config.lift_hidden, len(names)),
            )
            self.roles = MultiGrained.roles | {"lift": "head"}

    def training_step(self, views, step):
        view = views["clip"]
        flat_RTJ3, lifting = self.flat(view, step)
        pairs = zip(view.chunk(view.x_RTJC), view.chunk(flat_RTJ3))
        poses = [flat if number % 2 else space for number, (space, flat) in enumerate(pairs)]
        view = view.with_x(torch.cat(poses))
        out = self.decorrelate(self.encoder(view), view, step)
        if lifting is None:
            return out
        return out | {"loss": out["loss"] + self.config.lifting * lifting, "lifting": lifting}

    def flat(self, view, step):
        """The bodies as flat skeletons, [R, T, J, 3], and the mean squared error of their depth, if it is estimated."""
        x_RTJC, shown_J1 = view.x_RTJC, self.shown_J[:, None]
        sure_RTJ = view.confidence_RTJ
        if sure_RTJ is None:
            sure_RTJ = x_RTJC.abs().sum(3).gt(0).float()
        flat_RTJC = torch.cat([x_RTJC[..., :2], sure_RTJ[..., None]], 3) * shown_J1
        third_RTJ, lifting = flat_RTJC[..., 2], None
        if self.config.third == "lifted":
            third_RTJ = self.lift(flat_RTJC.flatten(2)).float()
            error_R = ((third_RTJ - x_RTJC[..., 2]).square() * self.shown_J).sum((1, 2))
            lifting = step.mean(error_R.sum() / x_RTJC.shape[1] / self.shown_J.sum(), len(error_R))
        if self.config.third == "zero":
            third_RTJ = torch.zeros_like(third_RTJ)
        return torch.cat([flat_RTJC[..., :2], third_RTJ[..., None]], 3) * shown_J1 + self.prompt_JC, lifting


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="hsp",
            spelling="HSP",
            target=":HSP",
            config=":HSPConfig",
            probe=USDRL_PROBE,
            summary="3-D skeleton and 2-D projection of a clip agree in one encoder, by the loss of USDRL",
            citation="Wang et al., Heterogeneous Skeleton-Based Action Representation Learning, CVPR 2025 "
            "(arXiv 2506.03481)",
            readings="no code is public, and the table that prints HSP may mean another paper: encoder, loss, views, "
            "optimizer and probe are USDRL's, which its README names; the 2-D poses are projections of the distorted "
            "3-D ones (the README: HRNet's of the videos), every second of four views, their confidence 1 where a "
            "joint is; depth is estimated frame by frame, with layer norm, and learned from the clip's own; the flat "
            "skeleton has a prompt of one point per joint, its only input at missing joints; the skeleton in space has "
            "no prompt; no semantic motion encoding",
            requires=("time-and-space",),
            recipe=TWO_BRANCH_RECIPE | {"train.batch_size": 356},
            native=TWO_BRANCH_NATIVE | {"encoder": "dste"},
            space=RATES_SPACE | {"method.similarity": Log(1.0, 25.0), "method.correlation": Log(1e-4, 1e-2)},
            variants={
                "confidence": {"method.third": "confidence", "method.joints": "all"},
                "zero": {"method.third": "zero", "method.joints": "all"},
            },
        )
    ]
