"""PSTL: Barlow Twins between a clip and the same clip without some frames or joints (Zhou et al., AAAI 2023).

Facts: YujieOuO/PSTL, model.py and procedure.py. Three views are sheared, shifted and rotated independently. The
second lacks its fastest frames and as many random ones; the third lacks joints, preferably joints with many bones. B
clips, E width of the embedding, P patches of frames, J joints, P' and J' the remaining ones.
"""

from math import cos, floor, pi
from typing import ClassVar, Literal

import torch
from pydantic import Field
from skelbench_plugins._native import NativeLinear
from skelbench_plugins._recipes import ALL_SLOTS, GRAPH_NATIVE, RATES_SPACE
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.methods import Config, Method
from skelbench.models.decorrelation import barlow, cross_correlation
from skelbench.models.encoder import lines
from skelbench.models.heads import projector
from skelbench.models.optim.groups import one_group
from skelbench.plugin import Log, MethodSpec, NativeProbe, ProtocolSpec, hookimpl
from skelbench.views import AxisRotate, Mirror, ReflectCrop, Shear, ViewSpec
from skelbench.views.crops import Resampling
from skelbench.views.motion import displacement

FRAMES, JOINTS = 0, 1
"""``op`` of the draws for missing frames and joints."""


class PSTLConfig(Config):
    """Defaults follow the authors' code, except ``draws`` and ``resize``."""

    stream: Literal["joint", "bone", "motion"] = Field("joint", description="stream that it is trained on")
    head_hidden: int = Field(6144, ge=1, description="width of the projector and of the embedding")
    off_diagonal: float = Field(2e-4, ge=0, description="weight of correlations between different features")
    shear: float = Field(1.0, ge=0, description="amplitude of the shear")
    resize: Resampling = "ends"
    mask_frames: float = Field(
        0.2, ge=0, lt=0.5, description="fraction of frames removed as fastest, and the same fraction at random"
    )
    mask_joints: float = Field(0.32, ge=0, lt=1, description="fraction of joints removed: 8 of Kinect's 25")
    draws: Literal["clip", "batch"] = Field(
        "clip", description="draws of augmentations and missing joints: for each clip, or once per step (the code)"
    )


