"""HYSP: two views of a clip meet in hyperbolic space, where uncertain features stay near the center (Franco et al.,
ICLR 2023).

BYOL between a strongly and a weakly augmented view, without negatives: first by their cosine, later by their distance
in the Poincaré ball. Facts: paolomandica/HYSP, src/net/hysp.py, src/net/utils/{hyperbolic,losses,tools}.py,
src/train_learners.py, src/feeder/ntu_feeder.py. B clips of all processes, D width of a feature, E of an embedding.
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import ALL_SLOTS, GRAPH_NATIVE, MOCO_RECIPE, MOMENTUM_SPACE, RATES_SPACE, semi

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import Stream
from skelbench.methods import Imported, Method, StrongConfig
from skelbench.methods.imported import tensor_of
from skelbench.methods.momentum_contrast import graph_name, graph_settings
from skelbench.models.ema import ema_copy, ema_update
from skelbench.models.heads import perceptron
from skelbench.models.optim.groups import one_group
from skelbench.models.schedule import linear_ramp
from skelbench.plugin import MethodSpec, NativeProbe, ProtocolSpec, hookimpl
from skelbench.views import ReflectCrop, Shear, ViewSpec
from skelbench.views.crops import Resampling

from .ball import distance, exp_map


class HYSPConfig(StrongConfig):
    """Defaults follow the authors' code, except ``capped`` and ``resize``."""

    stream: Stream = Field("joint", description="stream that it is trained on")
    head_hidden: int = Field(1024, ge=1, description="width of projector, predictor and embedding")
    momentum: float = Field(0.999, ge=0, le=1, description="EMA momentum of the target, constant")
    ramp_from: float = Field(50 / 400, ge=0, le=1, description="fraction of the schedule with the cosine only")
    ramp: float = Field(
        50 / 400, gt=0, le=1, description="fraction of the schedule in which the distance gradually replaces it"
    )
    capped: bool = Field(
        False, description="no gradient from pairs farther apart than 16.8, as in geoopt, which the code uses"
    )
    shear: float = Field(0.5, ge=0, description="amplitude of the shear")
    resize: Resampling = "ends"
    time_flip: bool = Field(True, description="play half of the strong views backwards")


class HYSP(Method):
    """Predict the target's embedding of the other view, in the Poincaré ball."""

    Config = HYSPConfig
    roles = {
        "encoder": "student",
        "projector": "head",
        "predictor": "head",
        "target_encoder": "teacher",
        "target_projector": "head",
    }
    whole_batch = "heads normalize by the whole batch"
    min_clips = 2

    def __init__(self, config, context):
        super().__init__(config, context)
        hidden = config.head_hidden
        self.encoder = context.encoder()
        self.projector = perceptron(context.summary_width, hidden, hidden)
        self.predictor = perceptron(hidden, hidden, hidden)
        self.target_encoder = ema_copy(self.encoder, mode="train")
        self.target_projector = ema_copy(self.projector, mode="train")

    @classmethod
    def views(cls, config, grid):
        normal = {"frames": grid.frames, "crop": ReflectCrop(), "stream": config.stream, "resize": config.resize}
        shear = Shear(amplitude=config.shear)
        strong = ViewSpec(augment=(shear, *config.strong()), **normal)
        return {"strong": strong, "normal": ViewSpec(augment=(shear,), **normal)}

    def training_step(self, views, step):
        config = self.config
        online, target = {}, {}
        for name, view in views.items():
            feature_BD = step.gather(self.encoder(view).clip_summary(view), gradient=True)
            online[name] = exp_map(self.predictor(self.projector(feature_BD)))
            with torch.no_grad():
                feature_BD = step.gather(self.target_encoder(view).clip_summary(view))
                target[name] = exp_map(self.target_projector(feature_BD))
        pairs = (online["strong"], target["normal"]), (online["normal"], target["strong"])
        euclidean = sum(2 - 2 * F.cosine_similarity(x_BE, y_BE).mean() for x_BE, y_BE in pairs) / 2
        hyperbolic = sum(distance(x_BE, y_BE, config.capped).mean() for x_BE, y_BE in pairs) / 2
        ramp = linear_ramp(0.0, 1.0, (step.fraction - config.ramp_from) / config.ramp)
        step.watch("embedding", online["normal"])
        loss = (1 - ramp) * euclidean + ramp * hyperbolic
        radius = online["normal"].norm(dim=1).mean()
        return {"loss": loss, "euclidean": euclidean, "hyperbolic": hyperbolic, "radius": radius}

    def after_step(self, step):
        ema_update(self.target_encoder, self.encoder, self.config.momentum)
        ema_update(self.target_projector, self.projector, self.config.momentum)

    def optim_groups(self):
        """Return one group: weight decay for all parameters, biases and norms too, as in the code."""
        return one_group(self)


