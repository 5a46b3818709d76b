"""Batch norm with the statistics of the batch of all processes."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from skelbench.core.distributed import all_reduce_sum, world

M = TypeVar("M", bound=nn.Module)


def synchronized(module: M, device: torch.device) -> M:
    """Return ``module`` with batch norms over the batch of all processes: PyTorch's on GPUs, our own on CPUs, where
    PyTorch has none."""
    if device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(module)
    for part in module.modules():
        if isinstance(part, _BatchNorm):
            part.__class__ = GlobalBatchNorm  # weights, statistics and mode stay
    return module


def on_any_device(module: M) -> M:
    """Replace PyTorch's synchronized batch norms in ``module`` by ours, because they reject CPU tensors."""
    for part in module.modules():
        if isinstance(part, nn.SyncBatchNorm):
            part.__class__ = GlobalBatchNorm  # type: ignore[assignment]
    return module


class _Sum(torch.autograd.Function):
    """Sum over processes; the gradient is summed too, because the loss of each process depends on the result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return all_reduce_sum(x.clone())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return all_reduce_sum(grad.clone())


class GlobalBatchNorm(_BatchNorm):
    """Batch norm over the batch of all processes, on a CPU too; processes may have different numbers of clips.

    >>> GlobalBatchNorm(2)(torch.zeros(4, 2, 3)).shape
    torch.Size([4, 2, 3])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of dimensions will do."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalize [B, C, ...] over all dimensions but C."""
        if world() == 1 or not self.training and self.track_running_stats:
            return super().forward(input)
        x_BCN = input.float().flatten(2) if input.dim() > 2 else input.float()[..., None]
        ones_1 = x_BCN.new_full((1,), x_BCN.shape[0] * x_BCN.shape[2])
        sums = _Sum.apply(torch.cat([x_BCN.sum((0, 2)), ones_1]))
        count, mean_C = sums[-1].detach(), sums[:-1] / sums[-1].detach()
        apart_BCN = x_BCN - mean_C[:, None]
        variance_C = _Sum.apply(apart_BCN.square().sum((0, 2))) / count
        if self.training and self.num_batches_tracked is not None:
            assert self.running_mean is not None and self.running_var is not None
            self.num_batches_tracked.add_(1)
            share = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean_C.detach(), share)
            self.running_var.lerp_(variance_C.detach() * count / (count - 1), share)
        y_BCN = apart_BCN * (variance_C + self.eps).rsqrt()[:, None]
        if self.affine:
            y_BCN = y_BCN * self.weight[:, None] + self.bias[:, None]
        return y_BCN.reshape(input.shape).to(input.dtype)
