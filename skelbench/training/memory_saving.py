"""Two ways to need less memory: gradient accumulation and activation checkpointing.

**Gradient accumulation.** A batch is processed in micro-batches ("pieces"). For each piece, a mean over the batch is
pieces * sum / count of the whole batch, and gradients of pieces are averaged. The whole count is known only after the
last piece: until then the count of the first piece is used, and gradients are corrected at the end.

**Activation checkpointing.** Blocks recompute their activations in the backward pass instead of storing them. Numbers
stay the same. ``on``: a step takes about a third longer and stores only the block inputs. ``elementwise``: the results
of matrix products and attention are stored too, so that only norms, activations and casts are computed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import RunSpec
from skelbench.methods.contract import Method

Recompute = Literal["off", "elementwise", "on"]
"""Extent of what blocks compute again in the backward pass."""


class Means:
    """Implementation of ``Step.mean`` for a step that runs in ``pieces``; call :meth:`next` before each piece."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces
        self._first: list[Tensor] = []
        """1 / count of each mean in the first piece, in the order of the calls."""
        self._count: Tensor | float = 0.0
        """Count of the first mean over all pieces."""
        self._at = 0

    def next(self) -> None:
        """Begin the next piece, which takes the same means in the same order."""
        self._at = 0

    def __call__(self, total: Tensor, count: Tensor | float) -> Tensor:
        """See :meth:`skelbench.methods.contract.Step.mean`."""
        share = distributed.global_mean(torch.ones_like(total.detach()), count)
        if self._at == len(self._first):
            self._first.append(share)
        if self._at == 0:
            self._count = self._count + 1 / share
        self._at += 1
        return total * self._first[self._at - 1]

    @property
    def correction(self) -> Tensor | None:
        """Factor that replaces the first piece's count in averages over pieces; None if no mean was computed."""
        return self.pieces / (self._first[0] * self._count) if self._first else None


def obstacle(method: Method, spec: RunSpec) -> str:
    """Return why the batch of a run cannot be split into pieces; "" = it can. ``method`` is in training mode."""
    if reason := method.whole_batch:
        return f"method {spec.method} needs its whole batch at once: {reason}"
    if any(isinstance(module, _BatchNorm) and module.training for module in method.modules()):
        return f"batch norm of encoder {spec.encoder} normalizes by the whole batch"
    if spec.train.batch_size % (processes := distributed.world()):
        return f"{processes} processes get unequal parts of a batch of {spec.train.batch_size} clips"
    return ""


def check_micro_batches(method: Method, spec: RunSpec, pieces: int) -> None:
    """Raise :class:`SkelbenchError` if a step of this process cannot be divided into ``pieces``."""
    if pieces == 1:
        return
    if reason := obstacle(method, spec):
        raise SkelbenchError(
            f"train.accumulate={pieces}: {reason}; leave it out, and set train.recompute=on to need less memory"
        )
    clips = spec.train.batch_size // distributed.world()
    if clips % pieces or clips // pieces < method.min_clips:
        which = ", ".join(map(str, micro_batch_counts(clips, method.min_clips))) or "none"
        raise SkelbenchError(
            f"train.accumulate={pieces} does not divide the {clips} clips of a process's batch; possible numbers: "
            f"{which}"
        )


def micro_batch_counts(clips: int, least: int) -> list[int]:
    """Numbers of pieces, from 2, that divide ``clips`` into ``least`` or more each."""
    return [n for n in range(2, clips + 1) if clips % n == 0 and clips // n >= least]


def blocks(method: nn.Module) -> Iterator[nn.Module]:
    """Yield the trainable entries of outermost module lists: blocks of encoders and decoders.

    Blocks with a batch norm are skipped: its running statistics would see each batch twice.

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


def recompute_blocks(method: nn.Module, how: Recompute) -> None:
    """Set what the :func:`blocks` of ``method`` recompute."""
    for block in blocks(method):
        vars(block).pop("forward", None)
        if how != "off":  # a partial can be copied and pickled with its module
            object.__setattr__(block, "forward", partial(_checkpointed, block, how))


def _checkpointed(block: nn.Module, how: Recompute, *args: Any, **options: Any) -> Any:
    forward = partial(type(block).forward, block, **options)
    if not (block.training and torch.is_grad_enabled()):
        return forward(*args)
    if how == "on":
        return checkpoint(forward, *args, use_reentrant=False)
    contexts = partial(create_selective_checkpoint_contexts, _stored)
    cache = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)  # the second forward pass must make the same casts
    try:
        return checkpoint(forward, *args, use_reentrant=False, context_fn=contexts)
    finally:
        torch.set_autocast_cache_enabled(cache)


def _stored(_context: object, operation: Any, *_args: object, **_options: object) -> CheckpointPolicy:
    """Policy of ``elementwise``: store results of matrix products and attention, compute all others again."""
    name = operation.overloadpacket.__name__
    stored = name in ("mm", "addmm", "bmm", "baddbmm", "convolution") or "attention" in name
    return CheckpointPolicy.MUST_SAVE if stored else CheckpointPolicy.PREFER_RECOMPUTE
