"""The checkpoint layout of LinguoLi/CrosSCLR and Levigty/AimCLR: states and clips made of formulas."""

from itertools import pairwise

import numpy as np
import torch
from official import wave

WIDTHS = (1, 1, 1, 1, 2, 2, 2, 4, 4)


def encoder_shapes(base, out, embedding, joints=25):
    """Name -> shape of ``net.st_gcn.Model`` with the head that the methods give it."""

    def norm(width):
        return {name: (width,) for name in ("weight", "bias", "running_mean", "running_var")}

    def conv(before, after, kernel=1):
        return {"weight": (after, before, kernel, 1), "bias": (after,)}

    parts = {"data_bn": norm(3 * joints)}
    for k, (before, after) in enumerate(pairwise([3, *(base * times for times in WIDTHS), out])):
        block = f"st_gcn_networks.{k}"
        parts |= {f"{block}.gcn.conv": conv(before, 3 * after)}
        parts |= {f"{block}.tcn.0": norm(after), f"{block}.tcn.2": conv(after, after, 9), f"{block}.tcn.3": norm(after)}
        if k and before != after:
            parts |= {f"{block}.residual.0": conv(before, after), f"{block}.residual.1": norm(after)}
    parts |= {f"fc.{k}": {"weight": (width, out), "bias": (width,)} for k, width in ((0, out), (2, embedding))}
    shapes = {f"{part}.{name}": shape for part, tensors in parts.items() for name, shape in tensors.items()}
    return shapes | {f"edge_importance.{k}": (3, joints, joints) for k in range(10)} | {"A": (3, joints, joints)}


def numbers(shapes, phase=0.0, size=2.5):
    """Tensors of ``shapes`` {name: shape}: matrices of ``size``, gains about 1; the adjacency is all zeros."""
    made = {}
    for k, (name, shape) in enumerate(sorted(shapes.items())):
        part, _, last = name.rpartition(".")
        if last == "A":
            value = np.zeros(shape)
        elif len(shape) > 1 and "edge_importance" not in name:  # matrices and convolutions
            value = wave(shape, 0.1 * k + phase) * size / np.sqrt(np.prod(shape[1:]))
        else:
            center = float(last in ("weight", "running_var") or "edge_importance" in name)
            value = center + (0.3 if center else 0.05) * wave(shape, 0.1 * k + phase)
        made[name] = torch.from_numpy(np.ascontiguousarray(value)).float()
        if last == "running_mean":
            made[f"{part}.num_batches_tracked"] = torch.tensor(7)
    return made


def encoder_state(prefix, phase, base=4, out=12, embedding=6):
    """Everything of one encoder and its head."""
    return {f"{prefix}.{name}": x for name, x in numbers(encoder_shapes(base, out, embedding), phase).items()}


def queue_state(name, phase, embedding=6, keys=8):
    """Unit keys, column by column, and where the next ones go."""
    queue = torch.from_numpy(wave((embedding, keys), phase)).float()
    pointer = name.replace("queue", "queue_ptr")
    return {name: torch.nn.functional.normalize(queue, dim=0), pointer: torch.zeros(1, dtype=torch.long)}


def state(keys=8):
    """A state dict of a pre-training checkpoint of one stream."""
    return encoder_state("encoder_q", 0.0) | encoder_state("encoder_k", 0.02) | queue_state("queue", 2.0, keys=keys)


def three_streams():
    """The same of CrosSCLR, whose motion and bones have a layer each before the head of joints."""
    made = {}
    for twin, phase in (("encoder_q", 0.0), ("encoder_k", 0.02)):
        made |= encoder_state(twin, phase)
        head = {name: x for name, x in made.items() if name.startswith(f"{twin}.fc.")}
        for stream, more in (("motion", 0.3), ("bone", 0.6)):
            front = f"{twin}_{stream}"
            made |= encoder_state(front, phase + more)
            del made[f"{front}.fc.2.weight"], made[f"{front}.fc.2.bias"]
            made |= {name.replace(f"{twin}.fc", f"{front}.fc.2"): x for name, x in head.items()}
    for name, phase in (("queue", 2.0), ("queue_motion", 2.3), ("queue_bone", 2.6)):
        made |= queue_state(name, phase)
    return made


def clips(number, frames=16):
    """float32 [4, 2, T, J, 3]: another batch for each ``number``; the second body of every other clip is absent."""
    b, m, t, j, c = np.meshgrid(*(np.arange(n) for n in (4, 2, frames, 25, 3)), indexing="ij")
    x = np.sin(1.3 * j + 2.1 * c + 0.5 * m + number) + 0.5 * np.sin((0.2 + 0.1 * b) * t + 0.7 * j * (c + 1) + b * b)
    x[::2, 1] = 0.0
    return torch.from_numpy(x).float()
