"""A plugin file: a correct method, and a broken method for each check, named after the check."""

import sys
from dataclasses import replace

import numpy as np
import torch
from pydantic import Field
from torch import nn

from skelbench.methods import Config, Method
from skelbench.models.ema import ema_copy, ema_update
from skelbench.plugin import Log, MethodSpec, hookimpl
from skelbench.views import Rotate, ViewSpec


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


class Undescribed(PoseConfig):
    speed: float = 0.9


class Misspelled(Pose):
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


class Zero(Pose):
    def training_step(self, views, step):
        said_RX = self.head(self.encoder(views["clip"]).summary_RD)
        return {"loss": step.mean((said_RX**2).mean(1).sum(), len(said_RX))}


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


class Alone(Pose):
    def mean(self, error_R, step):
        return error_R.mean()


class Compares(Pose):
    """Its clips are compared, whatever ``whole_batch`` says."""

    def mean(self, error_R, step):
        return super().mean(error_R, step) + error_R.std()


class Louder(Pose):
    """A hook changes its encoder."""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder.register_forward_hook(lambda module, inputs, out: replace(out, pooled_RD=2 * out.pooled_RD))


class OnHost(Pose):
    def __init__(self, config, context):
        super().__init__(config, context)
        self.weight_X = torch.ones(self.targets(context))  # no buffer: it stays where it was made

    def error(self, said_RX, view):
        return super().error(said_RX * self.weight_X, view)


class Cancels(Pose):
    def error(self, said_RX, view):
        at_RX = view.x_RTJC.mean(1).flatten(1)
        return super().error(said_RX + 1000 * (at_RX @ torch.eye(at_RX.shape[1]) - at_RX), view)


class Roleless(Pose):
    roles = {}


class Unhooked(Pose):
    """Its decoder is not called as a module, so its cost is not counted."""

    roles = Pose.roles | {"decoder": "decoder"}

    def __init__(self, config, context):
        super().__init__(config, context)
        self.decoder = nn.Linear(self.targets(context), self.targets(context))

    def error(self, said_RX, view):
        return super().error(self.decoder.forward(said_RX), view)


WHOLE = {"summary": "mean pose", "citation": "nobody"}


def spec(name, target=":Pose", config=":PoseConfig", **fields):
    return MethodSpec(name=name, target=target, config=config, **WHOLE | fields)


@hookimpl
def skelbench_methods():
    return [
        spec("pose"),
        spec("settings", config=":Undescribed"),
        spec("settings-space", space={"method.momentun": Log(1, 2)}),
        spec("builds", ":Misspelled"),
        spec("variants", variants={"slow": {"method.momentum": 0.99}, "deep": {"method.deep": 3}}),
        spec("bodies", ":PairsOnly"),
        spec("clip-lengths", ":OneLength"),
        spec("native", native={"encoder": "vti"}),
        spec("another-skeleton", ":Kinect"),
        spec("flat-poses", ":Deep"),
        spec("labels", ":Peeks"),
        spec("gradients", ":Idle"),
        spec("teacher", ":Stuck"),
        spec("bf16", ":Cancels"),
        spec("learns", ":Zero"),
        spec("seed", ":Unseeded"),
        spec("resume", ":Forgets"),
        spec("processes", ":Alone"),
        spec("pieces", ":Compares"),
        spec("features", ":Louder"),
        spec("devices", ":OnHost"),
        spec("cost", ":Roleless"),
        spec("unhooked", ":Unhooked"),
    ]
