"""The checkpoint layout of HYSP's repository (paolomandica/HYSP, commit 7aa7bc0): a state made of formulas."""

import official_graph

BASE, OUT, HIDDEN = 4, 12, 16


def head_shapes(width):
    """Names of the layers of ``MLP(width, [HIDDEN, HIDDEN])``."""
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
    return {f"model.{name}": x for name, x in official_graph.numbers(shapes, size=1.5).items()}
