"""Running code on a GPU that is not there: tensors of the host are real, those of the GPU have a shape and no values.

What a tensor of the GPU takes part in runs under PyTorch's ``FakeTensorMode``: an operation on tensors of two devices
fails, as it would on a GPU. So does what makes the host wait for the device: a value that is asked for (``.item()``,
``if x.sum() > 0``), a copy either way that is not ``non_blocking``, an index on the host or in a list, a size that
depends on values (``nonzero``, a mask as an index). Where waiting is meant (:func:`~skelbench.views.transfer.waiting`)
values are 1.0, 0 or true, and every entry counts as nonzero. Streams, events, pinned memory, generators and threads are
stood in for.

What cannot be followed: kernels (whether there is one, what it computes, how much memory it takes), races between
streams, code that decides by an unknown size. The gradients are computed node by node in Python: PyTorch's own engine
asks the driver for streams, and where PyTorch is built for CUDA and there is no device it refuses to run.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from typing import Any, TypeVar
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    unset_fake_temporarily,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from skelbench.data.store import source
from skelbench.evaluation.cost.peak import view_without_values, without_values
from skelbench.plugin.plugin_errors import Mistake
from skelbench.testing.check import Failed, Skipped
from skelbench.views import prefetch, transfer
from skelbench.views.view import View

DEVICE = torch.device("cuda", 0)
EXPECTED = "every tensor of a step on the device of the views, and nothing that waits for the device"
ADVICE = "make tensors with device=x.device, and keep constants as buffers (register_buffer)"
aten = torch.ops.aten
COPIES = (aten._to_copy.default, aten.copy_.default)
INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)

Module = TypeVar("Module", bound=nn.Module)


class Waits(RuntimeError):
    """The host would wait for the device."""


class FakeGpu(TorchDispatchMode):
    """Runs what concerns the GPU without values, all else as it is. ``strict``: waiting is refused where it is not said
    to be meant, else it is only counted."""

    def __init__(self, strict: bool) -> None:
        super().__init__()
        self.strict = strict
        self.waits: list[str] = []
        """Lines at which the host would have waited."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = {name: value for name, value in (kwargs or {}).items() if name != "pin_memory"}
        device = kwargs.get("device")
        there = device is not None and torch.device(device).type == "cuda"
        if not there and not any(isinstance(x, FakeTensor) for x in tree_leaves((args, kwargs))):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        why = _why_it_waits(func, args, kwargs, there)
        if why:
            if self.strict and not transfer.may_wait():
                raise Waits(why)
            self.waits.append(_line())
        if func is aten._local_scalar_dense.default:
            with unset_fake_temporarily():
                return _values(args[0], args[0].dtype).item()
        if func is aten.nonzero.default and not isinstance(args[0].numel(), torch.SymInt):
            return torch.empty(args[0].numel(), args[0].dim(), dtype=torch.int64, device=DEVICE)
        if func is aten.index.Tensor and why:
            return func(args[0], [index for x in args[1] for index in _all_of(x)])
        if func is aten._to_copy.default and args[0].is_cuda and device is not None and not there:
            with unset_fake_temporarily():
                return _values(args[0], kwargs.get("dtype") or args[0].dtype)
        if func is aten.copy_.default and not args[0].is_cuda:
            with unset_fake_temporarily():
                return args[0].zero_()
        return func(*args, **kwargs)


def _why_it_waits(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], there: bool) -> str:
    """Why the host would wait for the device in an operation; "" where it would not."""
    if func is aten._local_scalar_dense.default:
        return "the value of a tensor is asked for"
    if func in COPIES:
        source = args[1] if func is aten.copy_.default else args[0]
        target_there = (
            args[0].is_cuda if func is aten.copy_.default else there or ("device" not in kwargs and source.is_cuda)
        )
        blocking = not (kwargs.get("non_blocking") or (func is aten.copy_.default and len(args) > 2 and args[2]))
        if source.is_cuda != target_there and blocking:
            what = "to the host" if source.is_cuda else "from the host"
            return f"a tensor is copied {what}"
    if func in INDEXED and args[0].is_cuda:
        indices = [x for x in args[1] if x is not None]
        if any(not x.is_cuda for x in indices):
            return "an index is copied from the host"
        if any(x.dtype in (torch.bool, torch.uint8) for x in indices):
            return "a mask is an index, of which the device must say how many entries it has"
        if len(args) > 2 and not args[2].is_cuda:
            return "a value to be assigned is copied from the host"
    if torch.Tag.dynamic_output_shape in func.tags and func not in INDEXED:
        return f"the device must say what size the result of {func.overloadpacket.__name__} has"
    return ""


def _values(x: Tensor, dtype: torch.dtype) -> Tensor:
    """What stands for the values of ``x``: a number that can be divided by, the first place, what holds."""
    return torch.full(x.shape, x.is_floating_point() or x.dtype is torch.bool, dtype=dtype)


def _all_of(index: Tensor | None) -> list[Tensor | None]:
    """As indices, a mask that holds everywhere."""
    if index is None or index.dtype is not torch.bool:
        return [index]
    return list(torch.zeros(index.dim(), index.numel(), dtype=torch.int64, device=DEVICE))


class _HostGenerator(torch.Generator):
    """A generator of the GPU, which only there can be made."""

    def __new__(cls, device: Any = "cpu") -> _HostGenerator:
        return super().__new__(cls)


class _Stream:
    """A stream on which everything is done at once."""

    def __init__(self, *_: Any) -> None: ...

    def record_event(self) -> _Stream:
        return self

    def _nothing(self, *_: Any) -> None: ...

    wait_event = wait_stream = synchronize = _nothing


