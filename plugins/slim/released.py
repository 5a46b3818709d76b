"""Public files of SLiM's authors (KAIST-VICLab/SLiM at 2b8bb41) in our names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.methods import Imported
from skelbench.methods.imported import tensor_of

BACKBONE = "backbone."
HEADS = ("dino_head.", "ibot_head.")
"""Projection heads of pre-training, which no evaluation uses."""
RENAMED = {
    "cls_token": "cls_token",
    "register_tokens": "registers",
    "mask_token": "tokenizer.mask_token",
    "pos_embed": "tokenizer.joint_embed",
    "patch_embed.proj.weight": "tokenizer.project.weight",
    "patch_embed.proj.bias": "tokenizer.project.bias",
    "norm.weight": "norm.weight",
    "norm.bias": "norm.bias",
}
GATED = {"mlp.w12": ("mlp.fc1_g", "mlp.fc1_x"), "mlp.w3": ("mlp.fc2",)}
"""Layers of SwiGLU; the first holds gate and value, one after the other."""
VIEWS = {
    "train.bodies": "random-valid",
    "train.center": "body-in-training",
    "method.resize": "release",
    "method.whole_frames": True,
}
"""Settings of preset ``release`` for the preparation of clips in an evaluation."""
OTHER_FILES = "take teacher_checkpoint.pth, an exported encoder, or model.safetensors of the authors' hub"


def imported(state: Mapping[str, Tensor], options: Mapping[str, Any]) -> Imported:
    """The encoder of ``teacher_checkpoint.pth``, of an exported encoder, or of the hub's ``model.safetensors``.

    ``options``: options of the hub's ``config.json``, or none.

    Raises:
        SkelbenchError: the file is of another method, or a part of the encoder is missing.
    """
    if any("classifiers_dict" in name or "linear_classifier" in name for name in state):
        raise SkelbenchError(f"it holds linear probes and no encoder; {OTHER_FILES}")
    bare = any(name.startswith(BACKBONE) for name in state)
    heads = tuple(name for name in state if name.startswith(HEADS))
    encoder = {name.removeprefix(BACKBONE): x for name, x in state.items() if name not in heads}
    if bare and not all(name.startswith((BACKBONE, *HEADS)) for name in state):
        strange = next(name for name in state if not name.startswith((BACKBONE, *HEADS)))
        raise SkelbenchError(f"{strange!r} belongs to another model; {OTHER_FILES}")
    patches = tensor_of(
        encoder, "patch_embed.proj.weight", "D x 3 x P_T x 1", lambda s: len(s) == 4 and s[1::2] == (3, 1)
    )
    registers = tensor_of(encoder, "register_tokens", "1 x 4 x D", lambda s: len(s) == 3)
    tensor_of(encoder, "blocks.0.mlp.w3.weight", "D x hidden", lambda s: len(s) == 2)
    tensor_of(encoder, "pos_embed", "1 x (1 + J) x D", lambda s: len(s) == 3)
    dim, patch = patches.shape[0], patches.shape[2]
    numbers = {int(name.split(".")[1]) for name in encoder if name.startswith("blocks.")}
    image_size = options.get("img_size", (64, 25))
    settings = {
        "encoder.dim": dim,
        "encoder.depth": len(numbers),
        "encoder.heads": options.get("num_heads", 8),
        "encoder.mlp": "swiglu",
        "encoder.mlp_ratio": 4.0,
        "encoder.registers": registers.shape[1],
        "encoder.cls_position": True,
        "grid.frames": image_size[0],
        "grid.patch": patch,
        **VIEWS,
    }
    weights = {}
    for name, x in encoder.items():
        for ours, tensor in _renamed(name, x):
            weights[f"teacher.encoder.{ours}"] = tensor
    return Imported(settings, weights, leftover=heads)


def _renamed(name: str, x: Tensor) -> list[tuple[str, Tensor]]:
    """Our names and tensors of one tensor of the file."""
    if name == "pos_embed":  # the class token's position comes first in the file and last here
        return [(RENAMED[name], torch.cat([x[0, 1:], x[0, :1]]))]
    if name == "patch_embed.proj.weight":  # D x 3 x P_T x 1 -> D x (P_T 3)
        return [(RENAMED[name], x[..., 0].transpose(1, 2).flatten(1))]
    if name in RENAMED:
        return [(RENAMED[name], x.reshape(-1) if name in ("cls_token", "mask_token") else x[0] if x.ndim == 3 else x)]
    for layer, ours in GATED.items():
        if f".{layer}." in name:
            return [(name.replace(layer, new), part) for new, part in zip(ours, x.chunk(len(ours)))]
    if name.startswith("blocks."):
        return [(name, x)]
    raise SkelbenchError(f"its tensor {name!r} belongs to another model; {OTHER_FILES}")
