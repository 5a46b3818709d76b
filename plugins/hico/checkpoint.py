"""Checkpoints of HiCo's code (HuiGuanLab/HiCo @cf39a93) in our names. D width of a branch."""

import torch

from skelbench.core.errors import SkelbenchError
from skelbench.methods import Imported
from skelbench.methods.imported import renamed, tensor_of
from skelbench.models.two_branch import TORCH_LAYER

_OTHER = ("encoder_k.", "encoder_q.", "c_queue", "p_queue", "t_queue", "s_queue", "i_queue", "fc.")
"""Tensors that only training needs (heads among them), and a classifier."""


def imported(state, options):
    """The encoder of a checkpoint of the authors' code, of pre-training or of a probe, if it is the transformer; z is
    up in its clips, y here."""
    front = next((x for x in ("encoder_q.hi_encoder", "hi_encoder") if f"{x}.t_embedding.0.weight" in state), "")
    front = front or "encoder_q.hi_encoder"
    if f"{front}.t_encoder.weight_ih_l0" in state:
        raise SkelbenchError("its encoder is a GRU or an LSTM; only HiCo's transformer encoder is implemented")
    layers = f"{front}.t_encoder.layers."
    names: dict[str, str] = {}
    depth = len({x.removeprefix(layers).split(".")[0] for x in state if x.startswith(layers)})
    for released, ours in (("t", "time"), ("s", "space")):
        form = "D x numbers of three axes"
        tensor_of(state, f"{front}.{released}_embedding.0.weight", form, lambda s: len(s) == 2 and s[1] % 3 == 0)
        names |= {
            f"{front}.{released}_embedding": f"encoder.embed.{ours}",
            f"{front}.{released}_downsample.conv.dw_conv": f"encoder.halve.{ours}.conv",
            f"{front}.{released}_downsample.norm": f"encoder.halve.{ours}.norm",
        }
        for layer in range(depth):
            before, after = f"{front}.{released}_encoder.layers.{layer}", f"encoder.{ours}.{layer}"
            names |= {f"{before}.{old}": f"{after}.{new}" for old, new in TORCH_LAYER.items()}
    weights = {renamed(name, names): x for name, x in state.items() if renamed(name, names)}
    skipped = tuple(name for name in state if not renamed(name, names))
    if strange := [name for name in skipped if not name.startswith(_OTHER) or name.startswith(front)]:
        raise SkelbenchError(f"{len(strange)} of its tensors are not of HiCo's code, first {strange[0]!r}")
    for branch in ("time", "space"):
        name = f"encoder.embed.{branch}.0.weight"
        x, y, z = weights[name].unflatten(1, (-1, 3)).unbind(2)
        weights[name] = torch.stack([x, z, -y], 2).flatten(1)  # our (x, y, z) is (x, z, -y) in the file
    dim, frames = x.shape  # weights of one joint's numbers over time
    settings = {"encoder.dim": dim, "encoder.depth": depth, "grid.frames": frames}
    for name, domains in (("encoder_q.td_proj.0.weight", 1), ("fc.weight", 2)):
        if name in state:
            count = state[name].shape[1] // (domains * dim)
            settings |= {"encoder.granularities": count, "method.granularities": count}
    return Imported(settings, weights, skipped)
