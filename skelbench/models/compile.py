"""Compile the tiles of the prototype loss and the blocks of the ViT with ``torch.compile``.

Each block is compiled by itself: blocks are equal, so one compilation serves all of them, and state dicts keep their
names. Blocks of other encoders are not compiled.
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
"""Prototypes that make compiling worth its seconds."""


def compile_parts(method: nn.Module, device: torch.device, mode: str) -> tuple[bool, str]:
    """Compile parts of ``method``; return (whether any part is compiled, a note for the user or "").

    ``mode``: "off"; "on" (tiles and blocks); or "auto", tiles of at least ``MANY`` prototypes on a GPU, which make a
    step of SLiM at the paper's size a quarter shorter. Compiled blocks gained nothing there (docs/gpu.md). "auto"
    compiles nothing if deterministic algorithms are requested: the generated code depends on earlier shapes. One block
    and a small tile are tried first; without a working compiler nothing is compiled. :func:`undo` ends it.
    """
    undo(device)
    automatic = device.type == "cuda" and not torch.are_deterministic_algorithms_enabled()
    if mode == "off" or (mode == "auto" and not automatic):
        return False, ""
    least = 1 if mode == "on" else MANY
    tiles = any(isinstance(part, PrototypeHead) and len(part.prototype_direction) >= least for part in method.modules())
    blocks = [part for part in method.modules() if isinstance(part, Block)] if mode == "on" else []
    try:
        if blocks:
            _try(blocks[0], device)
        fuse(device, tiles)
    except Exception as error:  # each compiler backend raises its own kind
        return False, f"steps run uncompiled: {one_line(error)}"
    for block in blocks:
        block.compile()
    if mode == "on" and not (tiles or blocks):
        return False, "train.compile=on compiles nothing here: there are neither ViT blocks nor prototypes"
    return bool(tiles or blocks), ""


def undo(device: torch.device) -> None:
    """Compute the tiles of the prototype loss uncompiled again: later counts and timings are of uncompiled code."""
    fuse(device, False)


def _try(block: Block, device: torch.device) -> None:
    """Forward and backward of a compiled copy, on few tokens."""
    if world() > 1:  # blocks are smaller than buckets of gradients, and some versions refuse to divide recomputed ones
        torch._dynamo.config.optimize_ddp = False
    trial = copy.deepcopy(block).requires_grad_(True)
    trial.compile()
    x_RnD = torch.zeros(2, 8, *trial.norm1.normalized_shape, device=device)
    trial(x_RnD.requires_grad_(True)).sum().backward()
