"""UmURL: separate joints, bones and motion agree with all three fused at the input (Sun et al., ACM MM 2023).

Facts: HuiGuanLab/UmURL @744278b, umurl.py and pretrain.py. A clip has four independently distorted copies. Three are
encoded as one stream each, the fourth as all streams fused. Each stream has a projector; its outputs for the fused
feature and for the feature of the stream agree. VICReg prevents collapse. B clips of all processes, E width of an
embedding.
"""

from typing import Literal

import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._probes import DROPS, SteppedLinear
from skelbench_plugins._recipes import RATES_SPACE, SIDE_BY_SIDE, TWO_BRANCH_NATIVE, TWO_BRANCH_RECIPE
from torch import nn

from skelbench.core.component import Share
from skelbench.core.errors import SkelbenchError
from skelbench.methods import DistortedConfig, Imported, Method
from skelbench.methods.imported import renamed, tensor_of
from skelbench.models.decorrelation import covariance, variance_hinge
from skelbench.models.heads import projector
from skelbench.models.optim.groups import one_group
from skelbench.models.two_branch import TORCH_LAYER
from skelbench.plugin import Log, MethodSpec, NativeProbe, ProtocolSpec, hookimpl
from skelbench.views import Same
from skelbench.views.streams import SINGLE

LATE = {stream: f"fused_{stream}" for stream in SINGLE}
"""Views of the fourth copy for an encoder that sees one stream at a time."""


class UmURLConfig(DistortedConfig):
    """Defaults follow the authors' code, except ``fusion`` and ``resize``."""

    fusion: Literal["early", "late"] = Field(
        "late", description="fusion of streams: at the input, if the encoder can, or as the mean of its features"
    )
    head_hidden: int = Field(2048, ge=1, description="hidden width of the projectors")
    embedding: int = Field(4096, ge=1, description="width of the embeddings")
    similarity: float = Field(5.0, ge=0, description="weight of squared distances between embeddings of a clip")
    variance: float = Field(5.0, ge=0, description="weight of the hinge on each feature's spread")
    covariance: float = Field(1.0, ge=0, description="weight of squared covariances between features")


class UmURL(Method):
    """Single and fused streams with the same projectors and VICReg's terms."""

    Config = UmURLConfig
    roles = {"encoder": "student", "fuse": "head", **{f"projectors.{stream}": "head" for stream in SINGLE}}
    whole_batch = "variance and covariance of features are computed over the whole batch"
    min_clips = 2

    def __init__(self, config, context):
        super().__init__(config, context)
        width = context.summary_width
        self.encoder = context.encoder()
        self.fuse = nn.Linear(width, width, bias=False) if config.fusion == "late" else nn.Identity()
        self.projectors = nn.ModuleDict({s: projector(width, config.head_hidden, config.embedding) for s in SINGLE})

    @classmethod
    def views(cls, config, grid):
        copy = config.view(grid)
        views = {stream: copy.model_copy(update={"stream": stream}) for stream in SINGLE}
        if config.fusion == "early":
            return views | {"fused": copy.model_copy(update={"stream": "fused"})}
        first, *more = SINGLE
        shared = {"crop": Same(parent=LATE[first]), "inherit": True, "augment": ()}
        return views | {LATE[first]: copy} | {LATE[s]: copy.model_copy(update=shared | {"stream": s}) for s in more}

    def training_step(self, views, step):
        config = self.config
        fused = ["fused"] if config.fusion == "early" else LATE.values()
        fused_BD = self.fuse(sum(self._feature(views[name], step) for name in fused) / len(fused))
        parts = {stream: self.projectors[stream](fused_BD).float() for stream in SINGLE}
        single = {stream: self.projectors[stream](self._feature(views[stream], step)).float() for stream in SINGLE}
        step.watch("fused", fused_BD)

        center_BE = sum(single.values()) / len(single)
        intra = sum(F.mse_loss(single[stream], parts[stream]) for stream in SINGLE)
        inter = sum(F.mse_loss(x_BE, center_BE) for x_BE in single.values())
        embeddings = [*single.values(), *parts.values()]
        spread, related = sum(map(variance_hinge, embeddings)), sum(map(covariance, embeddings))
        loss = config.similarity * (intra + inter) + config.variance * spread + config.covariance * related
        return {"loss": loss, "intra": intra, "inter": inter, "variance": spread, "covariance": related}

    def optim_groups(self):
        """Return one group: weight decay for all parameters, biases and norms too, as in the code."""
        return one_group(self)

    def _feature(self, view, step):
        """[B, D] of the clips of all processes."""
        return step.gather(self.encoder(view).clip_summary(view), gradient=True)


