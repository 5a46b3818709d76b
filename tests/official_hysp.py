"""The checkpoint layout of HYSP's repository (paolomandica/HYSP, commit 7aa7bc0): a state made of formulas."""

import numpy as np
import official_graph
import torch
from official import wave

BASE, OUT, HIDDEN = 4, 12, 16


def head_shapes(width):
    """Of ``MLP(width, [HIDDEN, HIDDEN])``."""
    norm = {f"1.{name}": (HIDDEN,) for name in ("weight", "bias", "running_mean", "running_var")}
    return {
        "0.weight": (HIDDEN, width), "0.bias": (HIDDEN,), **norm, "3.weight": (HIDDEN, HIDDEN), "3.bias": (HIDDEN,)
    }  # fmt: skip


def state():
    """A state dict of a pre-training checkpoint, with the names that PyTorch Lightning gives."""
    graph = {name: x for name, x in official_graph.encoder_shapes(BASE, OUT, HIDDEN).items() if name[:3] != "fc."}
    shapes = {f"{twin}_encoder.{name}": shape for twin in ("online", "target") for name, shape in graph.items()}
    for head, width in (("online_projector", OUT), ("online_predictor", HIDDEN), ("target_projector", OUT)):
        shapes |= {f"{head}.net.{name}": shape for name, shape in head_shapes(width).items()}
    made = {}
    for k, (name, shape) in enumerate(sorted(shapes.items())):
        part, _, last = name.rpartition(".")
        if len(shape) in (2, 4):  # matrices and convolutions
            value = wave(shape, 0.1 * k) * 1.5 / np.sqrt(np.prod(shape[1:]))
        else:
            centre = float(last in ("weight", "running_var") or "edge_importance" in name)
            value = centre + (0.3 if centre else 0.05) * wave(shape, 0.1 * k)
        made[f"model.{name}"] = torch.from_numpy(np.ascontiguousarray(value)).float()
        if last == "running_mean":
            made[f"model.{part}.num_batches_tracked"] = torch.tensor(7)
    return made
