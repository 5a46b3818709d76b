"""USDRL: features over time, over joints and of the clip, each decorrelated over the batch (Weng et al., AAAI 2025).

Facts: wengwanjiang/USDRL @7e83bb6, pretrain.py, model/DSTE.py and model/loss.py; its successor
wengwanjiang/FoundSkelModel @945fe91. Four independently distorted views of a clip agree in three embeddings; VICReg's
terms hold within each view, Barlow Twins' between each two. B clips of all processes, E width of an embedding.
"""

from itertools import combinations
from typing import Literal

import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import RATES_SPACE, TWO_BRANCH_NATIVE, TWO_BRANCH_RECIPE
from torch import Tensor, nn

from skelbench.errors import SkelbenchError
from skelbench.methods import DistortedConfig, Imported, Method
from skelbench.methods.imported import renamed, tensor_of
from skelbench.nn.decorrelation import barlow, covariance, cross_correlation, variance_hinge
from skelbench.nn.heads import initialise_mlp, projector
from skelbench.optim.groups import one_group
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl

VIEWS = 4
LEVELS = {"time": 0.5, "space": 0.5, "instance": 1.0}
"""Weights of the three embeddings."""


class USDRLConfig(DistortedConfig):
    """Defaults are those of the authors' code, but for ``resize``."""

    stream: Literal["joint", "bone", "motion"] = Field("joint", description="what of the clip it is trained on")
    head_hidden: int = Field(2048, ge=1, description="width of the projectors; the instance's embedding has twice that")
    similarity: float = Field(5.0, ge=0, description="weight of squared distances between a clip's views")
    variance: float = Field(5.0, ge=0, description="weight of the hinge on each feature's spread")
    covariance: float = Field(1.0, ge=0, description="weight of squared covariances between features")
    correlation: float = Field(1e-3, ge=0, description="weight of Barlow Twins' terms; 0 in the successor's code")
    off_diagonal: float = Field(0.005, ge=0, description="weight of correlations between different features in these")


class USDRL(Method):
    """Multi-grained feature decorrelation."""

    Config = USDRLConfig
    roles = {"encoder": "student", "projectors": "head"}
    whole_batch = "correlations of features are those of the whole batch"
    min_clips = 2

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        hidden = config.head_hidden
        heads = {level: projector(context.width, hidden, hidden) for level in ("time", "space")}
        heads["instance"] = projector(context.summary_width, hidden, 2 * hidden)
        for mlp in heads.values():
            initialise_mlp(mlp)
        self.projectors = nn.ModuleDict(heads)

    @classmethod
    def views(cls, config, grid):
        return {"clip": config.view(grid, count=VIEWS, stream=config.stream)}

    def training_step(self, views, step):
        view, config = views["clip"], self.config
        encoded = self.encoder(view)
        features = dict(zip(("time", "space"), encoded.time_and_space(self.context.grid.joints)))
        if not encoded.per_clip:
            features = {level: view.per_clip(x_RD) for level, x_RD in features.items()}
        features["instance"] = encoded.clip_summary(view)

        total: dict[str, Tensor] = {}
        for level, weight in LEVELS.items():
            of_clips_BVD = features[level].unflatten(0, (VIEWS, -1)).transpose(0, 1)
            embeddings = [
                self.projectors[level](x_BD).float() for x_BD in step.gather(of_clips_BVD, gradient=True).unbind(1)
            ]
            for name, value in self._terms(embeddings).items():
                total[name] = total.get(name, 0) + weight * value
        step.watch("instance", embeddings[-1])
        return {"loss": sum(getattr(config, name) * value for name, value in total.items()), **total}

    def optim_groups(self):
        """Everything decays, biases and norms too, as in the code."""
        return one_group(self)

    def _terms(self, embeddings):
        """Of one level, from an embedding [B, E] of each view: the first three agree with their mean and the last."""
        *others, last_BE = embeddings
        centre_BE = sum(others) / len(others)
        terms = {
            "similarity": sum(F.mse_loss(x_BE, last_BE) + F.mse_loss(x_BE, centre_BE) for x_BE in others),
            "variance": sum(map(variance_hinge, embeddings)),
            "covariance": sum(map(covariance, embeddings)),
        }
        if self.config.correlation:
            # The code divides by unbiased deviations but by B: a feature's correlation with itself is 1 - 1 / B there.
            shrunk = 1 - 1 / len(last_BE)
            terms["correlation"] = sum(
                barlow(shrunk * cross_correlation(a_BE, b_BE, eps=1e-12), self.config.off_diagonal)
                for a_BE, b_BE in combinations(embeddings, 2)
            )
        return terms


