"""Tiles of the prototype loss, and the ViT's blocks in encoders, EMA twins and decoders, through ``torch.compile``,
which fuses what is no product.

Each block alone: blocks are alike, so that one compilation serves them all, and what is around them stays as it is.
State dicts keep their names, and blocks of later copies of a method (the one whose FLOPs are counted) are not compiled.
Blocks of other kinds (of other encoders, modulated ones, such that attend to other tokens) are not either.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from skelbench.core.distributed import world
from skelbench.models.heads import PrototypeHead
from skelbench.models.prototype_loss import fuse
from skelbench.models.vit import Block
from skelbench.plugin.status import one_line

MANY = 4096
"""Prototypes from which on it is worth seconds of compiling that tiles of their logits are read less often."""


def compile_parts(method: nn.Module, device: torch.device, how: str) -> tuple[bool, str]:
    """Whether what a prototype loss of ``method`` does to tiles, and its :class:`Block` parts, are compiled from now
    on, and what to say of it.

    ``how``: "off"; "on", both; or "auto", tiles of many prototypes alone, on a GPU: seconds of compiling that make a
    step of SLiM at the paper's size a quarter shorter. Blocks, most of a minute of compiling, gained nothing on the GPU
    on which it was measured (docs/gpu.md), and on the CPU minutes of compiling gain nothing. Where the same bits are
    wanted "auto" compiles nothing: which code is made depends on which shapes came before. One block, and a small tile,
    are tried first: without a compiler (Triton, or a C++ compiler on the CPU) nothing is compiled.
    """
    fuse(device, False)
    by_itself = device.type == "cuda" and not torch.are_deterministic_algorithms_enabled()
    if how == "off" or (how == "auto" and not by_itself):
        return False, ""
    least = 1 if how == "on" else MANY
    tiles = any(isinstance(part, PrototypeHead) and len(part.prototype_direction) >= least for part in method.modules())
    blocks = [part for part in method.modules() if isinstance(part, Block)] if how == "on" else []
    try:
        if blocks:
            _try(blocks[0], device)
        fuse(device, tiles)
    except Exception as error:  # of any of the compilers
        return False, f"steps run uncompiled: {one_line(error)}"
    for block in blocks:
        block.compile()
    if how == "on" and not (tiles or blocks):
        return False, "train.compile=on compiles nothing here: there are neither ViT blocks nor prototypes"
    return bool(tiles or blocks), ""


def _try(block: Block, device: torch.device) -> None:
    """Forward and backward of a compiled copy, on few tokens."""
    if world() > 1:  # blocks are smaller than buckets of gradients, and some versions refuse to divide recomputed ones
        torch._dynamo.config.optimize_ddp = False
    trial = copy.deepcopy(block).requires_grad_(True)
    trial.compile()
    x_RnD = torch.zeros(2, 8, *trial.norm1.normalized_shape, device=device)
    trial(x_RnD.requires_grad_(True)).sum().backward()
