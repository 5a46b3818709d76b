"""The checkpoint layout of UmURL's repository (HuiGuanLab/UmURL @744278b), and a state made of sines."""

import torch
from official import wave

DIM, EMBEDDING, T = 8, 6, 8

PROJECTOR = {"0": (DIM * 2, DIM * 2), "1": "norm", "3": (DIM * 2, DIM * 2), "4": "norm", "6": (EMBEDDING, DIM * 2)}
LAYER = {
    "self_attn.in_proj_weight": (3 * DIM, DIM),
    "self_attn.in_proj_bias": (3 * DIM,),
    "self_attn.out_proj": (DIM, DIM),
    "linear1": (DIM, DIM),
    "linear2": (DIM, DIM),
    "norm1": "plain norm",
    "norm2": "plain norm",
}


def public_state():
    """A state dict of HuiGuanLab/UmURL's model, made of sines."""
    parts = {}
    for branch, values in (("t", 150), ("s", 3 * T)):
        for stream in "jbm":
            own = f"backbone.{stream}_emb.{branch}_embedding"
            parts |= {f"{own}.0": (DIM, values), f"{own}.1": "plain norm", f"{own}.3": (DIM, DIM)}
        parts[f"backbone.mm_fusion.{branch}_fusion.0.weight"] = (DIM, DIM)
        parts |= {f"backbone.ma_encoder.{branch}_tr.layers.0.{name}": form for name, form in LAYER.items()}
    for stream in "jbm":
        parts |= {f"{stream}_projector.{place}": form for place, form in PROJECTOR.items()}
    shapes = {}
    for name, form in parts.items():
        if name.endswith(("weight", "_bias")):
            shapes[name] = form
        elif isinstance(form, tuple):
            shapes |= {f"{name}.weight": form, f"{name}.bias": form[:1]}
        else:
            width = (2 if form == "norm" else 1) * DIM
            shapes |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
            if form == "norm":
                shapes |= {f"{name}.running_mean": (width,), f"{name}.running_var": (width,)}
    state = {}
    for k, (name, shape) in enumerate(sorted(shapes.items())):
        about = float(len(shape) == 1 and name.endswith(("weight", "running_var")))
        scale = 1.4 / shape[1] ** 0.5 if len(shape) == 2 else 0.2
        state[name] = torch.from_numpy(about + scale * wave(shape, 0.1 * k)).float()
    counters = {
        f"{name.removesuffix('running_var')}num_batches_tracked": torch.tensor(3) for name in state if "_var" in name
    }
    return state | counters
