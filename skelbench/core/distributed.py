"""Operations on process groups that do nothing in a single process, so that the same code serves both cases.

Tensors are exchanged on their device: by NCCL on GPUs, by gloo on a CPU. Sizes, flags and objects are exchanged by
gloo on the host, so that no process waits for a device.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from inspect import signature
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from skelbench.core.errors import FailedOnRankZero, PeerLost, SkelbenchError
from skelbench.core.signals import several
from skelbench.core.user_config import said

T = TypeVar("T")

SECONDS = 600
"""Seconds that processes at the same step wait for a silent one."""
_LOST = re.compile(r"NCCL|[Cc]onnection|[Tt]imed out|[Tt]imeout|Broken pipe|[Ss]ocket|remote process")
_SYNC_BUFFERS = "forward_sync_buffers"
"""Name of DDP's option that copies buffers from the first process to all; it depends on the version of PyTorch."""
if _SYNC_BUFFERS not in signature(nn.parallel.DistributedDataParallel).parameters:
    _SYNC_BUFFERS = "broadcast_buffers"
_alone: list[bool] = []
"""Not empty inside :func:`alone`."""
_hosts: dict[str, Any] = {}
"""Groups on the host: "step" waits for :data:`SECONDS`, "patient" for days, during work of a single process."""


def active() -> bool:
    """Whether a process group is up."""
    return dist.is_available() and dist.is_initialized()


def world() -> int:
    """Number of processes; inside :func:`alone` 1."""
    return dist.get_world_size() if active() and not _alone else 1


def rank() -> int:
    """Rank of this process; inside :func:`alone` 0."""
    return dist.get_rank() if active() and not _alone else 0


@contextmanager
def alone() -> Iterator[None]:
    """Treat this process as a single one within the block: for steps of one process, or on devices outside the group.

    >>> with alone():
    ...     world(), rank()
    (1, 0)
    """
    _alone.append(True)
    try:
        yield
    finally:
        _alone.pop()


def start_from_environment(device: str) -> str:
    """Join the process group that ``torchrun`` announces in the environment, if any; returns the own device.

    Raises:
        SkelbenchError: there is no GPU for this process.
        PeerLost: other processes do not come.
    """
    if not several() or _hosts:
        return device
    on_gpu = device.startswith("cuda")
    if on_gpu:
        device = f"cuda:{_own_gpu()}"
        torch.cuda.set_device(device)
    limit, days = timedelta(seconds=said("timeout") or SECONDS), timedelta(days=30)
    with reaching():
        if not active():
            own = torch.device(device) if on_gpu else None
            dist.init_process_group("nccl" if on_gpu else "gloo", timeout=limit, device_id=own)
        _hosts["step"] = dist.new_group(backend="gloo", timeout=limit) if on_gpu else dist.group.WORLD
        _hosts["patient"] = dist.new_group(backend="gloo", timeout=days)
    return device


def _own_gpu() -> int:
    local, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if count == 1:  # a scheduler may show each process only its own GPU
        return 0
    if local >= count:
        raise SkelbenchError(
            f"process {local + 1} on this machine has no GPU of its own, there are {count}; start no more processes "
            f"than that: torchrun --nproc-per-node {count}"
        )
    return local


def leave() -> None:
    """Dissolve the process group."""
    if active():
        _hosts.clear()
        dist.destroy_process_group()
        os.environ["WORLD_SIZE"] = "1"