_LAYER = {
    "CA.attn.in_proj_weight": "attn.qkv.weight",
    "CA.attn.in_proj_bias": "attn.qkv.bias",
    "CA.attn.out_proj": "attn.proj",
    "CA.conv1": "conv",
    "CA.norm1": "conv_norm1",
    "CA.norm2": "conv_norm2",
    "CA.mlp": "conv_mlp",
    "DSA.wt1": "shift.fc1",
    "DSA.wt2": "shift.fc2",
    "DSA.norm1": "shift_norm1",
    "DSA.norm2": "shift_norm2",
    "DSA.mlp": "shift_mlp",
}
_SINES, _SHARED, _HEAD = "backbone.tpe.pe", ".DSA.attn.", "fc."
"""Tensors that are computed here, that are stored twice, and those of a classifier."""


def read_public(state, options):
    """A checkpoint of the authors' code with DSTE; settings are read from shapes."""
    names = {"backbone.spe": "encoder.space_KD"}
    for theirs, ours in (("t", "time"), ("s", "space")):
        names |= {
            f"backbone.ske_emb.{theirs}_embedding": f"encoder.embed.{ours}",
            f"{theirs}_proj": f"projectors.{ours}",
        }
        for layer in range(2):
            before, after = f"backbone.{theirs}_tr{layer or ''}", f"encoder.{ours}.{layer}"
            names |= {f"{before}.{old}": f"{after}.{new}" for old, new in _LAYER.items()}
    names["i_proj"] = "projectors.instance"
    width = len(tensor_of(state, "backbone.spe", "1 x M J x D", lambda s: len(s) == 3 and s[0] == 1)[0, 0])
    shift = tensor_of(state, "backbone.t_tr.DSA.wt1.weight", "T x T", lambda s: len(s) == 2)
    settings = {"encoder.dim": width, "grid.frames": len(shift)}
    if "t_proj.0.weight" in state:
        settings["method.head_hidden"] = len(tensor_of(state, "t_proj.0.weight", "hidden x D", lambda s: len(s) == 2))
    left = tuple(name for name in state if name.startswith(_HEAD))
    kept = {name: x for name, x in state.items() if name != _SINES and _SHARED not in name and name not in left}
    if strange := [name for name in kept if not renamed(name, names)]:
        raise SkelbenchError(f"{len(strange)} of its tensors are not of USDRL's code, first {strange[0]!r}")
    kept["backbone.spe"] = kept["backbone.spe"][0]
    kept = {name: x[..., 0] if name.endswith(".conv1.weight") and x.ndim == 3 else x for name, x in kept.items()}
    return Imported(settings, {renamed(name, names): x for name, x in kept.items()}, left)


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="usdrl",
            target=":USDRL",
            config=":USDRLConfig",
            imports=":read_public",
            probe=NativeProbe(
                protocol="linear@umurl",
                best_on_test=True,
                settings={
                    "": {"lr": 0.006, "epochs": 160, "drops": [0.75, 0.875]},
                    "ntu60/cross-view": {"lr": 0.03},
                    "pku2": {"lr": 0.01, "crop_min": 0.5},
                },
            ),
            summary="four views of a clip agree over time, over joints and as a whole, features decorrelated in each",
            citation="Weng et al., USDRL: Unified Skeleton-Based Dense Representation Learning with Multi-Grained "
            "Feature Decorrelation, AAAI 2025 (arXiv 2412.09220)",
            requires=("time-and-space",),
            readings="shared: time is the maximum over patches of the tokens' mean over joints, space the maximum over "
            "joints of their mean over patches, the instance the class token, each a mean over the clip's bodies; "
            "projectors normalise by the clips of all processes; losses in float32",
            recipe=TWO_BRANCH_RECIPE | {"train.batch_size": 356},
            native=TWO_BRANCH_NATIVE | {"encoder": "dste"},
            space=RATES_SPACE | {"method.similarity": Log(1.0, 25.0), "method.correlation": Log(1e-4, 1e-2)},
            variants={
                "bone": {"method.stream": "bone"},
                "motion": {"method.stream": "motion"},
                "no-correlation": {"method.correlation": 0.0},
            },
        )
    ]
