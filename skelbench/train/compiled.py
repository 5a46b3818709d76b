"""Blocks of encoders and decoders and tiles of the prototype loss through ``torch.compile``, which fuses what is no
product.

Each block alone: blocks are alike, so that one compilation serves them all, and what is around them stays as it is.
State dicts keep their names, and blocks of copies of a method (EMA twins, the one whose FLOPs are counted) are not
compiled.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from skelbench.distributed import world
from skelbench.nn.heads import PrototypeHead
from skelbench.nn.prototype_loss import fuse
from skelbench.nn.vit import Block
from skelbench.plugin.status import one_line


def compile_blocks(method: nn.Module, device: torch.device, how: str) -> tuple[bool, str]:
    """Whether the :class:`Block` parts of ``method``, and what its prototype loss does to tiles, are compiled from now
    on, and what to say of it.

    ``how``: "on", "off", or "auto": on a GPU alone, since on the CPU a compilation takes minutes of a short run. One
    block is tried first, on few tokens: without a compiler (Triton, or a C++ compiler on the CPU) nothing is compiled.
    """
    fuse(device, False)
    blocks = [part for part in method.modules() if isinstance(part, Block)]
    if not blocks or how == "off" or (how == "auto" and device.type != "cuda"):
        return False, ""
    if world() > 1:  # blocks are smaller than buckets of gradients, and some versions refuse to divide recomputed ones
        torch._dynamo.config.optimize_ddp = False
    trial = copy.deepcopy(blocks[0]).requires_grad_(True)
    try:
        trial.compile()
        x_RnD = torch.zeros(2, 8, *trial.norm1.normalized_shape, device=device)
        trial(x_RnD.requires_grad_(True)).sum().backward()
        fuse(device, any(isinstance(part, PrototypeHead) for part in method.modules()))
    except Exception as error:  # of any of the compilers
        return False, f"blocks run uncompiled: {one_line(error)}"
    for block in blocks:
        block.compile()
    return True, ""
