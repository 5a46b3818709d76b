"""Faster steps on a GPU by compiled code: Triton kernels of prototype losses, and CUDA graphs of blocks.

A step of a small model waits for the host, which launches hundreds of short kernels. With ``train.compile=blocks``
PyTorch fuses the operations of a ViT block and records them as a CUDA graph, one launch each. A graph has fixed sizes,
but the number of bodies R differs from batch to batch, so rows of zeros are added, up to a multiple of ROWS. Rows do
not see each other, so results are equal up to rounding, except that drop path draws other numbers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from skelbench.models.heads import PrototypeHead
from skelbench.models.prototype_loss import use_kernel
from skelbench.models.vit import Block
from skelbench.plugin.status import one_line

ROWS = 32
"""The number of bodies in a compiled block is a multiple of it."""


def compile_parts(method: nn.Module, device: torch.device, mode: str, precision: str = "bf16") -> tuple[bool, str]:
    """Compile what ``mode`` (``train.compile``) names; return (whether anything is compiled, a note or "").

    Prototype losses use kernels on a GPU in bf16, unless ``mode`` is "off".
    """
    use_kernel(False)
    if mode == "off" or device.type != "cuda":
        return False, "train.compile=blocks needs a GPU" if mode == "blocks" else ""
    heads = [part.prototype_direction for part in method.modules() if isinstance(part, PrototypeHead)]
    kernels = precision == "bf16" and len(heads) > 0
    try:
        if kernels:
            use_kernel(True, *heads)
    except Exception as error:  # each compiler raises its own kind
        return False, f"steps run uncompiled: {one_line(error)}"
    if mode == "blocks":
        compile_blocks(method, mode="reduce-overhead")
        # Graphs use the same memory in every step, so PyTorch must know where a step begins.
        method.register_forward_pre_hook(lambda *_: torch.compiler.cudagraph_mark_step_begin())
    return kernels or mode == "blocks", ""


def compile_blocks(method: nn.Module, **options: Any) -> None:
    """Compile the ViT blocks of ``method``, also of a teacher, with ``options`` of ``torch.compile``; not blocks that
    recompute their activations."""
    torch._dynamo.config.recompile_limit = 64  # one for each size and mode of each kind of block
    run = torch.compile(_run, dynamic=False, **options)
    for block in method.modules():
        if isinstance(block, Block) and "forward" not in vars(block):
            object.__setattr__(block, "forward", partial(_with_added_rows, run, block))


def _run(block: nn.Module, *args: Any) -> Tensor:
    return type(block).forward(block, *args)


def _with_added_rows(run: Any, block: nn.Module, x_RnD: Tensor, rope: Tensor | None = None, first: bool = False) -> Any:
    rows, more = len(x_RnD), -len(x_RnD) % ROWS
    if more:
        x_RnD = F.pad(x_RnD, (0, 0, 0, 0, 0, more))
        if rope is not None and len(rope) == rows > 1:
            rope = F.pad(rope, (0, 0) * (rope.ndim - 1) + (0, more))
    return run(block, x_RnD, rope, first)[:rows]