PARTS = {
    "online_encoder": "",
    "target_encoder": "target_",
    "online_projector.net": "projector",
    "online_predictor.net": "predictor",
    "target_projector.net": "target_projector",
}
"""Names of parts in the file and, after the arrow, ours; for encoders the prefix before :func:`graph_name`."""


def imported(state, options) -> Imported:
    """A checkpoint of the authors' code; a checkpoint of its probe has only the encoder, and a classifier in place of
    the projector."""
    prefix = "model." if any(name.startswith("model.") for name in state) else ""
    state = {name.removeprefix(prefix): x for name, x in state.items()}
    settings = graph_settings(state, "online_encoder.")
    skipped = ()
    if "online_predictor.net.0.weight" in state:
        hidden = tensor_of(state, "online_projector.net.0.weight", "E x D", lambda s: len(s) == 2).shape[0]
        settings["method.head_hidden"] = hidden
    else:
        skipped = tuple(name for name in state if name.startswith("online_projector."))
    weights = {}
    for name, x in state.items():
        part = next((part for part in PARTS if name.startswith(f"{part}.")), None)
        if part is None:
            raise SkelbenchError(f"its tensor {name!r} belongs to another model")
        rest = name.removeprefix(f"{part}.")
        ours = graph_name(rest) if part.endswith("encoder") else f".{rest}"
        if ours is not None and name not in skipped:
            weights[PARTS[part] + ours] = x
    return Imported(settings, weights, skipped)


@hookimpl
def skelbench_protocols():
    probe = "skelbench_plugins.hysp.probe:"
    return [
        ProtocolSpec(
            name="linear@hysp",
            target=f"{probe}HYSPLinear",
            summary="linear probe of HYSP's code: a Möbius-linear layer in the Poincaré ball, SGD 10, 100 epochs, "
            "whole clips, no augmentation",
            defaults=ALL_SLOTS,
        ),
        *semi("hysp", f"{probe}HYSPSemi", "HYSP's code: a Möbius-linear layer in the Poincaré ball", ALL_SLOTS),
    ]


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="hysp",
            spelling="HYSP",
            target=":HYSP",
            version=2,
            config=":HYSPConfig",
            imports=":imported",
            probe=NativeProbe(
                protocol="linear@hysp",
                best_on_test=True,
                settings={
                    "ntu60/cross-view": {"hyperbolic": False, "lr": 1.0},
                    "ntu120/cross-setup": {"hyperbolic": False, "batch_size": 1024},
                    "pku1": {"hyperbolic": False, "lr": 1.0, "drops": [0.7]},
                    "pku2": {"hyperbolic": False, "epochs": 250},
                },
            ),
            summary="two views agree, first by cosine, then by distance in the Poincaré ball; no negatives",
            citation="Franco et al., Hyperbolic Self-paced Learning for Self-supervised Skeleton-based Action "
            "Representations, ICLR 2023 (arXiv 2303.06242)",
            readings="crops are drawn before resampling and in continuous time; the ramp rises step by step (the code: "
            "once per epoch); the target follows the weights after a step (the code: before it); plain SGD, which "
            "equals Riemannian SGD here except in the first step; shared: another learning rate, distances without a "
            "limit, and the mean of a clip's present bodies (--native: an empty body counts, as in the code, but "
            "without noise)",
            recipe=MOCO_RECIPE | {"schedule.milestones": (300 / 400,), "train.batch_size": 512, "train.lr": 0.005},
            native=GRAPH_NATIVE
            | {
                "encoder.base": 64,
                "encoder.out": 1024,
                "encoder.init": "torch",
                "method.capped": True,  # as in the published runs
                "train.epochs": 400,
                "train.lr": 0.2,
            },
            space=RATES_SPACE | MOMENTUM_SPACE,
            variants={
                "bone": {"method.stream": "bone"},
                "motion": {"method.stream": "motion"},
                "euclidean": {"method.ramp_from": 1.0},
            },
        )
    ]
