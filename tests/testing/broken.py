"""A plugin file: a method that is as it should be, and one for each check that is not, called after the check."""

import sys
from dataclasses import replace

import numpy as np
import torch
from pydantic import ConfigDict, Field
from torch import nn

from skelbench.methods import Config, Method
from skelbench.models.ema import ema_copy, ema_update
from skelbench.plugin import Log, MethodSpec, hookimpl
from skelbench.views import Rotate, ViewSpec
from skelbench.views.transfer import waiting


class PoseConfig(Config):
    momentum: float = Field(0.9, ge=0, le=1, description="of the teacher")


class Pose(Method):
    """Predicts where every joint is on average, and what a teacher makes of the view."""

    Config = PoseConfig
    roles = {"encoder": "student", "teacher": "teacher", "head": "head"}
    whole_batch = ""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        self.teacher = ema_copy(self.encoder)
        self.head = nn.Linear(context.summary_width, self.targets(context))
        self.agree = nn.Linear(context.summary_width, context.summary_width)

    def targets(self, context):
        return 3 * context.topology.num_joints

    @classmethod
    def views(cls, config, grid):
        return {"clip": ViewSpec(frames=grid.frames, augment=(Rotate(),))}

    def training_step(self, views, step):
        view = views["clip"]
        feature_RD = self.encoder(view).summary_RD
        with torch.no_grad():
            taught_RD = self.teacher(view).summary_RD
        error_R = self.error(self.head(feature_RD), view) + 0.1 * ((self.agree(feature_RD) - taught_RD) ** 2).mean(1)
        return {"loss": self.mean(error_R, step)}

    def error(self, said_RX, view):
        return ((said_RX - view.x_RTJC.mean(1).flatten(1)) ** 2).mean(1)

    def mean(self, error_R, step):
        return step.mean(error_R.sum(), len(error_R))

    def after_step(self, step):
        ema_update(self.teacher, self.encoder, self.config.momentum)


class Lax(PoseConfig):
    model_config = ConfigDict(extra="ignore")


class Undescribed(PoseConfig):
    speed: float = 0.9


class Misspelt(Pose):
    roles = {"encoder": "student", "haed": "head"}


class PairsOnly(Pose):
    def error(self, said_RX, view):
        return super().error(said_RX, view).view(view.clips, 2).mean(1)


class OneLength(Pose):
    def error(self, said_RX, view):
        return super().error(said_RX, view) + view.x_RTJC[:, :, 0, 0] @ torch.ones(32)


class Kinect(Pose):
    def targets(self, context):
        return 75


class Deep(Pose):
    def error(self, said_RX, view):
        return super().error(said_RX, view) / view.x_RTJC[..., 2].std()


class Peeks(Pose):
    def error(self, said_RX, view):
        frame = sys._getframe()
        while not hasattr(frame.f_locals.get("self"), "source"):
            frame = frame.f_back
        labels = frame.f_locals["self"].source.store.labels
        return super().error(said_RX, view) * float(1 + labels[0])


class Idle(Pose):
    def __init__(self, config, context):
        super().__init__(config, context)
        self.spare = nn.Linear(2, 2)


class Stuck(Pose):
    def after_step(self, step):
        pass


class HalfFollows(Pose):
    roles = Pose.roles | {"second": "teacher"}

    def __init__(self, config, context):
        super().__init__(config, context)
        self.second = ema_copy(self.head)


class Single(Pose):
    def error(self, said_RX, view):
        row_R = torch.arange(len(said_RX), device=said_RX.device)
        return super().error(said_RX, view).index_add(0, row_R, said_RX.mean(1))


class Zero(Pose):
    def training_step(self, views, step):
        said_RX = self.head(self.encoder(views["clip"]).summary_RD)
        return {"loss": step.mean((said_RX**2).mean(1).sum(), len(said_RX))}


class Pulls(Pose):
    def training_step(self, views, step):
        feature_RD = self.encoder(views["clip"]).summary_RD
        return {"loss": step.mean(((feature_RD - 1) ** 2).mean(1).sum(), len(feature_RD))}


class Unseeded(Pose):
    def error(self, said_RX, view):
        return super().error(said_RX, view) * float(np.random.default_rng().uniform(1, 2))


class Forgets(Pose):
    steps = 0

    def after_step(self, step):
        super().after_step(step)
        self.steps += 1

    def error(self, said_RX, view):
        return super().error(said_RX, view) * (1 + self.steps)


class NotFinite(Pose):
    def mean(self, error_R, step):
        return super().mean(error_R, step) * float("nan")