class PSTL(Method):
    """Barlow Twins of a view with one that lacks frames and with one that lacks joints."""

    Config = PSTLConfig
    roles = {"encoder": "student", "projector": "head"}
    whole_batch = "correlations of features are computed over the whole batch"
    min_clips = 2
    bone_ends_L: Tensor

    def __init__(self, config, context):
        super().__init__(config, context)
        grid = context.grid
        patches = grid.frames // grid.patch
        self.missing_frames = round(config.mask_frames * patches)
        self.missing_joints = round(config.mask_joints * grid.joints)
        if not (0 < 2 * self.missing_frames < patches and 0 < self.missing_joints < grid.joints):
            raise SkelbenchError(
                f"mask_frames={config.mask_frames:g} removes twice {self.missing_frames} of {patches} patches of "
                f"frames, mask_joints={config.mask_joints:g} {self.missing_joints} of {grid.joints} joints; change "
                "them so that some, and not all, are removed"
            )
        ends = [joint for bone in enumerate(context.topology.bones) if bone[0] != bone[1] for joint in bone]
        self.register_buffer("bone_ends_L", torch.tensor(sorted(ends)), persistent=False)
        self.encoder = context.encoder()
        self.projector = projector(context.summary_width, config.head_hidden, config.head_hidden, bias=False)

    @classmethod
    def views(cls, config, grid):
        view = ViewSpec(
            frames=grid.frames,
            crop=ReflectCrop(),
            augment=(Shear(amplitude=config.shear), AxisRotate(), Mirror(reflect=False)),
            stream=config.stream,
            resize=config.resize,
            draws=config.draws,
        )
        return {"whole": view, "fewer_frames": view, "fewer_joints": view}

    def training_step(self, views, step):
        keep = {
            "whole": None,
            "fewer_frames": self.slower_frames(views["fewer_frames"], step),
            "fewer_joints": self.outer_joints(views["fewer_joints"], step),
        }
        embedding = {}
        for name, view in views.items():
            summary_BD = self.encoder(view, keep_RK=keep[name]).clip_summary(view)
            embedding[name] = self.projector(step.gather(summary_BD, gradient=True))
        step.watch("embedding", embedding["whole"])
        frames, joints = (
            barlow(cross_correlation(embedding["whole"], embedding[name]), self.config.off_diagonal)
            for name in ("fewer_frames", "fewer_joints")
        )
        return {"loss": frames + joints, "frames": frames, "joints": joints}

    def optim_groups(self):
        """Return one group: weight decay for all parameters, biases and norms too, as in the code."""
        return one_group(self)

    def slower_frames(self, view, step):
        """int64 [R, P', J]: tokens of each clip without its fastest patches and as many random other patches."""
        grid, missing = self.context.grid, self.missing_frames
        moved_RP = displacement(view.x_RTJC).square().mean((2, 3)).unflatten(1, (-1, grid.patch)).mean(2)
        moved_BP = view.per_clip(moved_RP)
        remaining = moved_BP.shape[1] - missing
        slow_Bp = moved_BP.argsort(dim=1, stable=True)[:, :remaining].sort(dim=1).values
        slow_Rp = slow_Bp[view.rows_R.div(view.bodies, rounding_mode="floor")]
        u_Rp = step.uniform(self._keys(view), remaining, op=FRAMES)
        kept_RP = u_Rp.argsort(dim=1, stable=True)[:, : remaining - missing].sort(dim=1).values
        joints_RJ = torch.arange(grid.joints, device=kept_RP.device).expand(len(kept_RP), -1)
        return lines(slow_Rp.gather(1, kept_RP), joints_RJ, grid.joints)

    def outer_joints(self, view, step):
        """int64 [R, P, J']: tokens without joints drawn from the ends of bones; joints with more bones are likelier."""
        grid = self.context.grid
        u_RL = step.uniform(self._keys(view), len(self.bone_ends_L), op=JOINTS)
        ends_RL = self.bone_ends_L.expand_as(u_RL)
        first_RJ = u_RL.new_ones(len(u_RL), grid.joints).scatter_reduce(1, ends_RL, u_RL, "amin")
        kept_RJ = first_RJ.argsort(dim=1, stable=True)[:, self.missing_joints :].sort(dim=1).values
        patches_RP = torch.arange(grid.frames // grid.patch, device=u_RL.device).expand(len(u_RL), -1)
        return lines(patches_RP, kept_RJ, grid.joints)

    def _keys(self, view):
        """int64 [R]: keys of the draws, the same for all bodies of a clip, or for all clips."""
        keys_R = view.keys_R - view.rows_R % view.bodies
        return keys_R if self.config.draws == "clip" else torch.zeros_like(keys_R)


class PSTLLinear(NativeLinear):
    """``linear@pstl``: the probe of PSTL's code (YujieOuO/PSTL da95ce1: procedure.py, model.py, config.py).

    A linear layer on the frozen encoder's unchanged features; Adam, whose rate falls along half a cosine by epochs.
    Metrics: :class:`~skelbench_plugins._native.NativeLinear`.
    """

    normalizes: ClassVar[bool] = False
    drops_incomplete: ClassVar[bool] = False

    lr: float = Field(0.01, gt=0, description="learning rate at the start, not scaled by the batch size")
    batch_size: int = Field(128, ge=2, description="clips per step")
    epochs: int = Field(150, ge=1, description="passes over the training clips")

    def rate(self, epoch):
        """Learning rate, constant within an epoch; it would be 0 after the last epoch."""
        return self.lr * (1 + cos(pi * floor(epoch) / self.epochs)) / 2

    def passes(self, features, seed, device, progress):
        return self.unchanged(features, device, progress)

    def classifier(self, width, classes, generator, device):
        """Its weights begin Xavier-normal."""
        layer = super().classifier(width, classes, generator, device)
        with torch.no_grad():
            layer.weight.mul_((2 / (width + classes)) ** 0.5 / self.weight_std)
        return layer

    def build_optimizer(self, layer):
        """Adam without decay."""
        return torch.optim.Adam(layer.parameters(), lr=self.lr)


@hookimpl
def skelbench_protocols():
    return [
        ProtocolSpec(
            name="linear@pstl",
            target=":PSTLLinear",
            summary="linear probe of PSTL's code: Adam 0.01, cosine decay, 150 epochs, whole clips",
            defaults=ALL_SLOTS,
        )
    ]


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="pstl",
            spelling="PSTL",
            target=":PSTL",
            config=":PSTLConfig",
            summary="Barlow Twins of a clip and its copies without fast frames or central joints",
            citation="Zhou et al., Self-supervised Action Representation Learning from Partial Spatio-Temporal "
            "Skeleton Sequences, AAAI 2023 (arXiv 2302.09018)",
            requires=("drop-lines",),
            readings="crops are drawn before resampling and in continuous time; every clip has its own draws (the code "
            "and --native: one per step) and lacks 8 joints (the code: 8 draws with replacement); with an encoder on "
            "tokens, missing parts are dropped tokens",
            recipe={
                "optimizer": "adam",
                "train.batch_size": 128,
                "train.lr": 5e-3,
                "train.weight_decay": 1e-5,
                "schedule.warmup": 10 / 150,
                "schedule.min_lr": 0.0,
            },
            native=GRAPH_NATIVE
            | {
                "encoder.init": "torch",
                "method.draws": "batch",  # as in the published runs
                "train.epochs": 150,
            },
            probe=NativeProbe(protocol="linear@pstl", best_on_test=True),
            space=RATES_SPACE | {"method.off_diagonal": Log("x0.1", "x10")},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
