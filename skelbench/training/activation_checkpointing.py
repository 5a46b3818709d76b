"""Activations of blocks that are computed again in the backward pass instead of being kept (checkpointing).

Every number stays as it is, bit by bit, on a GPU up to rounding, since views are then taken one after another
(:func:`skelbench.models.encoder.encode_all`): the same operations are done again on the same inputs, with the same
random
draws. A step takes about a third longer and keeps, of each block, its input alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from skelbench.models.encoder import Encoder


def blocks(method: nn.Module) -> Iterator[nn.Module]:
    """The outermost entries of module lists that learn: blocks of encoders and decoders.

    Not those with a batch norm, whose running statistics would see each batch twice.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ModuleList([nn.Linear(2, 2), nn.BatchNorm1d(2)]))
    >>> [type(block).__name__ for block in blocks(net)]
    ['Linear']
    """
    for child in method.children():
        if not isinstance(child, nn.ModuleList):
            yield from blocks(child)
            continue
        for block in child:
            learns = any(p.requires_grad for p in block.parameters())
            if learns and not any(isinstance(part, _BatchNorm) for part in block.modules()):
                yield block


def recompute(method: nn.Module, on: bool = True) -> None:
    """Have the :func:`blocks` of ``method`` computed again in the backward pass, or no more."""
    for part in method.modules():
        if isinstance(part, Encoder):
            part.recomputed = on
    for block in blocks(method):
        vars(block).pop("forward", None)
        if on:  # a partial can be copied and pickled with its module
            object.__setattr__(block, "forward", partial(_again, block))


def _again(block: nn.Module, *args: Any, **options: Any) -> Any:
    forward = partial(type(block).forward, block)
    if not (block.training and torch.is_grad_enabled()):
        return forward(*args, **options)
    return checkpoint(forward, *args, use_reentrant=False, **options)
