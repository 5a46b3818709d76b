"""Process-group primitives that do nothing on one process, so that one code path serves both."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def active() -> bool:
    """Whether a process group is up."""
    return dist.is_available() and dist.is_initialized()


def world() -> int:
    """Number of processes."""
    return dist.get_world_size() if active() else 1


def rank() -> int:
    """This process, 0-based."""
    return dist.get_rank() if active() else 0


def start_from_environment(device: str) -> str:
    """Join the group that ``torchrun`` announces in the environment, if any; returns this process's device."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or active():
        return device
    if device.startswith("cuda"):
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return device


def leave() -> None:
    """Dissolve the process group: from here on every process is on its own."""
    if active():
        dist.destroy_process_group()


def all_reduce_sum(x: Tensor) -> Tensor:
    """Sum over processes, in place, without gradient."""
    if world() > 1:
        dist.all_reduce(x)
    return x


def barrier() -> None:
    """Wait for all processes."""
    if world() > 1:
        dist.barrier()


def least(value: float, device: torch.device) -> float:
    """The smallest ``value`` of all processes."""
    if world() > 1:
        smallest = torch.tensor(value, dtype=torch.float64, device=device)
        dist.all_reduce(smallest, dist.ReduceOp.MIN)
        value = float(smallest)
    return value


def any_rank(flag: bool, device: torch.device) -> bool:
    """Whether ``flag`` is set on any process: all stop at the same step, or none."""
    if world() == 1:
        return flag
    return bool(all_reduce_sum(torch.tensor(float(flag), device=device)))


def global_mean(total: Tensor, count: Tensor | float) -> Tensor:
    """``sum of totals / sum of counts`` over processes, scaled so that DDP's gradient averaging gives its gradient.

    On each process the value is world * total / global count; the mean over processes is the global mean.
    """
    count = torch.as_tensor(count, dtype=torch.float32, device=total.device)
    if world() > 1:
        count = all_reduce_sum(count.clone())
    return total * world() / count.clamp(min=1e-12)


class _GlobalSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return all_reduce_sum(x.clone())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * world()


def global_sum(x: Tensor) -> Tensor:
    """Sum over processes, with the gradient that DDP's averaging turns into the right one.

    For statistics of the global batch that every process makes the same loss of: then each process has its own ``x``'s
    part of the gradient, and backward needs no communication.
    """
    return _GlobalSum.apply(x) if world() > 1 else x


def global_rows(x: Tensor) -> Tensor:
    """Concatenate ``x`` of all processes along dim 0 in rank order (sizes may differ), with gradient as for
    :func:`global_sum`."""
    if world() == 1:
        return x
    sizes = gather(torch.tensor([len(x)], device=x.device)).tolist()
    before, after = sum(sizes[: rank()]), sum(sizes[rank() + 1 :])
    return global_sum(torch.cat([x.new_zeros(before, *x.shape[1:]), x, x.new_zeros(after, *x.shape[1:])]))


def gather(x: Tensor) -> Tensor:
    """Concatenate ``x`` of all processes along dim 0 in rank order (sizes may differ); no gradient."""
    x = x.detach()
    if world() == 1:
        return x
    sizes = [torch.zeros(1, dtype=torch.int64, device=x.device) for _ in range(world())]
    dist.all_gather(sizes, torch.tensor([len(x)], device=x.device))
    longest = int(max(sizes))
    padded = x.new_zeros(longest, *x.shape[1:])
    padded[: len(x)] = x
    pieces = [torch.empty_like(padded) for _ in range(world())]
    dist.all_gather(pieces, padded)
    return torch.cat([piece[: int(size)] for piece, size in zip(pieces, sizes)])