def read_public(state, options):
    """A pre-training checkpoint of the authors' code; settings are read from shapes."""
    times = tensor_of(state, "backbone.j_emb.t_embedding.0.weight", "D x 3 M J", lambda s: len(s) == 2)
    places = tensor_of(state, "backbone.j_emb.s_embedding.0.weight", "D x 3 T", lambda s: len(s) == 2)
    depth = len({name.split(".")[4] for name in state if name.startswith("backbone.ma_encoder.t_tr.layers.")})
    names = {f"{stream[0]}_projector": f"projectors.{stream}" for stream in SINGLE}
    for number, (released, ours) in enumerate((("t", "time"), ("s", "space"))):
        names[f"backbone.mm_fusion.{released}_fusion.0"] = f"encoder.fuse.{number}"
        for stream in SINGLE:
            names[f"backbone.{stream[0]}_emb.{released}_embedding"] = f"encoder.embed.{stream}.{ours}"
        for layer in range(depth):
            before, after = f"backbone.ma_encoder.{released}_tr.layers.{layer}", f"encoder.{ours}.{layer}"
            names |= {f"{before}.{old}": f"{after}.{new}" for old, new in TORCH_LAYER.items()}
    state = {name: x for name, x in state.items() if name != "backbone.ma_encoder.pe.pe"}  # sines
    if strange := [name for name in state if not renamed(name, names)]:
        raise SkelbenchError(f"{len(strange)} of its tensors are not of UmURL's code, first {strange[0]!r}")
    settings = {"encoder.dim": len(times), "encoder.depth": depth, "grid.frames": places.shape[1] // 3}
    if "j_projector.6.weight" in state:
        embedding, hidden = tensor_of(state, "j_projector.6.weight", "E x hidden", lambda s: len(s) == 2).shape
        settings |= {"method.embedding": embedding, "method.head_hidden": hidden}
    return Imported(settings, {renamed(name, names): x for name, x in state.items()})


class UmURLLinear(SteppedLinear):
    """``linear@umurl``: the probe of UmURL's code (HuiGuanLab/UmURL 744278b: action_recognition.py, its script,
    options_downstream.py). USDRL's (wengwanjiang/USDRL 7e83bb6) has ``lr=0.006, epochs=160, drops=[0.75, 0.875]``; 0.03
    on NTU-60 X-View, and 0.01 with ``crop_min=0.5`` on PKU-MMD II.
    """

    lr: float = Field(0.03, gt=0, description="learning rate at the start, not scaled by the batch size; USDRL's 0.006")
    batch_size: int = Field(512, ge=2, description="clips per step")
    epochs: int = Field(150, ge=1, description="passes over the training clips; USDRL's 160")
    drops: tuple[Share, ...] = Field((120 / 150, 140 / 150), description=DROPS)


@hookimpl
def skelbench_protocols():
    return [
        ProtocolSpec(
            name="linear@umurl",
            target=":UmURLLinear",
            summary="linear probe of UmURL's code: SGD 0.03, 150 epochs, whole clips, no augmentation",
            defaults=SIDE_BY_SIDE | {"share": 1.0},
        )
    ]


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="umurl",
            spelling="UmURL",
            target=":UmURL",
            config=":UmURLConfig",
            imports=":read_public",
            probe=NativeProbe(protocol="linear@umurl", best_on_test=True),
            summary="joints, bones and motion agree with their fused feature, by the loss of VICReg",
            citation="Sun et al., Unified Multi-modal Unsupervised Representation Learning for Skeleton-based Action "
            "Understanding, ACM MM 2023 (arXiv 2311.03106)",
            readings="shared: an encoder without fused input reads one stream at a time with one embedding for all; "
            "the fused feature is a linear map of the mean of its features; evaluations use joints only; losses in "
            "float32",
            recipe=TWO_BRANCH_RECIPE | {"train.batch_size": 512},
            native=TWO_BRANCH_NATIVE | {"encoder": "two-branch", "encoder.fused": True, "method.fusion": "early"},
            space=RATES_SPACE | {"method.similarity": Log(1.0, 25.0), "method.variance": Log(1.0, 25.0)},
        )
    ]
