"""Checkpoints of ISC's code (fmthoker/skeleton-contrast): two encoders, which may be of three kinds.

z is up in its clips, y here: our (x, y, z) is (x, z, -y) in the file.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.methods.imported import Imported, tensor_of
from skelbench.methods.recurrent_contrast import FIRST, recurrent_weights

SIDES = {"encoder_q": "encoder", "encoder_r": "partner"}
OTHER = ("encoder_k.", "encoder_l.", "encoder_q.fc.", "encoder_r.fc.", "Queue_S", "queue_ptr_S")
"""Tensors that only training needs."""
AXES, SIGNS = (0, 2, 1), (1.0, 1.0, -1.0)
"""Axis of the file for each of our axes, and its sign."""


def imported(state, options) -> Imported:
    """The two encoders of a checkpoint of the authors' code."""
    if strange := next((name for name in state if not name.startswith((*OTHER, *(f"{side}." for side in SIDES)))), ""):
        raise SkelbenchError(f"its tensor {strange!r} is of another model")
    settings: dict[str, Any] = {}
    weights: dict[str, Tensor] = {}
    for side, ours in SIDES.items():
        own = {
            name.removeprefix(f"{side}."): x
            for name, x in state.items()
            if name.startswith(f"{side}.") and not name.startswith(OTHER)
        }
        kind = next((kind for kind, (mark, _) in KINDS.items() if mark in own), "")
        if not kind:
            marks = ", ".join(mark for mark, _ in KINDS.values())
            raise SkelbenchError(f"its {side}.* is not an encoder of this family: it has none of {marks}")
        sizes, tensors = KINDS[kind][1](own)
        weights |= {f"{ours}.{name}": x for name, x in tensors.items()}
        if ours == "partner":
            settings |= {"method.partner": kind, "method.partner_settings": sizes}
        else:
            settings |= {"encoder": kind, **{f"encoder.{name}": size for name, size in sizes.items()}}
    return Imported(settings, weights, tuple(name for name in state if name.startswith(OTHER)))


def _recurrent(own: Mapping[str, Tensor]):
    sizes, weights = recurrent_weights(own, normed=False)
    return sizes | {"input_norm": False}, weights


GRAPH = {
    "gcn1.PA": "graph.own_SJJ",
    "gcn1.conv_a": "graph.query",
    "gcn1.conv_b": "graph.key",
    "gcn1.conv_d": "graph.value",
    "gcn1.bn": "graph.norm",
    "gcn1.down": "graph.residual",
    "tcn1.conv": "time.0",
    "tcn1.bn": "time.1",
    "residual.conv": "residual.0",
    "residual.bn": "residual.1",
}
"""Names inside a block of the public 2s-AGCN and, after the arrow, ours."""


def _graph(own: Mapping[str, Tensor]):
    time = tensor_of(own, "l1.tcn1.conv.weight", "C x C x frames x 1", lambda s: len(s) == 4)
    weights = {}
    for name, x in own.items():
        block, inner, norm = _matched(rf"l(\d+)\.({'|'.join(map(re.escape, GRAPH))})(?=\.|$).*|data_bn\.(\w+)", name)
        if norm:
            x_LC = x if x.dim() == 0 else x.view(-1, 3)[:, AXES]
            flipped = norm in ("weight", "running_mean")
            weights[f"norm.{norm}"] = (x_LC * torch.tensor(SIGNS) if flipped else x_LC).flatten() if x.dim() else x
            continue
        x = x[:, AXES] if block == "1" and x.dim() == 4 and x.shape[1] == 3 else x
        weights[f"blocks.{int(block) - 1}.{GRAPH[inner]}{name.partition(inner)[2]}"] = x
    return {"base": time.shape[0], "kernel": time.shape[2]}, weights


IMAGE = {
    "conv1.0": "points.0",
    "conv2": "points.2",
    "conv3.0": "images.0",
    "conv4.0": "images.2",
    "conv5.0": "joined.0",
    "conv6.0": "joined.4",
}
"""Names of the public HCN and, after the arrow, ours; names of motion tensors have an m behind the number."""


def _image(own: Mapping[str, Tensor]):
    points = tensor_of(own, "conv2.weight", "I x C x 3 x 1", lambda s: len(s) == 4)
    weights = {}
    for name, x in own.items():
        number, motion, place, part = _matched(r"conv(\d)(m?)((?:\.0)?)\.(weight|bias)", name)
        ours = IMAGE.get(f"conv{number}{place}", "")
        branch = "" if ours.startswith("joined") else "motion." if motion else "position."
        x = x[:, AXES] * torch.tensor(SIGNS)[:, None, None] if (number, part) == ("1", "weight") else x
        weights[f"{branch}{ours}.{part}"] = x
    return {"channels": points.shape[1], "image": points.shape[0]}, weights


def _matched(pattern: str, name: str) -> tuple[str, ...]:
    if match := re.fullmatch(pattern, name):
        return match.groups("")
    raise SkelbenchError(f"its tensor {name!r} is of another model")


KINDS = {"bigru": (FIRST, _recurrent), "agcn": ("l1.gcn1.PA", _graph), "hcn": ("conv1.0.weight", _image)}
"""Our encoder -> a name by which its tensors are recognized, and their reader: settings, weights by our names."""