@contextmanager
def reaching() -> Iterator[None]:
    """Raise :class:`PeerLost` if another process of a collective operation within is gone or silent."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and not (active() and _LOST.search(str(error))):
            raise
        raise PeerLost(
            f"another of the {os.environ.get('WORLD_SIZE', 'several')} processes of this run has ended or does not "
            "respond; run the same command again to continue from the last saved state"
        ) from error


def parallel(module: nn.Module, sync_norms: bool, parts: bool) -> nn.parallel.DistributedDataParallel:
    """Wrap ``module`` so that its backward pass averages gradients over processes. ``sync_norms``: batch norms get the
    statistics of the first process before every forward pass; ``parts``: not every pass reaches every parameter."""
    normed = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules())
    how: dict[str, Any] = {_SYNC_BUFFERS: normed and sync_norms, "find_unused_parameters": parts}
    with reaching():
        return nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True, **how)


def first(work: Callable[[], T]) -> T:
    """Call ``work`` in the first process and return its result in all; the others wait, however long it takes.

    Raises:
        FailedOnRankZero: in the other processes, if ``work`` raised in the first.
    """
    if world() == 1:
        return work()
    word: list[Any] = [None]
    failure: BaseException | None = None
    if not rank():
        try:
            word = [(True, work())]
        except Exception as error:
            failure, word = error, [(False, (str(error), getattr(error, "exit_code", 1)))]
    with reaching():
        dist.broadcast_object_list(word, 0, _hosts["patient"])
    if failure:
        raise failure
    good, value = word[0]
    if not good:
        raise FailedOnRankZero(*value)
    return value


def all_say(value: T) -> list[T]:
    """Values of all processes in the order of ranks; they wait for each other, however long it takes."""
    if world() == 1:
        return [value]
    heard: list[Any] = [None] * world()
    with reaching():
        dist.all_gather_object(heard, value, _hosts["patient"])
    return heard


def own_share(count: int) -> slice:
    """Slice of ``count`` items that belongs to this process; sizes differ by one at most, in the order of ranks."""
    base, more = divmod(count, world())
    start = rank() * base + min(rank(), more)
    return slice(start, start + base + (rank() < more))


def own_pieces(count: int, piece: int) -> tuple[range, bool]:
    """(starts of the pieces of this process, whether other processes have pieces), for ``count`` items in pieces of
    ``piece``. With fewer pieces than processes each process does all. Whole pieces give the same bits everywhere."""
    starts = range(0, count, piece)
    shared = 1 < world() <= len(starts)
    return starts[own_share(len(starts))] if shared else starts, shared


def all_reduce_sum(x: Tensor) -> Tensor:
    """Sum over processes, in place, without gradient."""
    if world() > 1:
        with reaching():
            dist.all_reduce(x)
    return x


def spread(x: Tensor) -> Tensor:
    """Population standard deviation along dim 0 over the rows of all processes; no gradient."""
    x = x.detach()
    if world() == 1:
        return x.std(0, correction=0)
    count = all_reduce_sum(x.new_tensor(len(x)))
    mean = all_reduce_sum(x.sum(0)) / count
    return (all_reduce_sum((x - mean).square().sum(0)) / count).sqrt()


def any_rank(*flags: bool) -> list[bool]:
    """Whether each of ``flags`` is set in any process, so that all stop at the same step. Waits for no device."""
    if world() == 1:
        return list(flags)
    counts = torch.tensor(flags, dtype=torch.int64)
    with reaching():
        dist.all_reduce(counts, group=_hosts["step"])
    return [count > 0 for count in counts.tolist()]


def mean_figures(figures: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Mean of each number over processes: the mean of the batch for values of :func:`global_mean`. No gradient, and no
    wait for a device."""
    if world() == 1:
        return dict(figures)
    device = figures["loss"].device
    local = torch.stack([x.detach().to(device, torch.float32, non_blocking=True).reshape(()) for x in figures.values()])
    return dict(zip(figures, all_reduce_sum(local).div_(world()).unbind()))


def global_mean(total: Tensor, count: Tensor | float) -> Tensor:
    """``sum of totals / sum of counts`` over processes, scaled so that DDP's gradient averaging gives its gradient.

    On each process the value is world * total / global count; the mean over processes is the global mean.
    """
    if not isinstance(count, Tensor):  # created on the device: a copy from the host would wait for the queue
        count = total.new_full((), count, dtype=torch.float32)
    count = count.to(total.device, torch.float32)
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

    For statistics of the global batch, from which every process computes the same loss. Each process has the gradient
    of its own ``x``, and the backward pass needs no communication.
    """
    return _GlobalSum.apply(x) if world() > 1 else x


def global_rows(x: Tensor) -> Tensor:
    """Concatenate ``x`` of all processes along dim 0 in rank order (sizes may differ), with gradient as for
    :func:`global_sum`."""
    if world() == 1:
        return x
    sizes = _sizes(len(x))
    before, after = sum(sizes[: rank()]), sum(sizes[rank() + 1 :])
    return global_sum(torch.cat([x.new_zeros(before, *x.shape[1:]), x, x.new_zeros(after, *x.shape[1:])]))


def gather(x: Tensor) -> Tensor:
    """Concatenate ``x`` of all processes along dim 0 in rank order (sizes may differ); no gradient."""
    x = x.detach()
    if world() == 1:
        return x
    sizes = _sizes(len(x))
    padded = x.new_zeros(max(sizes), *x.shape[1:])
    padded[: len(x)] = x
    pieces = [torch.empty_like(padded) for _ in sizes]
    with reaching():
        dist.all_gather(pieces, padded, group=None if x.is_cuda else _hosts["step"])
    return torch.cat([piece[:size] for piece, size in zip(pieces, sizes)])


def own_place(size: int) -> tuple[int, int]:
    """(first row of this process in the order of :func:`gather`, number of rows of all processes).

    >>> own_place(3)
    (0, 3)
    """
    sizes = _sizes(size) if world() > 1 else [size]
    return sum(sizes[: rank()]), sum(sizes)


def _sizes(size: int) -> list[int]:
    """Sizes of all processes. Waits for no device."""
    counts = [torch.zeros((), dtype=torch.int64) for _ in range(world())]
    with reaching():
        dist.all_gather(counts, torch.tensor(size), group=_hosts["step"])
    return [int(count) for count in counts]
