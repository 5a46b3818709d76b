"""USDRL: features over time, over joints and of the clip, each decorrelated over the batch (Weng et al., AAAI 2025).

Facts: wengwanjiang/USDRL @7e83bb6, pretrain.py, model/DSTE.py and model/loss.py; its successor
wengwanjiang/FoundSkelModel @945fe91. Four independently distorted views of a clip agree in three embeddings; VICReg's
terms hold within each view, Barlow Twins' between each two. B clips of all processes, E width of an embedding.
"""

from skelbench_plugins._recipes import RATES_SPACE, TWO_BRANCH_NATIVE, TWO_BRANCH_RECIPE, USDRL_PROBE

from skelbench.core.errors import SkelbenchError
from skelbench.methods import Imported, MultiGrained, MultiGrainedConfig
from skelbench.methods.imported import renamed, tensor_of
from skelbench.plugin import Log, MethodSpec, hookimpl


class USDRLConfig(MultiGrainedConfig):
    """Defaults follow the authors' code, except ``resize``."""


class USDRL(MultiGrained):
    """Multi-grained feature decorrelation."""

    Config = USDRLConfig

    def training_step(self, views, step):
        return self.decorrelate(self.encoder(views["clip"]), views["clip"], step)


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
"""Unneeded tensors: computed here, stored twice, or of a classifier."""


def read_public(state, options):
    """A checkpoint of the authors' code with DSTE; settings are read from shapes."""
    names = {"backbone.spe": "encoder.space_KD"}
    for released, ours in (("t", "time"), ("s", "space")):
        names |= {
            f"backbone.ske_emb.{released}_embedding": f"encoder.embed.{ours}",
            f"{released}_proj": f"projectors.{ours}",
        }
        for layer in range(2):
            before, after = f"backbone.{released}_tr{layer or ''}", f"encoder.{ours}.{layer}"
            names |= {f"{before}.{old}": f"{after}.{new}" for old, new in _LAYER.items()}
    names["i_proj"] = "projectors.instance"
    width = len(tensor_of(state, "backbone.spe", "1 x M J x D", lambda s: len(s) == 3 and s[0] == 1)[0, 0])
    shift = tensor_of(state, "backbone.t_tr.DSA.wt1.weight", "T x T", lambda s: len(s) == 2)
    settings = {"encoder.dim": width, "grid.frames": len(shift)}
    if "t_proj.0.weight" in state:
        settings["method.head_hidden"] = len(tensor_of(state, "t_proj.0.weight", "hidden x D", lambda s: len(s) == 2))
    skipped = tuple(name for name in state if name.startswith(_HEAD))
    tensors = {name: x for name, x in state.items() if name != _SINES and _SHARED not in name and name not in skipped}
    if strange := [name for name in tensors if not renamed(name, names)]:
        raise SkelbenchError(f"{len(strange)} of its tensors are not of USDRL's code, first {strange[0]!r}")
    tensors["backbone.spe"] = tensors["backbone.spe"][0]
    tensors = {name: x[..., 0] if name.endswith(".conv1.weight") and x.ndim == 3 else x for name, x in tensors.items()}
    return Imported(settings, {renamed(name, names): x for name, x in tensors.items()}, skipped)


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="usdrl",
            spelling="USDRL",
            target=":USDRL",
            config=":USDRLConfig",
            imports=":read_public",
            probe=USDRL_PROBE,
            summary="four views agree over time, over joints and as a whole, with decorrelated features",
            citation="Weng et al., USDRL: Unified Skeleton-Based Dense Representation Learning with Multi-Grained "
            "Feature Decorrelation, AAAI 2025 (arXiv 2412.09220)",
            requires=("time-and-space",),
            readings="shared: time is the maximum over patches of the tokens' mean over joints, space the maximum over "
            "joints of their mean over patches, the instance the class token, each a mean over the clip's bodies; "
            "projectors normalize by the clips of all processes; losses in float32",
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