class Steep(Pose):
    """Of the loss, which is finite, the gradient is not: that of a root at 0."""

    def mean(self, error_R, step):
        return super().mean(error_R, step) + (0 * error_R).sqrt().sum()


class Alone(Pose):
    def mean(self, error_R, step):
        return error_R.mean()


class Compares(Pose):
    """Its clips are compared, whatever ``whole_batch`` says."""

    def mean(self, error_R, step):
        return super().mean(error_R, step) + error_R.std()


class Shrinks(nn.Linear):
    """Every time a little less."""

    def forward(self, x):
        self.share = 0.9 * getattr(self, "share", 1.0)
        return torch.tanh(super().forward(x) * self.share)


class Remembers(Pose):
    """A block does something else when it is called again."""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.more = nn.ModuleList([Shrinks(self.targets(context), self.targets(context))])

    def error(self, said_RX, view):
        return super().error(self.more[0](said_RX), view)


class Hooked(Pose):
    """Whose encoder is not what it seems."""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder.register_forward_hook(self.change)


class Noisy(Hooked):
    @staticmethod
    def change(module, inputs, out):
        return replace(out, pooled_RD=out.pooled_RD + torch.rand_like(out.pooled_RD))


class Louder(Hooked):
    @staticmethod
    def change(module, inputs, out):
        return replace(out, pooled_RD=2 * out.pooled_RD)


class Wrapped(Pose):
    """Its encoder has a layer more than the run's."""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder.more = nn.Linear(2, 2)


class TwoPhases(Pose):
    """Right: what a second phase trains is idle in the first."""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.second = nn.Linear(context.summary_width, 1)

    def phases(self):
        return [("warm", 0.0), ("main", 0.7)]

    def training_step(self, views, step):
        out = super().training_step(views, step)
        if step.phase == "main":
            out["loss"] = out["loss"] + self.late(self.second(self.encoder(views["clip"]).summary_RD).square().mean())
        return out

    def late(self, loss):
        return loss


class LateMemory(TwoPhases):
    known = 0.0

    def late(self, loss):
        self.known += 1
        return loss * self.known


class LateNan(TwoPhases):
    def late(self, loss):
        return loss * float("nan")


class Cools(Pose):
    """Right: what it keeps besides tensors is in its state dict."""

    heat = 2.0

    def get_extra_state(self):
        return {"heat": self.heat}

    def set_extra_state(self, state):
        self.heat = state["heat"]

    def after_step(self, step):
        super().after_step(step)
        self.heat *= 0.9

    def error(self, said_RX, view):
        return super().error(said_RX, view) * self.heat


class Centred(Hooked):
    @staticmethod
    def change(module, inputs, out):
        return replace(out, pooled_RD=out.pooled_RD - out.pooled_RD.mean(0))


class OnHost(Pose):
    def __init__(self, config, context):
        super().__init__(config, context)
        self.weight_X = torch.ones(self.targets(context))  # no buffer: it stays where it was made

    def error(self, said_RX, view):
        return super().error(said_RX * self.weight_X, view)


class Asks(Pose):
    def error(self, said_RX, view):
        error_R = super().error(said_RX, view)
        return error_R if error_R.sum() > 0 else -error_R


class Copies(Pose):
    def error(self, said_RX, view):
        error_R = super().error(said_RX, view)
        self.last = error_R.detach().cpu()
        return error_R


class Sends(Pose):
    def error(self, said_RX, view):
        return super().error(said_RX, view) * torch.tensor([0.5], device=view.x_RTJC.device)


class Selects(Pose):
    def error(self, said_RX, view):
        error_R = super().error(said_RX, view)
        return error_R[error_R > 0]


class Looks(Pose):
    def error(self, said_RX, view):
        error_R = super().error(said_RX, view)
        with waiting():
            self.last = float(error_R.detach().sum())
        return error_R


class Cancels(Pose):
    def error(self, said_RX, view):
        at_RX = view.x_RTJC.mean(1).flatten(1)
        return super().error(said_RX + 1000 * (at_RX @ torch.eye(at_RX.shape[1]) - at_RX), view)


class Roleless(Pose):
    roles = {}


class Unhooked(Pose):
    """Its decoder is called by another method than as a module, so that what it costs is nobody's."""

    roles = Pose.roles | {"decoder": "decoder"}

    def __init__(self, config, context):
        super().__init__(config, context)
        self.decoder = nn.Linear(self.targets(context), self.targets(context))

    def error(self, said_RX, view):
        return super().error(self.decoder.forward(said_RX), view)


