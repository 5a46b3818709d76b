"""The checkpoint layout of MAMP's repository (maoyunyao/MAMP, commit 09e6252), and states and clips made of formulas.

Everything here is a sine of an index, so that it is the same whatever the version of a random generator.
"""

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import torch

from skelbench.models.vit import ViTConfig

ENCODER = ViTConfig(temporal="learned", cls=False)
"""The family's encoder: 6,336,000 parameters at T = 120, P_T = 4."""

BLOCK = {
    "norm1.weight": (1,),
    "norm1.bias": (1,),
    "attn.proj.weight": (1, 1),
    "attn.proj.bias": (1,),
    "attn.qkv.weight": (3, 1),
    "attn.qkv.bias": (3,),
    "norm2.weight": (1,),
    "norm2.bias": (1,),
    "mlp.fc1.weight": (4, 1),
    "mlp.fc1.bias": (4,),
    "mlp.fc2.weight": (1, 4),
    "mlp.fc2.bias": (1,),
}
"""Shapes in units of the width."""


def shapes(dim, depth, decoder_depth, frames, patch, joints=25):
    """Name -> shape of ``model_mamp`` and ``model_mae``; ``decoder_depth`` 0 = the encoder alone."""
    out = {
        "temp_embed": (1, frames // patch, 1, dim),
        "pos_embed": (1, 1, joints, dim),
        "joints_embed.proj.weight": (dim, 3, patch, 1),
        "joints_embed.proj.bias": (dim,),
        "norm.weight": (dim,),
        "norm.bias": (dim,),
    }
    for front, blocks in (("blocks", depth), ("decoder_blocks", decoder_depth)):
        for k in range(blocks):
            out |= {f"{front}.{k}.{name}": tuple(n * dim for n in shape) for name, shape in BLOCK.items()}
    if decoder_depth:
        out |= {
            "mask_token": (1, 1, dim),
            "decoder_temp_embed": (1, frames // patch, 1, dim),
            "decoder_pos_embed": (1, 1, joints, dim),
            "decoder_embed.weight": (dim, dim),
            "decoder_embed.bias": (dim,),
            "decoder_norm.weight": (dim,),
            "decoder_norm.bias": (dim,),
            "decoder_pred.weight": (patch * 3, dim),
            "decoder_pred.bias": (patch * 3,),
        }
    return out


def wave(shape, phase):
    """float64 array of sines of irregularly spaced arguments."""
    i = np.arange(np.prod(shape), dtype=np.float64)
    return np.sin(0.7 * i + 0.013 * i * np.sqrt(i) + phase).reshape(shape)


def state(*args, **kwargs):
    """A state dict of these :func:`shapes`: matrices of the usual size, gains about 1."""
    made = {}
    for k, (name, shape) in enumerate(sorted(shapes(*args, **kwargs).items())):
        fan = np.prod(shape[1:]) if len(shape) == 2 or "proj.weight" in name else 25
        gain = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        made[name] = torch.from_numpy(gain + wave(shape, 0.1 * k) * 1.4 / np.sqrt(fan) * (0.3 if gain else 1.0)).float()
    return made


def clip(clips, frames, joints=25):
    """float32 [B, 2, T, J, 3]: swinging joints, in meters; the second body of every other clip is absent (zeros)."""
    b, m, t, j, c = np.meshgrid(*(np.arange(n) for n in (clips, 2, frames, joints, 3)), indexing="ij")
    speed = 0.05 + 0.02 * (j % 7) + 0.01 * b
    x = 0.4 * np.sin(1.3 * j + 2.1 * c + 0.5 * m) + 0.1 * (1 + j % 3) * np.sin(speed * t + j + c + b + 2 * m)
    x[::2, 1] = 0.0
    return torch.from_numpy(x).float()


def noise(rows, tokens):
    """Replacement of uniform draws, float32 [R, N] in [0, 1)."""
    return torch.from_numpy(wave((rows, tokens), 0.3) * 43758.5453 % 1.0).float()


def public_layout(weights):
    """Our weights of a masked autoencoder (names below ``encoder.`` and ``decoder.``) in the repository's layout."""
    back = {
        "encoder.tokenizer.project": "joints_embed.proj",
        "encoder.tokenizer.joint_embed": "pos_embed",
        "encoder.tokenizer.time_embed": "temp_embed",
        "encoder.blocks": "blocks",
        "encoder.norm": "norm",
        "decoder.embed": "decoder_embed",
        "decoder.mask_token": "mask_token",
        "decoder.joint_embed": "decoder_pos_embed",
        "decoder.time_embed": "decoder_temp_embed",
        "decoder.blocks": "decoder_blocks",
        "decoder.norm": "decoder_norm",
        "decoder.predict": "decoder_pred",
    }
    out = {}
    for name, x in weights.items():
        ours = next(known for known in back if name == known or name.startswith(known + "."))
        if name == "encoder.tokenizer.project.weight":
            x = x.unflatten(1, (-1, 3)).transpose(1, 2).unsqueeze(-1)
        elif name.endswith("joint_embed"):
            x = x[None, None]
        elif name.endswith("time_embed"):
            x = x[None, :, None]
        elif name == "decoder.mask_token":
            x = x[None]
        out[back[ours] + name.removeprefix(ours)] = x.contiguous()
    return out


@contextmanager
def in_float64():
    """Compute in float64 what asks for float32, so that no result depends on the kernels of a processor.

    In float32 a weight before a batch norm has a gradient of small differences, which kernels move by up to 1 %.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with patch.object(torch.Tensor, "float", torch.Tensor.double):
            yield
    finally:
        torch.set_default_dtype(before)


def fill(module):
    """Give every parameter of ``module`` values by its name's rank and its shape: matrices of the usual size, gains of
    norms about 1."""
    with torch.no_grad():
        for k, (name, p) in enumerate(sorted(module.named_parameters())):
            gain = 1.0 if p.ndim == 1 and name.endswith("weight") or "importance" in name else 0.0
            size = 0.3 if gain or p.ndim == 1 else 1.4 / np.prod(p.shape[1:]) ** 0.5
            p.copy_(torch.from_numpy(gain + size * wave(tuple(p.shape), 0.1 * k)))
    return module
