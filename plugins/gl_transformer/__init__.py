"""GL-Transformer: predict the direction and length of every joint's displacement over a few frames (Kim et al., ECCV
2022).

Nothing is masked. For each frame and joint two classes are predicted per interval: the signs of the displacement from
an earlier frame, and its length in centimeters; for joints relative to the joint between the shoulders (local), and for
that joint itself (global). Facts: Boeun-Kim/GL-Transformer, learn_PTmodel.py, model/pretrain.py, feeder/. X sequences
(clips, or bodies), M bodies of one, T frames, J joints, S = J * M joints of a frame, joint by joint, I intervals.
"""

from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._native import NativeLinear
from skelbench_plugins._recipes import FP32, RATES_SPACE
from torch import nn

from skelbench.methods import Config, Method
from skelbench.models.encoder import real_frames, side_by_side
from skelbench.models.optim.groups import one_group
from skelbench.plugin import Log, MethodSpec, NativeProbe, ProtocolSpec, hookimpl
from skelbench.views import Free, Shear, Tempo, ViewSpec
from skelbench.views.distortions import OnJoints
from skelbench.views.keyed import Keyed

from .targets import ABSENT, DIRECTIONS, displacement_classes, local_and_global

NAMES = ("direction", "length", "global_direction", "global_length")


class LocalShear(Shear):
    """Shear all joints except the one between the shoulders, which carries the path of the body in the room.

    >>> LocalShear(amplitude=0.3)
    LocalShear(p=1.0, amplitude=0.3)
    """

    kind = "local-shear"

    def draw(self, draws):
        space, joints = super().draw(draws).space, torch.arange(draws.topology.num_joints)
        return OnJoints(space, (joints != draws.topology.anchor).expand(len(draws.rows_K), -1))


class GLTransformerConfig(Config):
    """Defaults follow the authors' code, except ``resize`` and ``relative``."""

    intervals: tuple[Annotated[int, Field(ge=1, json_schema_extra={"unit": "frames"})], ...] = Field(
        (1, 5, 10),
        min_length=1,
        description="frames between the two positions; from the first frame if there are fewer",
    )
    length: float = Field(
        0.01, gt=0, description="width of a class of displacement lengths", json_schema_extra={"unit": "m"}
    )
    length_weight: float = Field(1.0, ge=0, description="weight of the length loss; directions have 1")
    global_weight: float = Field(0.05, ge=0, description="weight of the global term; the local one has 1")
    global_term: Literal["first-interval", "all-intervals"] = Field(
        "first-interval",
        description="intervals of the global term; in the code other intervals count as local, unweighted",
    )
    relative: bool = Field(
        True,
        description="subtract the joint between the shoulders from the others; false: clips are aligned in this way "
        "already (native)",
    )
    shear: float = Field(0.3, ge=0, description="amplitude of the shear")
    pace: float = Field(0.1, ge=0, lt=1, description="largest relative change of a clip's speed")
    resize: Literal["ends", "half-pixel", "pad"] = Field(
        "ends",
        description="resampling of a clip to T frames; pad: original speed, zeros at its end that the loss ignores",
    )


class GLTransformer(Method):
    """A linear layer per interval for directions and lengths, on frames of all joints or on tokens."""

    Config = GLTransformerConfig
    roles = {"encoder": "student", "direction": "head", "length": "head"}
    whole_batch = ""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder, grid = context.encoder(), context.grid
        self.by_frame = "tokens" not in self.encoder.abilities
        self.places = grid.joints * self.encoder.bodies if self.by_frame else grid.patch
        self.direction, self.length = (
            nn.ModuleList(nn.Linear(context.width, self.places * classes) for _ in config.intervals)
            for classes in (DIRECTIONS, ABSENT + 1)
        )

    @classmethod
    def views(cls, config, grid):
        crop = Tempo(amount=config.pace) if config.resize == "pad" else Free(lo=1 - config.pace, hi=1.0)
        shear = (Shear if config.relative else LocalShear)(amplitude=config.shear)
        return {"whole": ViewSpec(frames=grid.frames, crop=crop, augment=(shear,), resize=config.resize)}

    def training_step(self, views, step):
        view, config, anchor = views["whole"], self.config, self.context.topology.anchor
        encoded = self.encoder(view)
        tokens = encoded.tokens_RND
        if encoded.per_clip:
            x_XMTJC, real_XT = side_by_side(view, self.encoder.bodies), real_frames(view)
            later_XM = torch.arange(self.encoder.bodies, device=tokens.device) > 0
        else:
            x_XMTJC, real_XT = view.x_RTJC[:, None], view.real_RT
            later_XM = (view.rows_R % view.bodies > 0)[:, None]
        if config.relative:
            x_XMTJC = local_and_global(x_XMTJC, anchor)
        real_XT = torch.ones_like(x_XMTJC[:, 0, :, 0, 0]) if real_XT is None else real_XT.to(tokens.device).float()
        joint_S = torch.arange(x_XMTJC.shape[3], device=tokens.device).repeat_interleave(x_XMTJC.shape[1])

        sums, counts = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0)
        for i, interval in enumerate(config.intervals):
            separate = i == 0 or config.global_term == "all-intervals"
            global_S, moved = (joint_S == anchor) & separate, x_XMTJC.shape[1] * separate
            targets = displacement_classes(x_XMTJC, later_XM, interval, config.length)
            for kind, head, target_XTS in zip(("direction", "length"), (self.direction, self.length), targets):
                loss_XTS = self._cross_entropy(head[i](tokens), target_XTS) * real_XT[:, :, None]
                for part, of_S, places in (("", ~global_S, len(joint_S) - moved), ("global_", global_S, moved)):
                    sums[part + kind] = sums[part + kind] + (loss_XTS * of_S).sum()
                    counts[part + kind] += places
        losses = {name: step.mean(sums[name], real_XT.sum() * counts[name]) for name in NAMES}
        direction, length = (losses[kind] + config.global_weight * losses[f"global_{kind}"] for kind in NAMES[:2])
        return {"loss": direction + config.length_weight * length, **losses}

    def _cross_entropy(self, logits, target_XTS):
        """Logits [X, T, S] of one head for all tokens, in float32."""
        if self.by_frame:  # a token predicts all joints of a frame
            logits_XTSc = logits.unflatten(2, (self.places, -1))
        else:  # a token predicts all frames of its patch
            logits_RPJpc = logits.unflatten(2, (self.places, -1)).unflatten(1, (-1, self.context.grid.joints))
            logits_XTSc = logits_RPJpc.transpose(2, 3).flatten(1, 2)
        loss = F.cross_entropy(logits_XTSc.flatten(0, 2).float(), target_XTS.flatten(), reduction="none")
        return loss.view_as(target_XTS)

    def optim_groups(self):
        """Return one group: weight decay for all parameters, biases and norms too."""
        return one_group(self)


