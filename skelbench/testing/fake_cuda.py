"""Running modules on a GPU that is not there: every tensor has a shape and a device, none has values.

Under PyTorch's ``FakeTensorMode`` an operation on tensors of two devices fails, as it would on a GPU. Operations whose
result depends on values (``.item()``, ``if x.sum() > 0``) fail as well: on a GPU each makes the host wait. So does a
copy to the host, which :class:`OnDevice` refuses. Tensors whose shape depends on values (``nonzero``) are given unknown
sizes.

What cannot be followed: code that decides by such an unknown size, and the builder of views, which draws values on the
host. The gradients are computed node by node in Python: PyTorch's own engine asks the driver for streams, and where
PyTorch is built for CUDA and there is no device it refuses to run.
"""

from __future__ import annotations

import copy
import logging
import os
import traceback
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from skelbench.plugin.mistakes import Mistake
from skelbench.testing.check import Failed, Skipped
from skelbench.views.view import View

DEVICE = torch.device("cuda", 0)
EXPECTED = "every tensor of a step on the device of the views, and nothing copied to the host"
ADVICE = "make tensors with device=x.device, and keep constants as buffers (register_buffer)"

Module = TypeVar("Module", bound=nn.Module)


class HostCopy(RuntimeError):
    """Something was copied from the device to the host."""


class OnDevice(TorchDispatchMode):
    """Refuses copies from the device to the host."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        copies = func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
        if copies and result.device.type == "cpu" and any(isinstance(x, Tensor) and x.is_cuda for x in args):
            raise HostCopy("a tensor is copied to the host, which waits for the device")
        return result


@contextmanager
def fake_cuda() -> Iterator[None]:
    """Within, tensors have no values; :func:`on_device` makes those of the device.

    Raises:
        Failed: an operation mixed devices, copied to the host or asked for a value; with the line.
        Skipped: what was run cannot be followed without values.
    """
    # The engine counts devices at its first use in a process; it must find none before a fake one is announced, else
    # it starts a thread for it, and no process could be forked any more.
    torch.ones((), requires_grad=True).mul(1.0).backward()
    shapes = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=True)
    log = logging.getLogger("torch._subclasses.fake_tensor")  # tells failures that are told here
    silent, log.disabled = log.disabled, True
    try:
        with FakeTensorMode(allow_non_fake_inputs=True, shape_env=shapes), OnDevice():
            try:
                yield
            except Mistake as error:  # what a user reads; here the reason decides
                raise error.__cause__ or error from None
    except GuardOnDataDependentSymNode as error:
        raise Skipped(f"{_where(error)} decides by a size that depends on values, which shapes do not tell") from error
    except (DynamicOutputShapeException, UnsupportedFakeTensorException) as error:
        raise Skipped(f"{_where(error)} cannot be run without values: {_first_line(error)}") from error
    except DataDependentOutputException as error:
        raise Failed(
            EXPECTED, f"the value of a tensor is asked for ({error.func}), which waits for the device", _where(error)
        ) from error
    except torch.AcceleratorError as error:
        raise Skipped(f"{_where(error)} calls a kernel that a GPU alone has") from error
    except HostCopy as error:
        raise Failed(EXPECTED, str(error), _where(error)) from error
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
    memo: dict[int, Any] = {}
    for parameter in module.parameters():
        memo[id(parameter)] = nn.Parameter(_like(parameter), parameter.requires_grad)
    for buffer in module.buffers():
        memo[id(buffer)] = _like(buffer)
    with _disable_current_modes():  # what it holds besides is copied as it is
        return copy.deepcopy(module, memo)


def view_on_device(view: View) -> View:
    """``view`` on the device. Inside :func:`fake_cuda`."""
    moved: dict[str, Any] = {name: _like(x) for name, x in vars(view).items() if isinstance(x, Tensor)}
    return replace(view, **moved)


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


def _like(x: Tensor) -> Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=DEVICE)


_TORCH = os.path.dirname(torch.__file__) + os.sep


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
