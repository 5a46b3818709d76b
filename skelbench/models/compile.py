"""Choose between tiles of logits and compiled Triton kernels for the prototype loss."""

from __future__ import annotations

import torch
from torch import nn

from skelbench.models.heads import PrototypeHead
from skelbench.models.prototype_loss import use_kernel
from skelbench.plugin.status import one_line

MANY = 4096
"""Smallest number of prototypes for which compiling pays off."""


def compile_parts(method: nn.Module, device: torch.device, mode: str, precision: str = "bf16") -> tuple[bool, str]:
    """Compile parts of ``method``; return (whether any part is compiled, a note for the user or "").

    ``mode``: "off"; "on"; or "auto", for at least ``MANY`` prototypes on a GPU in bf16 (docs/gpu.md). Without Triton
    nothing is compiled. :func:`undo` ends it.
    """
    undo()
    fits = device.type == "cuda" and precision == "bf16"
    if mode == "off" or (mode == "auto" and not fits):
        return False, ""
    heads = [part.prototype_direction for part in method.modules() if isinstance(part, PrototypeHead)]
    if mode == "auto" and not any(len(W_KD) >= MANY for W_KD in heads):
        return False, ""
    if not heads or not fits:
        why = "it needs a GPU and bf16" if heads else "there are no prototypes"
        return False, f"train.compile=on compiles nothing here: {why}"
    try:
        use_kernel(True, *heads)
    except Exception as error:  # each compiler backend raises its own kind
        return False, f"steps run uncompiled: {one_line(error)}"
    return True, ""


def undo() -> None:
    """Use tiles in the prototype loss again: later counts and timings are of uncompiled code."""
    use_kernel(False)