class GLTransformerLinear(NativeLinear):
    """``linear@gl-transformer``: the probe of GL-Transformer's code (Boeun-Kim/GL-Transformer,
    linear_eval_protocol.py).

    A linear layer on the mean over real frames, Adam at one rate. Training clips are played slower or faster in every
    epoch, so that the encoder runs 121 times over them. The encoder's dropout stays on (``noisy``): the code calls
    ``model.train()`` in every epoch, and the paper has these numbers. Weights begin with the spread that PyTorch gives
    2400 features. Metrics: :class:`~skelbench_plugins._native.NativeLinear`; the code prints the best of the epochs
    after the 60th.
    """

    normalizes: ClassVar[bool] = False
    weight_std: ClassVar[float] = (3 * 2400) ** -0.5
    drops_incomplete: ClassVar[bool] = True

    lr: float = Field(0.003, gt=0, description="constant learning rate, not scaled by the batch size")
    batch_size: int = Field(1024, ge=2, description="clips per step, an incomplete last batch is skipped")
    epochs: int = Field(120, ge=1, description="passes of the encoder over the training clips: the cost")
    pace: float = Field(0.1, ge=0, lt=1, description="largest relative change of a training clip's speed")
    noisy: bool = Field(True, description="keep the frozen encoder's dropout on in training passes: a bug of the code")

    def rate(self, epoch):
        """The same throughout."""
        return self.lr

    def build_optimizer(self, layer):
        return torch.optim.Adam(layer.parameters(), lr=self.lr)

    def passes(self, features, seed, device, progress):
        """Features of clips at another speed in every epoch."""
        for epoch in range(self.epochs):
            keyed, crop = Keyed(seed, epoch), Tempo(amount=self.pace)
            yield self.augmented(features, keyed, crop, progress=progress, noisy=self.noisy)


@hookimpl
def skelbench_protocols():
    return [
        ProtocolSpec(
            name="linear@gl-transformer",
            target=":GLTransformerLinear",
            summary="linear probe of GL-Transformer's code: Adam, 120 epochs with new tempo; costs 120 times `linear`",
            defaults={"share": 1.0, "resize": "pad"},
        )
    ]


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="gl-transformer",
            spelling="GL-Transformer",
            target=":GLTransformer",
            config=":GLTransformerConfig",
            imports="skelbench_plugins.gl_transformer.checkpoint:imported",
            requires=("steps",),
            probe=NativeProbe(protocol="linear@gl-transformer", best_on_test=True),
            summary="predict direction and size of joint displacement, local and global; no masking",
            citation="Kim et al., Global-local Motion Transformer for Unsupervised Skeleton-based Action Learning, "
            "ECCV 2022 (arXiv 2207.06101)",
            readings="missing frames of a body are zeros, and its path begins at its first position; clips longer than "
            "the grid are changed in speed before they are cut; shared: a token predicts each frame of its patch for "
            "its own joint and body; crops of 90 to 100 % replace whole clips at another speed; only the targets have "
            "joints relative to the joint between the shoulders; all joints are sheared",
            recipe={
                "schedule": "exponential",
                "schedule.parts": 120,
                "schedule.gamma": 0.99,
                "train.batch_size": 128,
                "train.lr": 5e-5,
                "train.weight_decay": 0.1,
            },
            native=FP32
            | {
                "encoder": "glt",
                "grid.frames": 300,
                "grid.patch": 1,
                "train.epochs": 120,
                "train.align": "frames-with-path",
                "method.resize": "pad",
                "method.relative": False,
            },
            space=RATES_SPACE | {"method.global_weight": Log(0.01, 1.0)},
        )
    ]