class _AtOnce(Executor):
    """Threads would know nothing of the GPU that is not there."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def _stream(_: Any) -> Iterator[None]:
    yield


def _stand_ins() -> ExitStack:
    """What needs a driver does nothing."""
    stack = ExitStack()
    cuda = {"Stream": _Stream, "stream": _stream, "current_stream": _Stream, "mem_get_info": lambda *_: (0, 0)}
    cuda |= {"is_bf16_supported": lambda **_: True, "synchronize": lambda *_: None}
    cuda |= {"get_rng_state": lambda *_: None, "set_rng_state": lambda *_: None}
    for name, stand_in in cuda.items():
        stack.enter_context(mock.patch.object(torch.cuda, name, stand_in))
    stack.enter_context(mock.patch.object(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False))
    stack.enter_context(mock.patch.object(torch, "Generator", _HostGenerator))
    for module in (prefetch, source):
        stack.enter_context(mock.patch.object(module, "ThreadPoolExecutor", _AtOnce))
    for name, method in {"backward": backward, "pin_memory": lambda x: x, "record_stream": lambda *_: None}.items():
        stack.enter_context(mock.patch.object(Tensor, name, method))
    return stack


@contextmanager
def fake_cuda(strict: bool = True) -> Iterator[FakeGpu]:
    """Within, the GPU ``DEVICE`` is there, and its tensors have no values; :func:`on_device` brings modules to it.

    Raises:
        Failed: an operation mixed devices or, ``strict``, waited for the device where it was not meant; with the line.
        Skipped: what was run cannot be followed without values.
    """
    # The engine counts devices at its first use in a process; it must find none before a fake one is announced, else
    # it starts a thread for it, and no process could be forked any more.
    torch.ones((), requires_grad=True).mul(1.0).backward()
    log = logging.getLogger("torch._subclasses.fake_tensor")  # tells failures that are told here
    silent, log.disabled = log.disabled, True
    try:
        shapes = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=True)
        with _stand_ins(), FakeTensorMode(allow_non_fake_inputs=True, shape_env=shapes), FakeGpu(strict) as gpu:
            try:
                yield gpu
            except Mistake as error:  # what a user reads; here the reason decides
                raise error.__cause__ or error from None
    except GuardOnDataDependentSymNode as error:
        raise Skipped(f"{_where(error)} decides by a size that depends on values, which shapes do not tell") from error
    except (DynamicOutputShapeException, UnsupportedFakeTensorException, DataDependentOutputException) as error:
        raise Skipped(f"{_where(error)} cannot be run without values: {_first_line(error)}") from error
    except torch.AcceleratorError as error:
        raise Skipped(f"{_where(error)} calls a kernel that a GPU alone has") from error
    except Waits as error:
        raise Failed(EXPECTED, f"{error}, for which the host waits", _where(error)) from error
    except RuntimeError as error:
        if "device" not in str(error):
            raise
        raise Failed(EXPECTED, f"{_first_line(error)}; {ADVICE}", _where(error)) from error
    finally:
        log.disabled = silent


def on_device(module: Module) -> Module:
    """A copy of ``module`` whose parameters and buffers are on the device; what else it holds stays where it is.

    Inside :func:`fake_cuda`.
    """
    return without_values(module, DEVICE)


def view_on_device(view: View) -> View:
    """``view`` on the device. Inside :func:`fake_cuda`."""
    return view_without_values(view, DEVICE)


def backward(loss: Tensor) -> None:
    """``loss.backward()``, node by node. Inside :func:`fake_cuda`; hooks of tensors are not called."""
    assert loss.grad_fn is not None
    waiting: dict[Any, int] = defaultdict(int)
    seen, todo = {loss.grad_fn}, [loss.grad_fn]
    while todo:
        for after, _ in todo.pop().next_functions:
            if after is not None:
                waiting[after] += 1
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
    held: dict[Any, dict[int, Tensor]] = defaultdict(dict)
    held[loss.grad_fn][0] = torch.ones_like(loss)
    ready = [loss.grad_fn]
    while ready:
        node: Any = ready.pop()
        given = held.pop(node, {})
        outputs = getattr(node, "_input_metadata", [])
        gradients = [given.get(i) for i in range(max(1, len(outputs)))]
        edges = node.next_functions
        if not given:
            results: Any = ()
        elif callable(node):
            results = node(*gradients)
            results = results if isinstance(results, tuple) else (results,)
        else:  # an autograd.Function, which also returns one for each argument that is no tensor
            results = node.apply(*gradients)
            results = results if isinstance(results, tuple) else (results,)
            results = [result for result, needed in zip(results, node.needs_input_grad) if needed]
            edges = [edge for edge in edges if edge[0] is not None]
        for (after, index), gradient in zip_longest(edges, results):
            if after is None:
                continue
            if gradient is not None:
                shape = after._input_metadata[index].shape
                gradient = gradient if gradient.shape == shape else gradient.sum_to_size(shape)  # it was broadcast
                before = held[after].get(index)
                held[after][index] = gradient if before is None else before + gradient
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)


_TORCH = os.path.dirname(torch.__file__) + os.sep


def _line() -> str:
    """``file.py, line 12 (fit)`` of the innermost frame outside PyTorch, this file and what copies for others."""
    frame = sys._getframe(1)
    passed = (_TORCH, __file__, transfer.__file__, "<")
    while frame.f_back is not None and frame.f_code.co_filename.startswith(passed):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}, line {frame.f_lineno} ({frame.f_code.co_name})"


def _where(error: BaseException) -> str:
    """``file.py, line 12 (training_step)``: the last frame outside PyTorch."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_TORCH, "<")) and frame.filename != __file__
    ]
    return f"{frames[-1].filename}, line {frames[-1].lineno} ({frames[-1].name})" if frames else ""


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
