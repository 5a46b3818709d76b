"""Compile the tiles of the prototype loss with ``torch.compile``."""

from __future__ import annotations

import torch
from torch import nn

from skelbench.models.heads import PrototypeHead
from skelbench.models.prototype_loss import fuse
from skelbench.plugin.status import one_line

MANY = 4096
"""Smallest number of prototypes for which compiling pays off."""


def compile_parts(method: nn.Module, device: torch.device, mode: str) -> tuple[bool, str]:
    """Compile parts of ``method``; return (whether any part is compiled, a note for the user or "").

    ``mode``: "off"; "on"; or "auto", for at least ``MANY`` prototypes on a GPU, which makes a step of SLiM at the
    paper's size a quarter shorter (docs/gpu.md). "auto" compiles nothing if deterministic algorithms are requested: the
    generated code depends on earlier shapes. Without a working compiler nothing is compiled. :func:`undo` ends it.
    """
    undo(device)
    automatic = device.type == "cuda" and not torch.are_deterministic_algorithms_enabled()
    if mode == "off" or (mode == "auto" and not automatic):
        return False, ""
    heads = [part for part in method.modules() if isinstance(part, PrototypeHead)]
    if mode == "auto" and not any(len(head.prototype_direction) >= MANY for head in heads):
        return False, ""
    if not heads:
        return False, "train.compile=on compiles nothing here: there are no prototypes"
    try:
        fuse(device, True)
    except Exception as error:  # each compiler backend raises its own kind
        return False, f"steps run uncompiled: {one_line(error)}"
    return True, ""


def undo(device: torch.device) -> None:
    """Use uncompiled tiles of the prototype loss again: later counts and timings are of uncompiled code."""
    fuse(device, False)