WHOLE = {"summary": "mean pose", "citation": "nobody"}


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(name="pose", target=":Pose", config=":PoseConfig", **WHOLE),
        MethodSpec(name="announcement", target=":Pose", config=":PoseConfig", summary="mean pose"),
        MethodSpec(name="settings-unsaid", target=":Pose", **WHOLE),
        MethodSpec(
            name="settings-preset",
            target=":Pose",
            config=":PoseConfig",
            **WHOLE,
            presets={"quick": {"method.momentun": 2}},
        ),
        MethodSpec(
            name="settings-space", target=":Pose", config=":PoseConfig", **WHOLE, space={"method.momentun": Log(1, 2)}
        ),
        MethodSpec(name="settings", target=":Pose", config=":Lax", **WHOLE),
        MethodSpec(name="settings-described", target=":Pose", config=":Undescribed", **WHOLE),
        MethodSpec(name="builds", target=":Misspelt", config=":PoseConfig", **WHOLE),
        MethodSpec(
            name="variants",
            target=":Pose",
            config=":PoseConfig",
            variants={"slow": {"method.momentum": 0.99}, "deep": {"method.deep": 3}},
            **WHOLE,
        ),
        MethodSpec(name="bodies", target=":PairsOnly", config=":PoseConfig", **WHOLE),
        MethodSpec(name="clip-lengths", target=":OneLength", config=":PoseConfig", **WHOLE),
        MethodSpec(name="native", target=":Pose", config=":PoseConfig", native={"encoder": "vti"}, **WHOLE),
        MethodSpec(name="another-skeleton", target=":Kinect", config=":PoseConfig", **WHOLE),
        MethodSpec(name="flat-poses", target=":Deep", config=":PoseConfig", **WHOLE),
        MethodSpec(name="labels", target=":Peeks", config=":PoseConfig", **WHOLE),
        MethodSpec(name="gradients", target=":Idle", config=":PoseConfig", **WHOLE),
        MethodSpec(name="teacher", target=":Stuck", config=":PoseConfig", **WHOLE),
        MethodSpec(name="half-follows", target=":HalfFollows", config=":PoseConfig", **WHOLE),
        MethodSpec(name="bf16", target=":Single", config=":PoseConfig", **WHOLE),
        MethodSpec(name="learns", target=":Zero", config=":PoseConfig", **WHOLE),
        MethodSpec(name="collapse", target=":Pulls", config=":PoseConfig", **WHOLE),
        MethodSpec(name="seed", target=":Unseeded", config=":PoseConfig", **WHOLE),
        MethodSpec(name="resume", target=":Forgets", config=":PoseConfig", **WHOLE),
        MethodSpec(name="processes", target=":Alone", config=":PoseConfig", **WHOLE),
        MethodSpec(name="pieces", target=":Compares", config=":PoseConfig", **WHOLE),
        MethodSpec(name="recompute", target=":Remembers", config=":PoseConfig", **WHOLE),
        MethodSpec(name="repeatable-features", target=":Noisy", config=":PoseConfig", **WHOLE),
        MethodSpec(name="probed", target=":Louder", config=":PoseConfig", **WHOLE),
        MethodSpec(name="wrapped", target=":Wrapped", config=":PoseConfig", **WHOLE),
        MethodSpec(name="two-phases", target=":TwoPhases", config=":PoseConfig", **WHOLE),
        MethodSpec(name="late-memory", target=":LateMemory", config=":PoseConfig", **WHOLE),
        MethodSpec(name="late-nan", target=":LateNan", config=":PoseConfig", **WHOLE),
        MethodSpec(name="cools", target=":Cools", config=":PoseConfig", **WHOLE),
        MethodSpec(name="clips-apart", target=":Centred", config=":PoseConfig", **WHOLE),
        MethodSpec(name="devices", target=":OnHost", config=":PoseConfig", **WHOLE),
        MethodSpec(name="asks", target=":Asks", config=":PoseConfig", **WHOLE),
        MethodSpec(name="copies", target=":Copies", config=":PoseConfig", **WHOLE),
        MethodSpec(name="sends", target=":Sends", config=":PoseConfig", **WHOLE),
        MethodSpec(name="selects", target=":Selects", config=":PoseConfig", **WHOLE),
        MethodSpec(name="looks", target=":Looks", config=":PoseConfig", **WHOLE),
        MethodSpec(name="cancels", target=":Cancels", config=":PoseConfig", **WHOLE),
        MethodSpec(name="not-finite", target=":NotFinite", config=":PoseConfig", **WHOLE),
        MethodSpec(name="steep", target=":Steep", config=":PoseConfig", **WHOLE),
        MethodSpec(name="cost", target=":Roleless", config=":PoseConfig", **WHOLE),
        MethodSpec(name="unhooked", target=":Unhooked", config=":PoseConfig", **WHOLE),
    ]
